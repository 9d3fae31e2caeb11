package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"perigee/internal/kit/fault"
	"perigee/spmd"
	"perigee/spmd/boot"
)

// meetLimit is how long the ranks may take to meet. It is less than that of a job: who calls the
// doctor wants to know what is wrong.
const meetLimit = 30 * time.Second

// together examines the hosts of all ranks. mine is false at ranks other than 0, which get
// no findings. Without a launcher it is this host alone. Where the ranks cannot meet
// this host's findings come back beside the error.
func together(ctx context.Context, m machine) (all []Finding, mine bool, err error) {
	origin, started, err := boot.OriginOf(m.env)
	if err != nil || !started {
		return examine(m, origin.Host), true, nil // which reports the error itself
	}
	ctx, cancel := context.WithTimeoutCause(ctx, meetLimit, fault.New(fault.Launch, "not all ranks came within %v",
		meetLimit))
	defer cancel()
	p, err := boot.Join(ctx, m.env, boot.Watcher{})
	if err != nil {
		return examine(m, origin.Host), true, err
	}
	w, err := spmd.Join(ctx, p, spmd.Options{Timeout: time.Minute})
	if err != nil {
		return examine(m, origin.Host), true, err
	}
	all, err = gather(w, m)
	if err != nil {
		err = w.Fail(err)
	}
	if closed := w.Close(); err == nil {
		err = closed
	}
	return all, w.Rank() == 0, err
}

// gather brings to rank 0 what the first rank of each host finds there.
func gather(w *spmd.World, m machine) (all []Finding, err error) {
	var own []byte
	if host := w.Hosts()[w.HostOf(w.Rank())]; host.Ranks[0] == w.Rank() {
		if own, err = json.Marshal(examine(m, host.Name)); err != nil {
			return nil, err
		}
	}
	parts, err := w.All().Gather(0, own)
	if err != nil {
		return nil, err
	}
	for rank, data := range parts {
		if len(data) == 0 {
			continue
		}
		var findings []Finding
		if err := json.Unmarshal(data, &findings); err != nil {
			return nil, fmt.Errorf("the findings of rank %d: %w", rank, err)
		}
		all = append(all, findings...)
	}
	return all, nil
}
