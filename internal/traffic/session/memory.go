package session

import (
	"math"

	"perigee/internal/fault"
	"perigee/internal/size"
	"perigee/nixl"
)

// allocate takes new buffers where a step needs larger ones. The old ones stay as long as the
// agent, for the plans that use them.
func (s *Session) allocate(step *step) error {
	if !step.grows() {
		return nil
	}
	if err := s.checkMemory(step); err != nil {
		return err
	}
	// No rank allocates before all are known to have enough.
	if err := s.world.All().Barrier(); err != nil {
		return err
	}
	for _, n := range step.lanes {
		l := s.lanes[n.lane]
		if l == nil {
			continue
		}
		for _, mem := range memories {
			if d := n.grown[mem]; d != nil {
				if err := l.Use(func() error { return s.enlarge(l, mem, d) }); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *step) grows() bool {
	for _, n := range s.lanes {
		if n.grown != [2]*need{} {
			return true
		}
	}
	return false
}

// Guard is how many bytes before and behind the memory that a lane receives into belong to the buffer, but to no
// message, so that verification can look whether an engine writes there. It keeps messages aligned to pages.
const Guard = 4096

// enlarge allocates the two buffers of a kind of memory of one lane.
func (s *Session) enlarge(l *Lane, mem nixl.Mem, d *need) (err error) {
	me := s.world.Rank()
	var a arena
	if a.send, err = l.alloc(mem, d.send[me]); err != nil {
		return err
	}
	if a.recv, err = l.alloc(mem, d.recv[me]+2*Guard); err != nil {
		return err
	}
	l.arenas[mem] = a
	s.world.Log().Info("took buffers", "memory", mem, "send_bytes", d.send[me], "receive_bytes", d.recv[me])
	return nil
}

func (l *Lane) alloc(mem nixl.Mem, bytes int64) (nixl.Buffer, error) {
	b, err := l.agent.Alloc(mem, bytes)
	if err == nil || fault.KindOf(err) != fault.Internal {
		return b, err
	}
	return nil, fault.New(fault.Resource, "allocate %s of %s: %w", size.Decimal(bytes), mem, err).WithHint(smaller)
}

const smaller = "less traffic (perigee matgen --scale, smaller blocks or batches), fewer ranks or lanes on this host, or more hosts"

// checkMemory lets the lowest rank of each host compare what all its ranks
// are about to allocate with what the host has.
func (s *Session) checkMemory(step *step) error {
	host := s.world.Hosts()[s.world.HostOf(s.world.Rank())]
	if host.Ranks[0] != s.world.Rank() {
		return nil
	}
	var want int64
	for _, n := range step.lanes {
		d := n.grown[nixl.DRAM]
		if d == nil {
			continue
		}
		for _, r := range host.Ranks {
			want = satAdd(want, satAdd(d.send[r], d.recv[r]))
		}
	}
	available, err := s.available()
	if err != nil || want <= available {
		return nil // where the kernel does not say, the allocation will report it
	}
	return fault.New(fault.Resource, "the buffers of the %d ranks on %s need %s (%d bytes), but only %s of memory are available (%d bytes)",
		len(host.Ranks), host.Name, size.Decimal(want), want, size.Decimal(available), available).WithHint(smaller)
}

// satAdd is written so that absurd loads cannot overflow the sum.
func satAdd(a, b int64) int64 {
	if sum := a + b; sum >= 0 {
		return sum
	}
	return math.MaxInt64
}
