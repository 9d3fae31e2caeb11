package numeric

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// nearestFP8 is ToFP8 by looking at all values.
func nearestFP8(f float32) byte {
	best, distance := byte(0), math.Inf(1)
	for v := range 127 {
		d := math.Abs(math.Abs(float64(f)) - float64(FromFP8(byte(v))))
		if d < distance || d == distance && v&1 == 0 {
			best, distance = byte(v), d
		}
	}
	if math.Signbit(float64(f)) {
		best |= 0x80
	}
	return best
}

func TestFP8(t *testing.T) {
	for v, want := range map[byte]float32{0x00: 0, 0x01: 1.0 / 512, 0x07: 7.0 / 512, 0x08: 1.0 / 64, 0x38: 1, 0x7e: 448, 0xb8: -1} {
		if FromFP8(v) != want {
			t.Errorf("%#x is %v, want %v", v, FromFP8(v), want)
		}
	}
	for v := range 256 {
		if v&0x7f == 0x7f {
			continue
		}
		if got := ToFP8(FromFP8(byte(v))); got != byte(v) {
			t.Errorf("%#x becomes %#x", v, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := float32(rapid.Float64Range(-500, 500).Draw(t, "value")) * float32(math.Ldexp(1, rapid.IntRange(-14, 0).Draw(t, "exponent")))
		if got, want := ToFP8(f), nearestFP8(f); got != want {
			t.Fatalf("%v becomes %v, want %v", f, FromFP8(got), FromFP8(want))
		}
	})
	if ToFP8(float32(math.Inf(-1))) != 0xfe || ToFP8(float32(math.NaN()))&0x7f != 0x7f {
		t.Error("infinity or NaN")
	}
}

func TestBF16(t *testing.T) {
	for f, want := range map[float32]uint16{1: 0x3f80, -2: 0xc000, 1 + 1.0/256: 0x3f80, 1 + 3.0/256: 0x3f82, 1 + 1.1/256: 0x3f81} {
		if got := FromFloat(f); got != want {
			t.Errorf("%v becomes %#x, want %#x", f, got, want)
		}
	}
	for v := range 1 << 16 {
		f := ToFloat(uint16(v))
		if got := FromFloat(f); got != uint16(v) && f == f {
			t.Fatalf("%#x becomes %#x", v, got)
		}
	}
	if f := ToFloat(FromFloat(float32(math.NaN()))); f == f {
		t.Error("NaN becomes a number")
	}
}

// tokens draws channels of every size, zeros, infinities and all.
func tokens(t *rapid.T, name string, n int) []uint16 {
	mask := uint16(rapid.SampledFrom([]int{0xffff, 0xbfff, 0x83ff, 0x8000}).Draw(t, name+" mask"))
	x := rapid.SliceOfN(rapid.Uint16(), n, n).Draw(t, name)
	for i := range x {
		if x[i] &= mask; x[i]&0x7f80 == 0x7f80 {
			x[i] = 0x3f80
		}
	}
	return x
}

// The kernels that the build uses give the bits of those in Go.
func TestKernels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Group * rapid.IntRange(0, 9).Draw(t, "groups")
		x := tokens(t, "x", n)
		q, goQ := make([]byte, n), make([]byte, n)
		scales, goScales := make([]float32, n/Group), make([]float32, n/Group)
		Quantize(q, scales, x)
		goQuantize(goQ, goScales, x)
		if !bytes.Equal(q, goQ) || !slices.Equal(scales, goScales) {
			t.Fatal("Quantize differs")
		}
		y, goY := make([]uint16, n), make([]uint16, n)
		Dequantize(y, q, scales)
		goDequantize(goY, q, scales)
		if !slices.Equal(y, goY) {
			t.Fatal("Dequantize differs")
		}
		factor := float32(rapid.Float64Range(-2, 2).Draw(t, "factor"))
		Scale(y, factor)
		goScale(goY, factor)
		if !slices.Equal(y, goY) {
			t.Fatal("Scale differs")
		}
		base := slices.Concat(x, y)
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			base = append(base, tokens(t, "row", n)...)
		}
		rows := rapid.SliceOfN(rapid.Int32Range(0, max(0, int32(len(base)/max(n, 1)-1))), 0, 18).Draw(t, "choice")
		if n == 0 {
			rows = nil
		}
		weights := make([]float32, len(rows))
		for k := range weights {
			weights[k] = float32(rapid.Float64Range(0, 1).Draw(t, "weight"))
		}
		out, goOut := make([]uint16, n), make([]uint16, n)
		Reduce(out, base, rows, weights)
		goReduce(goOut, base, rows, weights)
		for i := range out {
			a, b := ToFloat(out[i]), ToFloat(goOut[i])
			if out[i] != goOut[i] && (a == a || b == b) {
				t.Fatalf("Reduce differs in channel %d: %v, %v", i, a, b)
			}
		}
	})
	for v := range 256 {
		var q [Group]byte
		var y, goY [Group]uint16
		q[0] = byte(v)
		Dequantize(y[:], q[:], []float32{0.75})
		goDequantize(goY[:], q[:], []float32{0.75})
		if y != goY && v&0x7f != 0x7f {
			t.Errorf("FP8 %#x: %#x, %#x", v, y[0], goY[0])
		}
	}
}

