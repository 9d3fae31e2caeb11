package run

import (
	"runtime/metrics"
	"time"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/memory"
	"perigee/internal/size"
)

// watchEvery is how often a rank looks at its own memory.
const watchEvery = 100 * time.Millisecond

// watchMemory ends the job before what a scenario keeps, such as tables that grow, fills the machine: the kernel would
// kill some process of it. A rank may take more than its part of what was available at the start as long as the host
// has plenty left. Buffers of transfers do not count, they are checked when they are allocated; recorded runs are
// counted by package experiment, before they start.
func (k *rank) watchMemory(available int64, left func() (int64, error)) {
	ranks := len(k.world.Hosts()[k.world.HostOf(k.world.Rank())].Ranks)
	part := uint64(memory.Usable(available)) / uint64(ranks)
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-k.world.Context().Done():
			return
		case <-tick.C:
		}
		metrics.Read(heap)
		took := heap[0].Value.Uint64()
		if took <= part {
			continue
		}
		if free, err := left(); err != nil || free < available/5 {
			k.world.Fail(tooMuchMemory(took, available, ranks))
			return
		}
	}
}

func tooMuchMemory(took uint64, available int64, ranks int) error {
	return fault.New(fault.Resource, "the scenario has filled %s of memory; %s were available at the start, for %s",
		size.Decimal(int64(took)), size.Decimal(available), cli.Count(ranks, "rank")).
		WithHint("let it keep less: collect runs more often, fewer iterations, smaller tables; or give each host fewer ranks")
}
