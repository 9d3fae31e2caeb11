package experiment

import (
	"encoding/json"

	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/nixl/device"
)

// DescribeHosts adds the hardware of each host to the result: the lowest rank of a host reads it. Where a result of one
// host is kept, it adds how fast memory is copied there. All ranks call it.
func (e *Experiment) DescribeHosts() error {
	w := e.World
	var mine []byte
	if host := w.Hosts()[w.HostOf(w.Rank())]; host.Ranks[0] == w.Rank() {
		gpus, err := device.GPUs()
		if err != nil {
			w.Log().Warn("GPUs cannot be listed", "reason", err)
		}
		if mine, err = json.Marshal(readHardware("/", gpus)); err != nil {
			return fault.New(fault.Internal, "describe the hardware: %w", err)
		}
	}
	all, err := w.All().Gather(0, mine)
	if err != nil || all == nil {
		return err
	}
	if e.File != "" && w.OneHost() {
		e.Doc.World.Hosts[0].Memcpy = timeCopies()
	}
	for i := range e.Doc.World.Hosts {
		h := &e.Doc.World.Hosts[i]
		h.Hardware = new(result.Hardware)
		if err := json.Unmarshal(all[h.Ranks[0]], h.Hardware); err != nil {
			return fault.New(fault.Internal, "the hardware of %s: %w", h.Name, err)
		}
	}
	return nil
}