// A quantised channel is off by at most half a step of three bits, or of the smallest numbers.
func TestQuantizationError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := make([]uint16, Group)
		for i := range x {
			x[i] = FromFloat(float32(rapid.Float64Range(-4, 4).Draw(t, "x")))
		}
		q, scales, y := make([]byte, Group), make([]float32, 1), make([]uint16, Group)
		Quantize(q, scales, x)
		Dequantize(y, q, scales)
		for i := range x {
			want, got := float64(ToFloat(x[i])), float64(ToFloat(y[i]))
			if math.Abs(got-want) > math.Abs(want)*(1.0/16+1.0/200)+float64(scales[0])/1000 {
				t.Fatalf("%v becomes %v", want, got)
			}
		}
	})
}

// Rows need not be multiples of what is computed at a time.
func TestReduceOfAnyLength(t *testing.T) {
	for n := range 80 {
		base := make([]uint16, 3*n)
		for i := range base {
			base[i] = FromFloat(float32(i*37%101-50) / 16)
		}
		out, want := make([]uint16, n), make([]uint16, n)
		rows, weights := []int32{2, 0}, []float32{0.3, 0.7}
		Reduce(out, base, rows, weights)
		goReduce(want, base, rows, weights)
		if !slices.Equal(out, want) {
			t.Errorf("%d channels: %v, want %v", n, out, want)
		}
	}
}

func TestReduceOfNothing(t *testing.T) {
	out := []uint16{1, 2, 3}
	Reduce(out, nil, nil, nil)
	if !slices.Equal(out, []uint16{0, 0, 0}) {
		t.Error(out)
	}
}

const hidden = 7168

func BenchmarkQuantize(b *testing.B) {
	x, q, scales := make([]uint16, hidden), make([]byte, hidden), make([]float32, hidden/Group)
	for i := range x {
		x[i] = FromFloat(float32(i%257-128) / 64)
	}
	for name, f := range map[string]func(){"kernel": func() { Quantize(q, scales, x) }, "go": func() { goQuantize(q, scales, x) }} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(2 * hidden)
			for b.Loop() {
				f()
			}
		})
	}
}

func BenchmarkReduce(b *testing.B) {
	base, weights, rows := make([]uint16, 8*hidden), make([]float32, 8), []int32{0, 1, 2, 3, 4, 5, 6, 7}
	out := make([]uint16, hidden)
	for name, f := range map[string]func(){"kernel": func() { Reduce(out, base, rows, weights) }, "go": func() { goReduce(out, base, rows, weights) }} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(8 * 2 * hidden)
			for b.Loop() {
				f()
			}
		})
	}
}
