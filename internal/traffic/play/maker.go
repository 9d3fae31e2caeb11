package play

import (
	"errors"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/nixl"
)

// maker prepares the batches of a part that is measured. Its caller holds the part's lane.
type maker struct {
	plan   *LoadPlan
	part   *part
	repeat Repeat
	list   []load.Transfer
	picks  []nixl.Pick  // with prepared lists
	more   []nixl.Batch // of a pipeline, beside the part's
}

// start prepares the batches that are under way together, of which the part's is the first.
func (m *maker) start() ([]nixl.Batch, error) {
	if m.repeat.Prepared {
		if err := m.prepareLists(); err != nil {
			return nil, err
		}
		if err := m.replace(); err != nil {
			return nil, err
		}
	}
	for range m.repeat.Depth - 1 {
		b, err := m.batch()
		if err != nil {
			return nil, err
		}
		m.more = append(m.more, b)
	}
	return append([]nixl.Batch{m.part.batch}, m.more...), nil
}

// again registers the memory anew, where that is wanted, and prepares the part's batch anew. It returns how long both
// took, in nanoseconds.
func (m *maker) again() (ns int64, err error) {
	if m.repeat.Reregister {
		if ns, err = m.reregister(); err != nil {
			return 0, err
		}
	}
	if err := m.replace(); err != nil {
		return 0, err
	}
	return ns + m.part.batch.Prep(), nil
}

// reregister registers the buffers of this side anew. The part's batch and its lists are released before, outside of
// the time.
func (m *maker) reregister() (ns int64, err error) {
	if err := m.explain(m.part.batch.Release()); err != nil {
		return 0, err
	}
	m.releaseLists()
	done := map[int]bool{}
	began := clock.Now()
	for _, t := range m.list {
		local, _ := m.part.Buffer(t.Local)
		if done[local.ID()] {
			continue
		}
		done[local.ID()] = true
		err := m.part.Agent().Reregister(local.ID())
		if errors.Is(err, nixl.ErrNoRegistration) {
			return 0, fault.New(fault.Usage, "register the memory anew: %w", err).WithHint("--engine nixl does")
		}
		if err != nil {
			return 0, m.explain(err)
		}
	}
	if m.repeat.Prepared {
		err = m.prepareLists()
	}
	return clock.Now() - began, err
}

// prepareLists prepares a list of descriptors for each end of the transfers.
func (m *maker) prepareLists() error {
	agent := m.part.Agent()
	m.picks = nil
	for _, t := range m.part.Transfers(m.list) {
		if t.Peer == nixl.Self {
			return fault.New(fault.Input, "%s: files have no prepared lists", m.plan.what(m.part))
		}
		local, err := agent.PrepareList(nixl.Self, t.LocalBuffer, t.Local)
		if err != nil {
			return m.explain(err)
		}
		remote, err := agent.PrepareList(t.Peer, t.RemoteBuffer, t.Remote)
		if err != nil {
			return m.explain(err)
		}
		all := make([]int32, len(t.Local))
		for i := range all {
			all[i] = int32(i)
		}
		m.picks = append(m.picks, nixl.Pick{
			Op: t.Op, Local: local, Remote: remote, LocalIndex: all, RemoteIndex: all, Notice: t.Notice,
		})
	}
	return nil
}

// replace prepares the part's batch anew.
func (m *maker) replace() error {
	if err := m.explain(m.part.batch.Release()); err != nil {
		return err
	}
	b, err := m.batch()
	if err == nil {
		m.part.batch = b
	}
	return err
}

func (m *maker) batch() (b nixl.Batch, err error) {
	if m.picks != nil {
		b, err = m.part.Agent().PickBatch(m.picks)
	} else {
		b, err = m.part.BatchHeld(m.list)
	}
	if err != nil {
		return nil, fault.New(session.KindOf(err), "prepare %s: %w", m.plan.what(m.part), err)
	}
	return b, nil
}

func (m *maker) explain(err error) error {
	if err == nil {
		return nil
	}
	return session.Explain(m.plan.s.World(), m.plan.what(m.part), err)
}

// release frees what only the measurement needed.
func (m *maker) release() {
	for _, b := range m.more {
		b.Release()
	}
	m.releaseLists()
}

func (m *maker) releaseLists() {
	for _, k := range m.picks {
		k.Local.Release()
		k.Remote.Release()
	}
	m.picks = nil
}
