package figures

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
	"perigee/scenarios"
)

const (
	mostMetricCharts = 6
	mostSeries       = 20
	firstSeries      = " (the first 20 series)"
	mostInOrder      = 1000 // samples without labels that a chart shows
	namedSeries      = 3    // of which a sentence gives the ends
	wideRange        = 10   // largest / least value from which on an axis is logarithmic
)

// OwnMetrics are the metrics of a user's own script that have samples: they are the result's first figures. A shipped
// scenario's metrics are among them only where nothing else was measured, since they repeat what else there is.
func (f *Figures) OwnMetrics() []result.Metric {
	d := f.Document
	if d == nil || f.Shipped() && (f.Runs > 0 || d.Replay != nil || len(f.Blocks.List) > 0 ||
		len(expertsCharts(f)) > 0) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(d.Metrics), func(m result.Metric) bool { return len(m.Values) == 0 })
}

// Shipped reports whether the scenario is called as one that is part of perigee, and has no metric that it lacks. Its
// text may be that of another version.
func (f *Figures) Shipped() bool {
	_, source, ok := scenarios.Source(strings.TrimSuffix(f.Document.Scenario.Name, ".lua"))
	return ok && !slices.ContainsFunc(f.Document.Metrics, func(m result.Metric) bool {
		return !strings.Contains(source, strconv.Quote(m.Name))
	})
}

// scriptCharts draws the metrics of a scenario over their numeric labels.
func scriptCharts(f *Figures) (list []Chart) {
	for _, m := range f.OwnMetrics() {
		if c := metricChart(m); len(c.Series) > 0 {
			list = append(list, c)
		}
	}
	return list[:min(len(list), mostMetricCharts)]
}

// numericLabel is the label that all samples of a metric have as a number, that with the most different numbers;
// empty without one that has two.
func numericLabel(groups []result.Group) (key string) {
	most := 1
	for k := range groups[0].Labels {
		seen := map[float64]bool{}
		for _, g := range groups {
			v, ok := result.LabelValue(g.Labels[k])
			if !ok {
				seen = nil
				break
			}
			seen[v] = true
		}
		if n := len(seen); n > most || n == most && n > 1 && k < key {
			key, most = k, n
		}
	}
	return key
}

// metricChart draws the medians of a metric over its numeric label, a series for each of the other labels; without
// one, bars by labels; without labels, samples in the order in which they came. A chart without series is none.
func metricChart(m result.Metric) Chart {
	groups := m.Groups()
	c := Chart{Title: m.Name, Y: Axis{Label: cmp.Or(m.Help, m.Name)}}
	key := numericLabel(groups)
	switch {
	case key != "":
		c.X = Axis{Label: key}
		if strings.Contains(key, "size") || strings.Contains(key, "bytes") {
			c.X.Unit = "bytes"
		}
		for _, g := range groups {
			x, _ := result.LabelValue(g.Labels[key])
			c.add(otherLabels(g.Labels, key, m.Name), pointOf(Num(x), g.Values))
		}
	case len(groups) > 1:
		for i, g := range groups[:min(len(groups), mostBars)] {
			c.X.Words = append(c.X.Words, cmp.Or(otherLabels(g.Labels, "", "no label")))
			c.add(m.Name, pointOf(Num(i), g.Values))
		}
	case len(m.Values) > 1 && len(m.Values) <= mostInOrder:
		c.X.Label = "sample"
		for i, v := range m.Values {
			c.add(m.Name, Point{X: Num(i + 1), Y: Num(v), Low: None, High: None})
		}
	}
	c.sort()
	c.X.Log = key != "" && c.wide(func(p Point) Num { return p.X })
	c.Y.Log = c.X.Words == nil && c.wide(func(p Point) Num { return p.Y })
	return c
}

