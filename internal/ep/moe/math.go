package moe

import "math"

// The functions of package math differ in the last bit between processors, and
// a compiler may fuse a product and a sum. The routing must be the same
// everywhere, so its functions are written out here; an explicit conversion
// forbids fusion.

// logOf returns the natural logarithm of x > 0, by the series of artanh.
func logOf(x float64) float64 {
	fraction, exponent := math.Frexp(x) // exact; fraction is 0.5 to 1
	if fraction < math.Sqrt2/2 {
		fraction, exponent = fraction*2, exponent-1
	}
	z := (fraction - 1) / (fraction + 1)
	square := float64(z * z)
	sum := 0.0
	for k := 27; k >= 1; k -= 2 { // |z| < 0.172: the first term left out is below 1e-22
		sum = float64(sum*square) + 1/float64(k)
	}
	return float64(2*z*sum) + float64(float64(exponent)*math.Ln2)
}

// expOf returns e to the x, by the Taylor series after a reduction to |r| <= ln(2)/2.
func expOf(x float64) float64 {
	switch {
	case x > 709:
		return math.MaxFloat64
	case x < -745:
		return 0
	}
	k := math.Round(x / math.Ln2)
	r := x - float64(k*math.Ln2)
	sum := 1.0
	for n := 18; n >= 1; n-- {
		sum = 1 + float64(float64(r*sum)/float64(n))
	}
	return math.Ldexp(sum, int(k)) // exact
}
