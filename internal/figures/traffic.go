package figures

import (
	"cmp"
	"fmt"
	"slices"

	"perigee/internal/kit/size"
	"perigee/internal/kit/stats"
)

// fewestSizes is how many sizes a curve takes.
const fewestSizes = 3

// trafficCharts draws each pattern alone and in traffic: over bytes, or as bars where there are few sizes.
func trafficCharts(f *Figures) []Chart {
	var list []PatternFigures
	sizes := map[int64][]PatternFigures{}
	for _, p := range f.Patterns {
		if p.IsolatedNS.Known() && p.LatencyNS.Known() {
			list, sizes[p.Bytes] = append(list, p), append(sizes[p.Bytes], p)
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b PatternFigures) int { return cmp.Compare(a.Bytes, b.Bytes) })
	c := Chart{
		Title:  "Time of each pattern, alone and in traffic",
		X:      Axis{Label: "bytes of the pattern", Unit: "bytes", Log: true},
		Y:      Axis{Label: "median, fastest to slowest run", Unit: "ns", Log: true},
		Series: []Series{{Name: "alone"}, {Name: "in traffic"}},
	}
	if !slices.ContainsFunc(list, func(p PatternFigures) bool { return p.Request == "" }) {
		c.Title, c.X.Label = "Transfer of each request, alone and in traffic", "bytes of the request"
	}
	switch {
	case len(sizes) >= fewestSizes && list[0].Bytes > 0:
		for _, p := range list {
			c.addTimes(Num(p.Bytes), p.title(), []PatternFigures{p})
		}
	case len(list) <= mostBars:
		c.X, c.Y.Log = Axis{Label: "pattern"}, false
		for i, p := range list {
			c.X.Words = append(c.X.Words, p.title())
			c.addTimes(Num(i), "", []PatternFigures{p})
		}
	default:
		c.Title = "Time of the patterns of each size, alone and in traffic"
		c.X, c.Y.Log = Axis{Label: "bytes of the pattern"}, false
		for _, p := range list {
			same := sizes[p.Bytes]
			if p.Index == same[0].Index {
				c.addTimes(Num(len(c.X.Words)), fmt.Sprintf("%d patterns", len(same)), same)
				c.X.Words = append(c.X.Words, size.Decimal(p.Bytes))
			}
		}
	}
	return []Chart{c}
}

// title names a pattern by its request, its own name or its number.
func (p PatternFigures) title() string {
	return cmp.Or(p.Request, p.Name, fmt.Sprintf("pattern %d", p.Index))
}

// addTimes adds a point of the patterns' times to both series of the chart.
func (c *Chart) addTimes(x Num, name string, list []PatternFigures) {
	add := func(s *Series, of func(PatternFigures) [3]Num) {
		p := Point{X: x, Low: None, High: None, Name: name}
		var medians []float64
		for i, one := range list {
			times := of(one)
			medians = append(medians, float64(times[1]))
			if i == 0 || times[0] < p.Low {
				p.Low = times[0]
			}
			if i == 0 || times[2] > p.High {
				p.High = times[2]
			}
		}
		p.Y = Num(stats.Median(medians))
		s.Points = append(s.Points, p)
	}
	add(&c.Series[0], func(p PatternFigures) [3]Num {
		return [3]Num{p.IsolatedFastestNS, p.IsolatedNS, p.IsolatedSlowestNS}
	})
	add(&c.Series[1], func(p PatternFigures) [3]Num { return [3]Num{p.FastestNS, p.LatencyNS, p.SlowestNS} })
}