// add adds a point to the series of that name.
func (c *Chart) add(name string, p Point) {
	i := slices.IndexFunc(c.Series, func(s Series) bool { return s.Name == name })
	switch {
	case i < 0 && len(c.Series) == mostSeries:
		c.Title = strings.TrimSuffix(c.Title, firstSeries) + firstSeries
		return
	case i < 0:
		c.Series = append(c.Series, Series{Name: name})
		i = len(c.Series) - 1
	}
	c.Series[i].Points = append(c.Series[i].Points, p)
}

// sort puts the points of each series in the order of the axis.
func (c *Chart) sort() {
	for _, s := range c.Series {
		slices.SortStableFunc(s.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	}
}

// wide reports whether a figure of the points is positive in all and spans so much that only a logarithm shows it.
func (c *Chart) wide(of func(Point) Num) bool {
	least, most := Num(math.Inf(1)), Num(math.Inf(-1))
	take := func(points []Point) {
		for _, p := range points {
			least, most = min(least, of(p)), max(most, of(p))
		}
	}
	for _, s := range c.Series {
		take(s.Points)
	}
	for _, l := range c.Limits {
		take(l.Points)
	}
	return least > 0 && most >= wideRange*least
}

// pointOf is the median of values with what 8 of 10 of them span.
func pointOf(x Num, values []float64) Point {
	sorted := slices.Sorted(slices.Values(values))
	at := func(q float64) Num { return Num(stats.Quantile(sorted, q)) }
	return Point{X: x, Y: at(0.5), Low: at(0.1), High: at(0.9)}
}

// otherLabels writes labels but one; none if there are no others.
func otherLabels(l result.Labels, but, none string) string {
	parts := []string{}
	for _, k := range slices.Sorted(maps.Keys(l)) {
		if k != but {
			parts = append(parts, k+" "+l[k])
		}
	}
	return cmp.Or(strings.Join(parts, ", "), none)
}

// sayScript sums up the script's own metrics, the one that it declares first in front.
func sayScript(f *Figures, say sayer) {
	for _, m := range f.OwnMetrics()[:min(len(f.OwnMetrics()), mostMetricCharts)] {
		groups, c, p := m.Groups(), metricChart(m), pointOf(0, m.Values)
		text := m.Name + ": " + plain(p.Y)
		if n := len(m.Values); n > 1 {
			text = fmt.Sprintf("%s: median %s over %s", m.Name, plain(p.Y), cli.Count(n, "value"))
			if n >= enoughRuns && len(groups) == 1 {
				text += fmt.Sprintf(", 8 of 10 from %s to %s", plain(p.Low), plain(p.High))
			}
		}
		if len(groups) > 1 {
			text += "; " + c.ends()
		}
		say("note", "%s.", text)
	}
}

// ends are the first and the last point of the first series in words, or, of bars, the least and the largest.
func (c *Chart) ends() string {
	at, by := func(p Point) string { return plain(p.X) }, "by "+c.X.Label+": "
	switch {
	case len(c.X.Words) > 0:
		at, by = func(p Point) string { return c.X.Words[int(p.X)] }, ""
	case c.X.Unit == "bytes":
		at = func(p Point) string { return bytesText(int64(p.X)) }
	}
	var parts []string
	for _, s := range c.Series[:min(len(c.Series), namedSeries)] {
		list, name := slices.Clone(s.Points), ""
		if len(c.X.Words) > 0 {
			slices.SortStableFunc(list, func(a, b Point) int { return cmp.Compare(a.Y, b.Y) })
		}
		if len(c.Series) > 1 {
			name = s.Name + " "
		}
		a, b := list[0], list[len(list)-1]
		parts = append(parts, fmt.Sprintf("%s%s at %s, %s at %s", name, plain(a.Y), at(a), plain(b.Y), at(b)))
	}
	if n := len(c.Series) - len(parts); n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more series", n))
	}
	return by + strings.Join(parts, "; ")
}

// plain is a number with four digits, and with more before the point.
func plain(n Num) string {
	v := float64(n)
	if math.Abs(v) >= 1e3 && math.Abs(v) < 1e15 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
