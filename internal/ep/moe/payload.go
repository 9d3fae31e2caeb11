package moe

import (
	"math"

	"perigee/internal/ep/moe/numeric"
)

// A token's channels are numbers of a lattice that BF16 holds exactly, so that what arrives shows where it is from:
// channel c of token s is
//
//	((131*s + 17*c + 19*seed) mod 257 - 128) / 64
//
// and the signs of the first 32 channels are the bits of s. FP8 keeps signs, so the source survives it.

const (
	signChannels = 32
	latticeSize  = 257
	latticeUnit  = 1.0 / 64
)

// Fill writes the channels of a token by its global number.
func Fill(x []uint16, token int, seed uint64) {
	at := (131*uint64(token) + 19*(seed%latticeSize)) % latticeSize
	for c := range x {
		x[c] = lattice[at]
		if c < signChannels {
			x[c] = signed[token>>c&1][at]
		}
		if at += 17; at >= latticeSize {
			at -= latticeSize
		}
	}
}

// lattice are the values by their place, signed those of the first channels by
// sign and place: never 0, which has no sign to speak of.
var lattice, signed = func() (plain [latticeSize]uint16, signs [2][latticeSize]uint16) {
	for i := range plain {
		v := float32(i-128) * latticeUnit
		plain[i] = numeric.FromFloat(v)
		magnitude := float32(math.Abs(float64(v))) + latticeUnit
		signs[0][i], signs[1][i] = numeric.FromFloat(magnitude), numeric.FromFloat(-magnitude)
	}
	return plain, signs
}()

// Factor returns the number by which a logical expert multiplies its tokens: 0.5 to 1.5, different for all experts
// below 65536, far apart for neighbours, negative for every other one. A round trip through a wrong expert does not
// give the right sum.
func Factor(expert int) float32 {
	f := 0.5 + float32(uint32(expert)*2654435769>>9)/(1<<23)
	if expert&1 == 1 {
		return -f
	}
	return f
}

// Oracle computes what a token must come back as, with every rounding on its way.
type Oracle struct {
	payload Payload
	seed    uint64
	x       []uint16
	q       []byte
	scales  []float32
	rows    []uint16
	order   []int32
	weights []float32
}

// NewOracle makes an oracle of tokens with so many channels.
func NewOracle(hidden int, payload Payload, seed uint64) *Oracle {
	return &Oracle{
		payload: payload, seed: seed,
		x: make([]uint16, hidden), q: make([]byte, hidden), scales: make([]float32, hidden/numeric.Group),
	}
}

// Input returns a token's channels as its rank has them. The slice is good until the next call.
func (o *Oracle) Input(token int) []uint16 {
	Fill(o.x, token, o.seed)
	return o.x
}

// Quantized returns a token's channels and scales as FP8 carries them, until the next call.
func (o *Oracle) Quantized(token int) ([]byte, []float32) {
	numeric.Quantize(o.q, o.scales, o.Input(token))
	return o.q, o.scales
}

// AtExpert returns a token's channels as an expert gets them, until the next call.
func (o *Oracle) AtExpert(token int) []uint16 {
	if o.payload == BF16 {
		return o.Input(token)
	}
	q, scales := o.Quantized(token)
	numeric.Dequantize(o.x, q, scales)
	return o.x
}

// Output writes what a token comes back as: the weighted sum over its experts.
func (o *Oracle) Output(out []uint16, s *Selection, token int) {
	experts, weights := s.Of(token)
	arrived := o.AtExpert(token)
	o.weights = o.weights[:0]
	o.rows, o.order = o.rows[:0], o.order[:0]
	for k, expert := range experts {
		if expert == None {
			continue
		}
		o.rows = append(o.rows, arrived...)
		numeric.Scale(o.rows[len(o.rows)-len(out):], Factor(int(expert)))
		o.order, o.weights = append(o.order, int32(len(o.order))), append(o.weights, weights[k])
	}
	numeric.Reduce(out, o.rows, o.order, o.weights)
}

// Ideal writes what a token would come back as without any rounding: its channels times the sum of w*factor.
func (o *Oracle) Ideal(out []float32, s *Selection, token int) {
	experts, weights := s.Of(token)
	var sum float32
	for k, expert := range experts {
		if expert != None {
			sum += weights[k] * Factor(int(expert))
		}
	}
	for c, v := range o.Input(token) {
		out[c] = numeric.ToFloat(v) * sum
	}
}

// Difference gathers how far results are from what they should be.
type Difference struct {
	product, squares   float64 // of both, as they are
	product1, squares1 float64 // of both plus 1
	largest            float64
	notFinite          bool
}

// The bounds of a combined result against the ideal one.
const (
	boundFP8  = 9e-4
	boundBF16 = 1e-5
	// A channel may be off by eight steps of BF16 from what the oracle says; magnitudes below the floor count as that.
	MostRelative  = 8.0 / 256
	relativeFloor = 0.02
)

// Bound returns how large Difference.Unshifted may be.
func (p Payload) Bound() float64 {
	if p == FP8 {
		return boundFP8
	}
	return boundBF16
}

// Add takes a token's result, what the oracle says, and the ideal result.
func (d *Difference) Add(got, oracle []uint16, ideal []float32) {
	for i, v := range got {
		a, b := float64(numeric.ToFloat(v)), float64(ideal[i])
		if math.IsNaN(a) || math.IsInf(a, 0) {
			d.notFinite = true
			return
		}
		d.product += float64(a * b)
		d.squares += float64(a*a) + float64(b*b)
		d.product1 += float64((a + 1) * (b + 1))
		d.squares1 += float64((a+1)*(a+1)) + float64((b+1)*(b+1))
		want := float64(numeric.ToFloat(oracle[i]))
		d.largest = max(d.largest, math.Abs(a-want)/max(math.Abs(want), relativeFloor))
	}
}

// Unshifted returns 1 - 2<a,b>/(<a,a>+<b,b>), and Shifted the same of both plus 1, which is laxer. Without values, or
// with zeros only, both are 0. They are infinite where a result was not a finite number.
func (d *Difference) Unshifted() float64 { return d.part(d.product, d.squares) }

// Shifted: see Unshifted.
func (d *Difference) Shifted() float64 { return d.part(d.product1, d.squares1) }

func (d *Difference) part(product, squares float64) float64 {
	switch {
	case d.notFinite:
		return math.Inf(1)
	case squares == 0:
		return 0
	}
	return 1 - 2*product/squares
}

// Relative returns the largest distance of a channel from the oracle's, relative to that.
func (d *Difference) Relative() float64 {
	if d.notFinite {
		return math.Inf(1)
	}
	return d.largest
}
