package experts

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"perigee/internal/ep/moe"
	"perigee/internal/ep/moe/numeric"
	"perigee/internal/kit/fault"
	"perigee/spmd"
)

// Sabotage is a fault that is planted to show that verification finds it.
type Sabotage string

// The sabotages, each planted at the last rank between a dispatch and its combine.
const (
	None      Sabotage = ""
	Transform Sabotage = "transform" // an expert applies the factor of another one
	Swap      Sabotage = "swap"      // two experts' messages change places
	Drop      Sabotage = "drop"      // a message is not there
	Duplicate Sabotage = "duplicate" // a message is there twice, in place of another one
	Shift     Sabotage = "shift"     // an expert's messages lie one place on
)

// Sabotages are all of them.
func Sabotages() []string {
	return []string{string(Transform), string(Swap), string(Drop), string(Duplicate), string(Shift)}
}

// Checked holds the findings of a verification.
type Checked struct {
	Messages  int64   // compared bit by bit after the dispatch
	Tokens    int64   // compared after the combine
	Unshifted float64 // 1 - 2<a,b>/(<a,a>+<b,b>) of results and ideal results; the largest of all ranks
	Shifted   float64 // the same of both plus 1, as upstream computes it
	Relative  float64 // the largest relative difference of a channel from the oracle's
}

// Options of a verification. DispatchToo is false where only the combine shall be judged.
type Options struct {
	Sabotage    Sabotage
	SkipArrived bool // do not compare what was dispatched: the combine alone must show what is wrong

	die Stage // in an elastic plan, where this rank falls silent
}

// poison fills memory before a verification, so that nothing old passes for new.
const poison = 0xa5

// Verify does one dispatch and one combine through poisoned memory and checks both, at all ranks. It fails at every
// rank if it fails at one. The figures are the same at all ranks.
func (p *Plane) Verify(o Options) (*Checked, error) {
	if err := p.poison(); err != nil {
		return nil, err
	}
	if o.die == InDispatch {
		return nil, errSilent
	}
	if _, err := p.Play(Dispatch, 1, Steady, false); err != nil {
		return nil, err
	}
	parity := p.parity(dispatching)
	if p.me == p.Selection.Ranks-1 {
		p.spoil(o.Sabotage, parity)
	}
	if !o.SkipArrived {
		if _, err := p.agree(moe.Difference{}, p.checkArrived(parity)); err != nil {
			return nil, err
		}
	}
	p.apply(parity)
	if o.Sabotage == Transform && p.me == p.Selection.Ranks-1 {
		p.spoilRows()
	}
	if err := p.Meet(); err != nil {
		return nil, err
	}
	if o.die == InCombine {
		return nil, errSilent
	}
	if _, err := p.Play(Combine, 1, Steady, false); err != nil {
		return nil, err
	}
	return p.agree(p.checkOutput())
}

// CheckState checks what the last iterations of a mode have left behind, without moving anything. Wrong bytes are an
// error of the kind Corrupt.
func (p *Plane) CheckState(mode Mode) (*Checked, error) {
	var found error
	var d moe.Difference
	if mode.has(dispatching) {
		found = p.checkArrived(p.parity(dispatching))
	}
	if mode.has(combining) && found == nil {
		d, found = p.checkOutput()
	}
	return p.agree(d, found)
}

// agree joins the figures of all ranks. Where several ranks found something, the error is that of the lowest.
func (p *Plane) agree(d moe.Difference, found error) (*Checked, error) {
	first, err := spmd.AllReduce(p.group, []int{p.firstFailed(found)}, spmd.Min)
	if err != nil {
		return nil, err
	}
	if first[0] < p.Selection.Ranks {
		if found != nil && first[0] == p.me {
			return nil, found
		}
		<-p.world.Context().Done() // that rank reports it
		return nil, p.world.Err()
	}
	largest, err := spmd.AllReduce(p.group, []float64{d.Unshifted(), d.Shifted(), d.Relative()}, spmd.Max)
	if err != nil {
		return nil, err
	}
	counts, err := spmd.AllReduce(p.group, []int64{int64(len(p.At(p.me))), int64(p.Selection.Tokens)}, spmd.Sum)
	if err != nil {
		return nil, err
	}
	return &Checked{
		Messages: counts[0], Tokens: counts[1], Unshifted: largest[0], Shifted: largest[1], Relative: largest[2],
	}, nil
}

func (p *Plane) firstFailed(found error) int {
	if found != nil {
		return p.me
	}
	return p.Selection.Ranks
}

// poison overwrites all that a dispatch and a combine write.
func (p *Plane) poison() error {
	for _, half := range [][]byte{p.port.recv, p.port.send} {
		for i := range half {
			half[i] = poison
		}
	}
	for i := range p.packed {
		p.packed[i] = poison
	}
	for i := range p.output {
		p.output[i] = poison<<8 | poison
	}
	if err := p.port.pushAll(); err != nil {
		return err
	}
	return p.Meet() // no message may arrive before
}

