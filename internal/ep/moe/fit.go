package moe

import (
	"math"
	"slices"

	"perigee/internal/kit/stats"
)

// Point is one rung of a sweep.
type Point struct {
	Bytes   float64
	Seconds float64
}

// SizeLine is the model seconds = Alpha + bytes/Rate fitted to a sweep.
type SizeLine struct {
	Alpha float64 // seconds
	Rate  float64 // bytes per second
	R2    float64 // share of the variance that the line explains
	Share float64 // of the time of the largest rung that the bytes take
	// The 95 % intervals, for times that scatter around the line by chance, all alike.
	AlphaLow, AlphaHigh float64
	RateLow, RateHigh   float64
	Refused             string // why Alpha and Rate mean nothing; "" where they do not
	Starred             bool   // whether the smallest rung is too large to say much of Alpha
}

// The gates of a fit.
const (
	fewestRungs = 3
	leastR2     = 0.9
	leastShare  = 0.25
	// Above 1 the line starts below 0: a little may be noise.
	mostShare = 1.05
	// The smallest rung is small if it is at most this part of the largest.
	smallRung = 0.1
)

// FitLine fits a line by least squares, and says where it does not hold.
func FitLine(points []Point) (l SizeLine) {
	if len(points) < fewestRungs {
		l.Refused = "too few sizes"
		return l
	}
	x, y := make([]float64, len(points)), make([]float64, len(points))
	for i, p := range points {
		x[i], y[i] = p.Bytes, p.Seconds
	}
	slope, intercept, r2, ok := regress(x, y)
	if !ok {
		l.Refused = "sizes do not differ"
		return l
	}
	largest, smallest := slices.Max(x), slices.Min(x)
	bySlope, byIntercept := halves(x, y, slope, intercept)
	l.Alpha, l.Rate, l.R2 = intercept, 1/slope, r2
	l.AlphaLow, l.AlphaHigh = intercept-byIntercept, intercept+byIntercept
	l.RateLow, l.RateHigh = 1/(slope+bySlope), 1/(slope-bySlope)
	l.Share = slope * largest / (intercept + slope*largest)
	l.Starred = smallest > smallRung*largest
	switch {
	case r2 < leastR2:
		l.Refused = "unreliable: poor fit"
	case slope <= 0 || l.Share < leastShare:
		l.Refused = "not bandwidth-bound"
	case l.Share > mostShare:
		l.Refused = "unreliable: time grows faster than bytes"
	case bySlope >= slope:
		l.Refused = "unreliable: the times scatter too much for so few sizes"
	}
	return l
}

// regress returns the least-squares line; ok is false where all x are equal.
func regress(x, y []float64) (slope, intercept, r2 float64, ok bool) {
	n := float64(len(x))
	var mx, my float64
	for i := range x {
		mx += x[i] / n
		my += y[i] / n
	}
	var xx, xy, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	if xx == 0 {
		return 0, 0, 0, false
	}
	slope = xy / xx
	r2 = 1.0
	if yy > 0 {
		r2 = xy * xy / (xx * yy)
	}
	return slope, my - slope*mx, r2, true
}

// halves returns half the widths of the 95 % intervals of a least-squares line.
func halves(x, y []float64, slope, intercept float64) (bySlope, byIntercept float64) {
	n, mean := float64(len(x)), stats.Mean(x)
	var residual, spread float64 // sums of squares
	for i := range x {
		r, d := y[i]-intercept-slope*x[i], x[i]-mean
		residual, spread = residual+r*r, spread+d*d
	}
	half := stats.StudentQuantile(0.975, n-2) * math.Sqrt(residual/(n-2))
	return half / math.Sqrt(spread), half * math.Sqrt(1/n+mean*mean/spread)
}

// Growth is how a time grows with the number of ranks: proportional to ranks^Exponent.
type Growth struct {
	Exponent  float64
	Low, High float64 // the 95 % interval of the exponent, for times that scatter around the power law by chance
	R2        float64
	Refused   string // why Exponent means nothing
}

// widest is the width of an interval from which it says nothing: it reaches over three shapes.
const widest = 1.0

// FitGrowth fits a power law to seconds by ranks, by least squares on logarithms. Several times of the same number of
// ranks make the interval narrower. All values must be positive.
func FitGrowth(ranks, seconds []float64) (g Growth) {
	distinct := slices.Compact(slices.Sorted(slices.Values(ranks)))
	if len(distinct) < fewestRungs {
		g.Refused = "too few rank counts"
		return g
	}
	x, y := make([]float64, len(ranks)), make([]float64, len(ranks))
	for i := range ranks {
		x[i], y[i] = math.Log(ranks[i]), math.Log(seconds[i])
	}
	slope, intercept, r2, ok := regress(x, y)
	if !ok || math.IsNaN(slope) || math.IsInf(slope, 0) {
		g.Refused = "some times are not positive"
		return g
	}
	half, _ := halves(x, y, slope, intercept)
	g.Exponent, g.Low, g.High, g.R2 = slope, slope-half, slope+half, r2
	if 2*half > widest {
		g.Refused = "the times scatter too much for so few"
	}
	return g
}

// flat is the exponent below which a time counts as independent of the ranks.
const flat = 0.25

// Shape names the growth: constant, sublinear, linear, superlinear or quadratic and more; or from which to which it may
// be.
func (g Growth) Shape() string {
	if low, high := shape(g.Low), shape(g.High); low != high {
		return low + " to " + high
	}
	return shape(g.Exponent)
}

func shape(exponent float64) string {
	switch {
	case exponent < flat:
		return "constant"
	case exponent < 0.75:
		return "sublinear"
	case exponent < 1.25:
		return "linear"
	case exponent < 1.75:
		return "superlinear"
	}
	return "quadratic or more"
}
