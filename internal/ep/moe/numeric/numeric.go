// Package numeric holds the arithmetic of tokens in expert parallelism: BF16 values, their quantisation to FP8 (e4m3,
// without infinities) with a scale for each group of 128 channels, and the weighted sum of the experts' results.
// Package experts calls it in every iteration, so that what numeric.go does in Go has a second form in C (kernels.c)
// for builds with cgo. It is a separate package so that the rest of moe needs no cgo.
//
// BF16 values are uint16, FP8 values bytes, scales float32, in the byte order of the machine. All functions give the
// same bits with and without cgo and on every processor: each product and each sum is rounded once, to nearest even.
// Verification depends on that, as it compares results of ranks bit by bit. Slices whose lengths do not fit each other
// are mistakes of the caller, and panic.
package numeric

import "math"

// Group is the number of channels that share a scale.
const Group = 128

// The constants of the quantisation: the largest FP8 value, and what the largest
// magnitude of a group counts as at least.
const (
	MaxFP8  = 448
	minAmax = 1e-4
)

// FromFloat returns the nearest BF16 value, ties to even. NaN stays NaN.
func FromFloat(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// ToFloat returns a BF16 value as float32, exactly.
func ToFloat(v uint16) float32 { return math.Float32frombits(uint32(v) << 16) }

// ToFP8 returns the nearest FP8 value, ties to even; what is too large, infinities included, becomes +-448, and NaN
// stays NaN.
func ToFP8(f float32) byte {
	bits := math.Float32bits(f)
	sign, magnitude := byte(bits>>24&0x80), bits&0x7fffffff
	switch {
	case magnitude > 0x7f800000:
		return sign | 0x7f
	case magnitude >= 0x43e00000: // 448
		return sign | 0x7e
	case magnitude >= 0x3c800000: // 2^-6, the smallest normal number
		return sign | byte((magnitude+0x7ffff+magnitude>>20&1)>>20-120<<3)
	}
	// The sum's last bit is worth 2^-9, FP8's smallest step.
	sum := math.Float32frombits(magnitude) + 16384
	return sign | byte(math.Float32bits(sum)-0x46800000)
}

// fp8 holds the values of all FP8 bytes.
var fp8 = func() (t [256]float32) {
	for i := range t {
		exponent, fraction := i>>3&15, float64(i&7)
		value := math.Ldexp(fraction/8, -6)
		switch {
		case exponent == 15 && i&7 == 7:
			value = math.NaN()
		case exponent > 0:
			value = math.Ldexp(1+fraction/8, exponent-7)
		}
		if i >= 128 {
			value = math.Copysign(value, -1)
		}
		t[i] = float32(value)
	}
	return t
}()

// FromFP8 returns the value of an FP8 byte.
func FromFP8(v byte) float32 { return fp8[v] }

// Quantize turns a token of BF16 channels into FP8 values and scales. For each group of 128 channels amax is the
// largest magnitude, at least 1e-4; each value is x * (448/amax), and the scale amax * (1/448).
// len(x) is a multiple of 128, len(q) is len(x), len(scales) is len(x)/128.
func Quantize(q []byte, scales []float32, x []uint16) {
	checkGroups(len(q), len(scales), len(x))
	quantize(q, scales, x)
}

// Dequantize returns a quantised token as BF16: each value times its scale, rounded.
func Dequantize(x []uint16, q []byte, scales []float32) {
	checkGroups(len(q), len(scales), len(x))
	dequantize(x, q, scales)
}

// Scale multiplies a token of BF16 channels by a factor, in place, rounding to BF16.
func Scale(x []uint16, factor float32) { scale(x, factor) }

// Reduce writes the weighted sum of rows of BF16 channels in BF16. Row r has the channels r*len(out) and following of
// base. The sum is float32, in the order of the rows; products are rounded before they are added. Without rows out is
// 0.
func Reduce(out, base []uint16, rows []int32, weights []float32) {
	if len(rows) != len(weights) {
		panic("numeric: rows and weights differ in number")
	}
	for _, row := range rows {
		if row < 0 || (int(row)+1)*len(out) > len(base) {
			panic("numeric: a row lies outside of the base")
		}
	}
	reduce(out, base, rows, weights)
}

func checkGroups(q, scales, x int) {
	if x%Group != 0 || q != x || scales*Group != x {
		panic("numeric: lengths do not go together")
	}
}

// goQuantize scales each group by its largest magnitude, so that it becomes MaxFP8, the largest FP8 value, and keeps
// the reverse factor. A group of zeros is scaled by minAmax in place of 0.
func goQuantize(q []byte, scales []float32, x []uint16) {
	for g := range scales {
		from, to := x[g*Group:(g+1)*Group], q[g*Group:(g+1)*Group]
		var largest uint16
		for _, v := range from {
			largest = max(largest, v&0x7fff)
		}
		amax := max(ToFloat(largest), minAmax)
		factor := MaxFP8 / amax
		scales[g] = amax * (1.0 / MaxFP8)
		for i, v := range from {
			to[i] = ToFP8(ToFloat(v) * factor)
		}
	}
}

func goDequantize(x []uint16, q []byte, scales []float32) {
	for g, scale := range scales {
		from, to := q[g*Group:(g+1)*Group], x[g*Group:(g+1)*Group]
		for i, v := range from {
			to[i] = FromFloat(fp8[v] * scale)
		}
	}
}

func goScale(x []uint16, factor float32) {
	for i, v := range x {
		x[i] = FromFloat(ToFloat(v) * factor)
	}
}

// Channels are summed in pieces that fit a processor's first cache.
const piece = 512

// goReduce sums up in pieces that stay in the first cache, over all rows for each piece. Products are rounded before
// they are added, since a fused multiply-add would give other bits than the form in C.
func goReduce(out, base []uint16, rows []int32, weights []float32) {
	var sums [piece]float32
	for from := 0; from < len(out); from += piece {
		to := min(from+piece, len(out))
		sum := sums[:to-from]
		clear(sum)
		for k, r := range rows {
			w, row := weights[k], base[int(r)*len(out):]
			for i, v := range row[from:to] {
				sum[i] += float32(w * ToFloat(v))
			}
		}
		for i, v := range sum {
			out[from+i] = FromFloat(v)
		}
	}
}