// checkArrived compares every message, as it arrived and as it was packed, with what the routing and the tokens'
// numbers say.
func (p *Plane) checkArrived(parity int) error {
	s := p.Selection
	oracle := moe.NewOracle(s.Hidden, p.spec.Payload, p.spec.Seed)
	want := make([]byte, p.areas.message)
	for i, a := range p.arrivals {
		token := int(a) / s.TopK
		writeHeader(want, token, p.Source(a), p.filled)
		values, scales := p.payload(want)
		if p.spec.Payload == moe.FP8 {
			q, f := oracle.Quantized(token)
			copy(values, q)
			copy(floats(scales), f)
		} else {
			copy(words(values), oracle.Input(token))
		}
		if got := message(p.port.recv, p.areas.slots[parity], p.areas.message, i); !bytes.Equal(got, want) {
			return p.wrongMessage(a, i, got, want)
		}
		packed, packedScales := p.packedAt(p.Place(a))
		if !bytes.Equal(packed, values) || !bytes.Equal(packedScales, scales) {
			return fault.New(fault.Corrupt, "dispatch to rank %d (%s): token %d of rank %d arrived, but was not packed at place %d",
				p.me, p.world.HostName(p.me), token, p.Source(a), p.Place(a))
		}
	}
	return nil
}

// wrongMessage describes what lies in the place of a message.
func (p *Plane) wrongMessage(a int32, position int, got, want []byte) error {
	s := p.Selection
	what := fmt.Sprintf("it has token %d of rank %d, iteration %d", binary.LittleEndian.Uint32(got),
		binary.LittleEndian.Uint32(got[4:]), binary.LittleEndian.Uint32(got[8:]))
	switch first := firstDifference(got, want); {
	case !slices.ContainsFunc(got, func(b byte) bool { return b != poison }):
		what = "nothing was written there"
	case first >= moe.HeaderBytes:
		what = fmt.Sprintf("byte %d is %#x, want %#x", first, got[first], want[first])
	}
	return fault.New(fault.Corrupt, "dispatch to rank %d (%s): message %d, expert %d, must have token %d of rank %d, iteration %d, but %s",
		p.me, p.world.HostName(p.me), position, p.expertOf(a), int(a)/s.TopK, p.Source(a), p.filled, what)
}

func firstDifference[T comparable](a, b []T) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// checkOutput compares every combined token with the oracle, and with what it would be without rounding.
func (p *Plane) checkOutput() (d moe.Difference, err error) {
	s := p.Selection
	oracle := moe.NewOracle(s.Hidden, p.spec.Payload, p.spec.Seed)
	want, ideal := make([]uint16, s.Hidden), make([]float32, s.Hidden)
	for t := range s.Tokens {
		token := p.me*s.Tokens + t
		oracle.Output(want, s, token)
		oracle.Ideal(ideal, s, token)
		got := p.output[t*s.Hidden : (t+1)*s.Hidden]
		d.Add(got, want, ideal)
		if c := firstDifference(got, want); c < len(got) {
			return d, fault.New(fault.Corrupt, "combine at rank %d (%s): token %d, channel %d is %v, want %v",
				p.me, p.world.HostName(p.me), token, c, numeric.ToFloat(got[c]), numeric.ToFloat(want[c]))
		}
	}
	// The results are those of the oracle, bit by bit. That the oracle itself is right is another question.
	if u := d.Unshifted(); !(u < p.spec.Payload.Bound()) || d.Relative() > moe.MostRelative {
		return d, fault.New(fault.Corrupt, "combine at rank %d (%s): the difference from the ideal result is %.3g, want less than %.3g",
			p.me, p.world.HostName(p.me), u, p.spec.Payload.Bound())
	}
	return d, nil
}

// spoil changes what was dispatched to this rank.
func (p *Plane) spoil(s Sabotage, parity int) {
	area := p.port.recv[p.areas.slots[parity]:]
	at := func(i int) []byte { return message(area, 0, p.areas.message, i) }
	count := len(p.arrivals)
	if count < 2 {
		return
	}
	switch s {
	case Swap:
		one, other, ok := p.twoExperts()
		if !ok {
			return
		}
		kept := slices.Clone(at(one))
		copy(at(one), at(other))
		copy(at(other), kept)
	case Drop:
		for i := range at(count / 2) {
			at(count / 2)[i] = poison
		}
	case Duplicate:
		copy(at(1), at(0))
	case Shift:
		last := slices.Clone(at(count - 1))
		for i := count - 1; i > 0; i-- {
			copy(at(i), at(i-1))
		}
		copy(at(0), last)
	}
}

// twoExperts returns places of two different experts.
func (p *Plane) twoExperts() (one, other int, ok bool) {
	list := p.arrivals
	for i, a := range list {
		if p.expertOf(a) != p.expertOf(list[0]) {
			return 0, i, true
		}
	}
	return 0, 0, false
}

// spoilRows gives the rows of an expert the factor of another.
func (p *Plane) spoilRows() {
	list := p.arrivals
	if len(list) == 0 {
		return
	}
	wrong := moe.Factor(p.expertOf(list[0])+1) / moe.Factor(p.expertOf(list[0]))
	for i, a := range list {
		if p.expertOf(a) == p.expertOf(list[0]) {
			numeric.Scale(words(message(p.port.send, p.areas.rows, p.areas.row, i)), wrong)
		}
	}
}
