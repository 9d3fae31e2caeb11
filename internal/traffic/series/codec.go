package series

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	"perigee/internal/kit/pack"
)

// Series travel from each rank to rank 0 as varints. Stamps are written as
// differences to the start of their run, distributions as their distinct values
// in ascending order, each as the difference to the one before and its count.

// ErrPlans is the error of logs that belong to other plans than expected.
var ErrPlans = errors.New("it collects other plans")

// Log holds the records of one rank for one of its transfer lists.
type Log struct {
	Plan int // number of the plan
	Runs []Logged
}

// EncodeLogs writes looks and logs: the looks, the number of logs and the names of all phases, then for each log the
// plan, the number of runs, and for each run the place of its phase among these, its stamps, the barrier before it, and
// the instant agreed on.
func EncodeLogs(looks []Look, logs []Log) []byte {
	phases := phasesOf(logs)
	b := appendLooks(nil, looks)
	b = binary.AppendUvarint(b, uint64(len(logs)))
	b = binary.AppendUvarint(b, uint64(len(phases)))
	for _, p := range phases {
		b = pack.AppendText(b, p)
	}
	for _, l := range logs {
		b = binary.AppendUvarint(b, uint64(l.Plan))
		b = binary.AppendUvarint(b, uint64(len(l.Runs)))
		place := 0
		for _, r := range l.Runs {
			if phases[place] != r.Phase {
				place = slices.Index(phases, r.Phase)
			}
			b = r.encode(binary.AppendUvarint(b, uint64(place)))
		}
	}
	return b
}

// phasesOf are the phases of logs, each once, in the order in which they come first.
func phasesOf(logs []Log) (phases []string) {
	last := ""
	for _, l := range logs {
		for _, r := range l.Runs {
			if (len(phases) == 0 || r.Phase != last) && !slices.Contains(phases, r.Phase) {
				phases = append(phases, r.Phase)
			}
			last = r.Phase
		}
	}
	return phases
}

// encode writes times as differences from the start, which take few bytes as varints: a rank sends a million stamps.
func (r Logged) encode(b []byte) []byte {
	b = binary.AppendVarint(b, r.Start)
	b = binary.AppendVarint(b, r.Posted-r.Start)
	b = binary.AppendVarint(b, r.End-r.Start)
	for _, done := range r.Done {
		b = binary.AppendVarint(b, done-r.Start)
	}
	barrier := r.Left.Barrier << 1 // numbers of barriers are far below 2^63
	if r.Filled {
		barrier |= 1
	}
	b = binary.AppendUvarint(b, barrier)
	if r.Left.Barrier != 0 {
		b = binary.AppendVarint(b, r.Left.NS-r.Start)
	}
	if r.Agreed.NS == 0 {
		return binary.AppendUvarint(b, 0)
	}
	// 0 stands for no instant, so that a rank in time is 1.
	b = binary.AppendUvarint(b, 1+uint64(r.Agreed.Late))
	return binary.AppendVarint(b, r.Agreed.NS-r.Start)
}

// Shape describes a log to its reader in advance: its plan and the number of
// transfers in a run.
type Shape struct{ Plan, Transfers int }

// DecodeLogs reads what EncodeLogs wrote. The logs must have the given shapes,
// in that order; other plans are ErrPlans, anything else wrong is pack.ErrTorn.
func DecodeLogs(b []byte, shapes []Shape) ([]Look, [][]Logged, error) {
	d := pack.Read(b)
	looks := readLooks(d)
	if n := d.Unsigned(); d.Err() == nil && n != uint64(len(shapes)) {
		return nil, nil, ErrPlans
	}
	phases := make([]string, d.Count())
	for i := range phases {
		phases[i] = d.Text()
	}
	logs := make([][]Logged, len(shapes))
	for i, s := range shapes {
		if plan := d.Unsigned(); d.Err() == nil && plan != uint64(s.Plan) {
			return nil, nil, ErrPlans
		}
		for left := d.Unsigned(); left > 0 && d.Err() == nil; left-- {
			place := d.Unsigned()
			if place >= uint64(len(phases)) {
				d.Fail()
				break
			}
			r := readLogged(d, s.Transfers)
			r.Phase = phases[place]
			logs[i] = append(logs[i], r)
		}
	}
	return looks, logs, d.End("recorded runs")
}

