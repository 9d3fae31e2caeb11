package session

import (
	"math"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/size"
	"perigee/internal/traffic/load"
	"perigee/nixl"
	"perigee/spmd"
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

// bytes counts what a rank is about to allocate.
func (s *step) bytes(rank int) (sum int64) {
	for _, n := range s.lanes {
		for _, d := range n.grown {
			sum = satAdd(sum, d.on([]int{rank}))
		}
	}
	return sum
}

// Guard is load's.
const Guard = load.Guard

// enlarge allocates the two buffers of a kind of memory of one lane.
func (s *Session) enlarge(l *Lane, mem nixl.Mem, d *need) (err error) {
	me := s.world.Rank()
	var a arena
	if a.send, err = l.alloc(mem, d.send[me]); err != nil {
		return err
	}
	receive := d.recv[me] + 2*Guard
	if a.recv, err = l.alloc(mem, receive); err != nil {
		return err
	}
	l.arenas[mem] = a
	s.world.Log().Info("took buffers", "memory", mem, "send_bytes", d.send[me], "receive_bytes", receive)
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
	if !s.world.LeadsHost() {
		return nil
	}
	var want int64
	for _, n := range step.lanes {
		want = satAdd(want, n.grown[nixl.DRAM].on(host.Ranks))
	}
	available, err := s.available()
	if err != nil || want <= available {
		return nil // where the kernel does not say, the allocation will report it
	}
	return fault.New(fault.Resource, "the buffers of the %d ranks on %s need %s (%d bytes), but only %s of memory are available (%d bytes)",
		len(host.Ranks), host.Name, size.Decimal(want), want, size.Decimal(available), available).WithHint(smaller)
}

// on adds up the bytes that the buffers of some ranks take; d may be nil.
func (d *need) on(ranks []int) (sum int64) {
	if d == nil {
		return 0
	}
	for _, r := range ranks {
		sum = satAdd(sum, satAdd(satAdd(d.send[r], d.recv[r]), 2*Guard))
	}
	return sum
}

// Fits reports whether every host, and every GPU, has memory for new buffers that hold loads, with a tenth to spare. A
// GPU that does not say what is left has none. All ranks call it and get the same.
func (s *Session) Fits(loads []load.Load) (bool, error) {
	w := s.world
	fits, inHosts := 1, 1
	if w.LeadsHost() {
		for _, lane := range lanesOf(loads) {
			if needs(w.Size(), lane, loads)[nixl.VRAM] != nil {
				inHosts = 0
			}
		}
		if !s.HasRoom(loads) {
			fits = 0
		}
	}
	least, err := spmd.AllReduce(w.All(), []int{fits, inHosts}, spmd.Min)
	if err != nil || least[0] == 0 || least[1] == 1 {
		return err == nil && least[0] == 1, err
	}
	return s.fitGPUs(loads)
}

// HasRoom reports whether this rank's host has memory for new buffers that hold loads, with a tenth to spare, as far as
// the kernel says it. GPUs count for nothing.
func (s *Session) HasRoom(loads []load.Load) bool {
	w := s.world
	host := w.Hosts()[w.HostOf(w.Rank())]
	var want int64
	for _, lane := range lanesOf(loads) {
		want = satAdd(want, needs(w.Size(), lane, loads)[nixl.DRAM].on(host.Ranks))
	}
	available, err := s.available()
	return err != nil || satAdd(want, want/10) <= available
}

// vram is what a rank wants of its GPU, and what is left there: nothing where that is not known.
type vram struct {
	Host       int
	GPU        string
	Want, Left int64
}

// fitGPUs is Fits for GPUs, which ranks of a host may share.
func (s *Session) fitGPUs(loads []load.Load) (bool, error) {
	me := s.world.Rank()
	own := vram{Host: s.world.HostOf(me)}
	for _, lane := range lanesOf(loads) {
		own.Want = satAdd(own.Want, needs(s.world.Size(), lane, loads)[nixl.VRAM].on([]int{me}))
	}
	if own.Want > 0 {
		var err error
		if own.GPU, own.Left, err = s.lanes[0].agent.VRAMLeft(); err != nil {
			s.world.Log().Warn("it is not known how much memory of the GPU is left", "reason", err)
			own.Left = 0
		}
	}
	all, err := spmd.AllGatherValue(s.world.All(), own)
	if err != nil {
		return false, err
	}
	type gpu struct {
		host int
		name string
	}
	want := map[gpu]int64{}
	for _, v := range all {
		want[gpu{v.Host, v.GPU}] = satAdd(want[gpu{v.Host, v.GPU}], v.Want)
	}
	for _, v := range all {
		if sum := want[gpu{v.Host, v.GPU}]; v.Want > 0 && satAdd(sum, sum/10) > v.Left {
			return false, nil
		}
	}
	return true, nil
}

// satAdd is written so that absurd loads cannot overflow the sum.
func satAdd(a, b int64) int64 {
	if sum := a + b; sum >= 0 {
		return sum
	}
	return math.MaxInt64
}
