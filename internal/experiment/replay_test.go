package experiment

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"perigee/internal/traffic/play"
)

// A link carries a byte a nanosecond while 8 transfers are always under way. How many transfers there are, how unequal
// they are, and whether the link serves them together or one after the other makes no difference; transfers that are
// too long for a figure are known by what was cut.
func TestCarried(t *testing.T) {
	const length = 1000
	for name, sizes := range map[string][]int64{
		"tiny": {1}, "equal": {20}, "of two sizes": {5, 20}, "one large": {30, 2, 2, 2, 2, 2, 2, 2, 2, 2}, "too large": {3000}, "one too large": {5000, 5},
	} {
		for service, link := range map[string]func([]int64, int64) []play.Timed{"in turn": inTurn, "together": together} {
			c := carried{begin: length, length: length}
			c.add(link(sizes, c.end()))
			sum := c.stretches[0] + c.stretches[1] + c.stretches[2]
			if isCut := c.cut > mostCut*sum; isCut != strings.Contains(name, "too large") {
				t.Errorf("%s, %s: %.0f of %.0f bytes are cut", name, service, c.cut, sum)
			} else if median := slices.Sorted(slices.Values(c.stretches[:]))[1]; !isCut && math.Abs(median/length-1) > 0.1 {
				t.Errorf("%s, %s: stretches of %.0f bytes, want %d", name, service, c.stretches, length)
			}
		}
	}
}

// inTurn is a link that serves transfers in the order of their posts, of which there are none from an instant on.
func inTurn(sizes []int64, until int64) (list []play.Timed) {
	var now int64
	for k := 0; k < busyDepth || list[k-busyDepth].End < until; k++ {
		p := play.Timed{Bytes: sizes[k%len(sizes)]}
		if k >= busyDepth {
			p.Admitted = list[k-busyDepth].End
		}
		now += p.Bytes
		p.Posted, p.End = p.Admitted, now
		list = append(list, p)
	}
	return list
}

// together is a link that serves all transfers under way at the same time.
func together(sizes []int64, until int64) (list []play.Timed) {
	type flight struct {
		play.Timed
		left float64
	}
	var under []flight
	now, posted := 0.0, 0
	for {
		for len(under) < busyDepth && now < float64(until) {
			p := play.Timed{Bytes: sizes[posted%len(sizes)], Admitted: int64(now), Posted: int64(now)}
			under = append(under, flight{p, float64(p.Bytes)})
			posted++
		}
		if len(under) == 0 {
			return list
		}
		first := slices.MinFunc(under, func(a, b flight) int { return cmp.Compare(a.left, b.left) }).left
		now += first * float64(len(under))
		for i := range under {
			under[i].left -= first
			if under[i].left <= 0 {
				under[i].End = int64(now)
				list = append(list, under[i].Timed)
			}
		}
		under = slices.DeleteFunc(under, func(x flight) bool { return x.left <= 0 })
	}
}

// Records come as they were sent, and what is torn is noticed.
func TestRecordsOnTheirWay(t *testing.T) {
	list := []play.Timed{
		{Transfer: 5, Due: 1 << 60, Admitted: 1<<60 + 1, Posted: 1<<60 - 7, End: 1<<60 + 9, Bytes: 1 << 40}, {Transfer: 1 << 30},
	}
	packed := packTimed(list, -1<<61)
	if got, until, err := readTimed(packed); err != nil || until != -1<<61 || !slices.Equal(got, list) {
		t.Errorf("%+v until %d, %v", got, until, err)
	}
	for n := range packed {
		if _, _, err := readTimed(packed[:n]); err == nil {
			t.Errorf("%d of %d bytes were taken", n, len(packed))
		}
	}
}