// appendLooks writes each look as its differences to the one before.
func appendLooks(b []byte, looks []Look) []byte {
	b = binary.AppendUvarint(b, uint64(len(looks)))
	last := Look{}
	for _, l := range looks {
		b = binary.AppendVarint(b, l.NS-last.NS)
		b = binary.AppendVarint(b, l.Own-last.Own)
		b = binary.AppendVarint(b, l.Moving-last.Moving)
		last = l
	}
	return b
}

func readLooks(d *pack.Reader) (looks []Look) {
	last := Look{}
	for left := d.Count(); left > 0 && d.Err() == nil; left-- {
		last = Look{last.NS + d.Signed(), last.Own + d.Signed(), last.Moving + d.Signed()}
		looks = append(looks, last)
	}
	return looks
}

// readLogged is the reverse of encode. The shape says how many transfers there are, so that their number is not sent
// with every run.
func readLogged(d *pack.Reader, transfers int) Logged {
	start := d.Signed()
	r := Logged{Stamps: Stamps{
		Start: start, Posted: start + d.Signed(), End: start + d.Signed(), Done: make([]int64, transfers),
	}}
	for k := range r.Done {
		r.Done[k] = start + d.Signed()
	}
	barrier := d.Unsigned()
	r.Filled = barrier&1 != 0
	if r.Left.Barrier = barrier >> 1; r.Left.Barrier != 0 {
		r.Left.NS = start + d.Signed()
	}
	if late := d.Unsigned(); late > 1<<63 {
		d.Fail()
	} else if late != 0 {
		r.Agreed = Agreed{NS: start + d.Signed(), Late: int64(late - 1)}
	}
	return r
}

// Encode writes a distribution.
func (r *Distribution) Encode() []byte {
	b := binary.AppendVarint(nil, r.Start)
	b = binary.AppendVarint(b, r.End)
	b = binary.AppendVarint(b, r.Bytes)
	b = pack.AppendFloat(b, r.CPU)
	for _, s := range r.stages() {
		b = s.append(b)
	}
	return b
}

// DecodeDistribution reads what Encode wrote.
func DecodeDistribution(b []byte) (*Distribution, error) {
	d := pack.Read(b)
	r := &Distribution{Start: d.Signed(), End: d.Signed(), Bytes: d.Signed(), CPU: d.Float()}
	for _, s := range r.stages() {
		*s = *readSamples(d)
	}
	return r, d.End("recorded times")
}

// append encodes the samples: min, max, sum, the number of values, and for each
// the difference to the one before and its count.
func (s *Samples) append(b []byte) []byte {
	t := s.table()
	b = binary.AppendVarint(b, s.min)
	b = binary.AppendVarint(b, s.max)
	b = pack.AppendFloat(b, s.sum)
	b = binary.AppendUvarint(b, uint64(len(t)))
	last := int64(0)
	for _, v := range slices.Sorted(maps.Keys(t)) {
		b = binary.AppendVarint(b, v-last)
		b = binary.AppendVarint(b, t[v])
		last = v
	}
	return b
}

// samples reads what append wrote.
func readSamples(d *pack.Reader) *Samples {
	s := &Samples{
		min: d.Signed(), max: d.Signed(), sum: d.Float(), counts: map[int64]int64{},
	}
	last := int64(0)
	for left := d.Unsigned(); left > 0 && d.Err() == nil; left-- {
		last += d.Signed()
		n := d.Signed()
		if n < 1 || last < 0 || s.count > math.MaxInt64-n {
			d.Fail()
			break
		}
		s.counts[last] += n
		s.count += n
	}
	return s
}
