package series

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
)

// Series travel from each rank to rank 0 as varints. Stamps are written as
// differences to the start of their run, distributions as their distinct values
// in ascending order, each as the difference to the one before and its count.

// ErrTorn is the error of data that ends early, goes on too long, or holds a
// number that no encoder writes.
var ErrTorn = errors.New("the list is torn")

// ErrPlans is the error of logs that belong to other plans than expected.
var ErrPlans = errors.New("it collects other plans")

// Log is what one rank recorded of one of its transfer lists.
type Log struct {
	Plan int // number of the plan
	Runs []Logged
}

// EncodeLogs writes logs: their number, then for each the plan, the number of
// runs, and for each run its stamps and the barrier before it.
func EncodeLogs(logs []Log) []byte {
	b := binary.AppendUvarint(nil, uint64(len(logs)))
	for _, l := range logs {
		b = binary.AppendUvarint(b, uint64(l.Plan))
		b = binary.AppendUvarint(b, uint64(len(l.Runs)))
		for _, r := range l.Runs {
			b = r.encode(b)
		}
	}
	return b
}

func (r Logged) encode(b []byte) []byte {
	b = binary.AppendVarint(b, r.Start)
	b = binary.AppendVarint(b, r.Posted-r.Start)
	b = binary.AppendVarint(b, r.End-r.Start)
	for _, done := range r.Done {
		b = binary.AppendVarint(b, done-r.Start)
	}
	b = binary.AppendUvarint(b, r.Left.Barrier)
	if r.Left.Barrier == 0 {
		return b
	}
	return binary.AppendVarint(b, r.Left.NS-r.Start)
}

// Shape is what a reader knows of a log in advance: its plan and the number of
// transfers in a run.
type Shape struct{ Plan, Transfers int }

// DecodeLogs reads what EncodeLogs wrote. The logs must have the given shapes,
// in that order; other plans are ErrPlans, anything else wrong is ErrTorn.
func DecodeLogs(b []byte, shapes []Shape) ([][]Logged, error) {
	d := decoder{rest: b}
	if n := d.unsigned(); d.err == nil && n != uint64(len(shapes)) {
		return nil, ErrPlans
	}
	logs := make([][]Logged, len(shapes))
	for i, s := range shapes {
		if plan := d.unsigned(); d.err == nil && plan != uint64(s.Plan) {
			return nil, ErrPlans
		}
		for left := d.unsigned(); left > 0 && d.err == nil; left-- {
			logs[i] = append(logs[i], d.logged(s.Transfers))
		}
	}
	return logs, d.end()
}

// decoder reads varints until one is torn; from then on all are 0.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) unsigned() uint64 {
	v, n := binary.Uvarint(d.rest)
	return taken(d, v, n)
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.rest)
	return taken(d, v, n)
}

func taken[T int64 | uint64](d *decoder, v T, n int) T {
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) fail() { d.rest, d.err = nil, ErrTorn }

// end returns the first error. Bytes that are left over are one.
func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail()
	}
	return d.err
}

func (d *decoder) logged(transfers int) Logged {
	start := d.signed()
	r := Logged{Stamps: Stamps{
		Start: start, Posted: start + d.signed(), End: start + d.signed(), Done: make([]int64, transfers),
	}}
	for k := range r.Done {
		r.Done[k] = start + d.signed()
	}
	if r.Left.Barrier = d.unsigned(); r.Left.Barrier != 0 {
		r.Left.NS = start + d.signed()
	}
	return r
}

// Encode writes a distribution.
func (r *Distribution) Encode() []byte {
	b := binary.AppendVarint(nil, r.Start)
	b = binary.AppendVarint(b, r.End)
	b = binary.AppendVarint(b, r.Bytes)
	b = binary.AppendUvarint(b, math.Float64bits(r.CPU))
	for _, s := range r.stages() {
		b = s.append(b)
	}
	return b
}

// DecodeDistribution reads what Encode wrote.
func DecodeDistribution(b []byte) (*Distribution, error) {
	d := decoder{rest: b}
	r := &Distribution{Start: d.signed(), End: d.signed(), Bytes: d.signed(), CPU: math.Float64frombits(d.unsigned())}
	for _, s := range r.stages() {
		*s = *d.samples()
	}
	return r, d.end()
}

// append encodes the samples: min, max, sum, the number of values, and for each
// the difference to the one before and its count.
func (s *Samples) append(b []byte) []byte {
	t := s.table()
	b = binary.AppendVarint(b, s.min)
	b = binary.AppendVarint(b, s.max)
	b = binary.AppendUvarint(b, math.Float64bits(s.sum))
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
func (d *decoder) samples() *Samples {
	s := &Samples{
		min: d.signed(), max: d.signed(), sum: math.Float64frombits(d.unsigned()), counts: map[int64]int64{},
	}
	last := int64(0)
	for left := d.unsigned(); left > 0 && d.err == nil; left-- {
		last += d.signed()
		n := d.signed()
		if n < 1 || last < 0 {
			d.fail()
			break
		}
		s.counts[last] += n
		s.count += n
	}
	return s
}
