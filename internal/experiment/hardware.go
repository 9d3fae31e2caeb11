package experiment

import (
	"perigee/internal/result"
	"perigee/nixl/device"
	"perigee/spmd"
)

// DescribeHosts adds the hardware of each host to the result: the lowest rank of a host reads it. Where a result of one
// host is kept, it adds how fast memory is copied there. All ranks call it.
func (e *Experiment) DescribeHosts() error {
	w := e.World
	var mine *result.Hardware
	if w.LeadsHost() {
		gpus, err := device.GPUs()
		if err != nil {
			w.Log().Warn("GPUs cannot be listed", "reason", err)
		}
		mine = readHardware("/", gpus)
	}
	all, err := spmd.GatherValue(w.All(), 0, mine)
	if err != nil || all == nil {
		return err
	}
	if e.File != "" && w.OneHost() {
		e.Doc.World.Hosts[0].Memcpy = timeCopies()
	}
	for i := range e.Doc.World.Hosts {
		h := &e.Doc.World.Hosts[i]
		h.Hardware = all[h.Ranks[0]]
	}
	return nil
}
