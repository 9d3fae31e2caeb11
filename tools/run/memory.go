package run

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/internal/kit/size"
)

// watchEvery is how often a rank looks at its own memory.
const watchEvery = 100 * time.Millisecond

// watchMemory ends the job before what a scenario keeps, such as tables that grow, fills the machine: the kernel would
// kill some process of it. A rank may take more than its part of what was available at the start as long as the host
// has plenty left. Buffers of transfers do not count, they are checked when they are allocated; recorded runs are
// counted by package experiment, before they start. Where the process has limits, Go's runtime would end it there,
// without a result: the rank may take half of what they leave, and is looked at more often. What a script takes at
// once, a text or a list that grows, is less than the other half, unless a limit is near what any job takes.
func (k *rank) watchMemory(available int64, left func() (int64, error)) {
	ranks := len(k.world.Hosts()[k.world.HostOf(k.world.Rank())].Ranks)
	part := uint64(memory.Usable(available)) / uint64(ranks)
	every, own, command := watchEvery, uint64(math.MaxInt64), ""
	if left, name := memory.Limited(); name != "" {
		left = max(left/2, 64<<20) // which any job may take
		every, own, command = watchEvery/10, uint64(left), name
		// Garbage is collected before it is taken for what the scenario keeps, also while a job ends that has too much.
		debug.SetMemoryLimit(left)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-k.world.Context().Done():
			return
		case <-tick.C:
		}
		took := heapBytes()
		if took > own {
			k.world.Fail(beyondLimit(took, int64(own), command))
			return
		}
		if took <= part {
			continue
		}
		if free, err := left(); err != nil || free < available/5 {
			k.world.Fail(tooMuchMemory(took, available, ranks))
			return
		}
	}
}

// heapBytes counts the bytes of objects in the heap, with those that are no longer used but not yet swept.
func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func tooMuchMemory(took uint64, available int64, ranks int) error {
	return fault.New(fault.Resource, "the scenario has filled %s of memory; %s were available at the start, for %s",
		size.Decimal(int64(took)), size.Decimal(available), cli.Count(ranks, "rank")).
		WithHint("let it keep less: collect runs more often, fewer iterations, smaller tables; or give each host fewer ranks")
}

func beyondLimit(took uint64, own int64, command string) error {
	return fault.New(fault.Resource, "the scenario has filled %s of memory; %s is half of what the limit of the process (%s) left at the start",
		size.Decimal(int64(took)), size.Decimal(own), command).
		WithHint("raise the limit; or let it keep less: collect runs more often, fewer iterations, smaller tables")
}
