package matrix

import (
	"math"
	"math/bits"
)

// scaleBytes returns bytes*f rounded to the nearest integer, halves up, and
// whether it fits an int64. f must be finite and >= 0.
//
// A float64 is an integer of 53 bits times a power of two, so the product is
// an integer of at most 116 bits times a power of two: it is computed in full
// and rounded once.
func scaleBytes(bytes int64, f float64) (int64, bool) {
	if bytes == 0 || f == 0 {
		return 0, true
	}
	fraction, exponent := math.Frexp(f) // f = fraction * 2^exponent, fraction in [0.5, 1)
	high, low := bits.Mul64(uint64(bytes), uint64(math.Ldexp(fraction, 53)))
	shift := 53 - exponent // the result is (high, low) / 2^shift
	if shift > 0 {
		return roundShift(high, low, shift)
	}
	if high != 0 || bits.Len64(low)-shift > 63 {
		return 0, false
	}
	return int64(low << -shift), true
}

// roundShift returns (high, low) / 2^shift, shift > 0, rounded to the nearest
// integer with halves up, and whether it fits an int64.
func roundShift(high, low uint64, shift int) (int64, bool) {
	if shift > 128 {
		return 0, true
	}
	// The last bit shifted out is worth one half.
	high, low = shiftRight(high, low, shift-1)
	half := low & 1
	high, low = shiftRight(high, low, 1)
	low, carry := bits.Add64(low, half, 0)
	if high+carry != 0 || low > math.MaxInt64 {
		return 0, false
	}
	return int64(low), true
}

// shiftRight shifts the 128 bits of (high, low) right by 0 to 127.
func shiftRight(high, low uint64, by int) (uint64, uint64) {
	if by >= 64 {
		return 0, high >> (by - 64)
	}
	return high >> by, low>>by | high<<(64-by) // a shift by 64 is 0 in Go
}
