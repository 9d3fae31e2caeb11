package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"perigee/internal/kit/cli"
	shared "perigee/internal/kit/page"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/stats"
	"perigee/internal/serving/judge"
)

var (
	//go:embed body.html
	bodyHTML string
	//go:embed disagg.js
	script string
	//go:embed disagg.css
	styles string
)

// Options say how the page is made.
type Options struct {
	Title, Generator string
	Alpha            float64
}

// curve is a figure over the concurrency, as the scripts have it.
type curve struct {
	Test   string  `json:"test"`
	Metric string  `json:"metric"`
	Points []point `json:"points"`
}

type point struct {
	X     float64     `json:"x"`
	Y     float64     `json:"y"`
	Range *[2]float64 `json:"range,omitempty"`
	Runs  int         `json:"runs"`
}

// past is the history of a figure.
type past struct {
	Key
	Times  []int64   `json:"times"` // seconds since 1970
	Values []float64 `json:"values"`
}

// trade is a point of the trade-off.
type trade struct {
	Case        string  `json:"case"`
	Concurrency int     `json:"concurrency"`
	X           float64 `json:"x"` // tokens per second of one user
	Y           float64 `json:"y"` // tokens per second, per GPU where the number is known
	Front       bool    `json:"front"`
}

type data struct {
	Curves  []curve `json:"curves"`
	History []past  `json:"history"`
	Trades  []trade `json:"trades"`
	PerGPU  bool    `json:"per_gpu"`
}

var body = template.Must(template.New("body").Funcs(template.FuncMap{
	"join":  func(list []string) string { return strings.Join(list, "; ") },
	"class": func(state string) string { return map[string]string{"passed": "good", "failed": "bad"}[state] },
	"time":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
}).Parse(bodyHTML))

// WritePage writes the page of a batch of benchmarks: cases with their reasons, figures by level, curves over the load,
// the trade-off with its Pareto front, and the history of every figure.
func WritePage(w io.Writer, cases []judge.Case, series []Series, o Options) error {
	figures := Figures(series, o.Alpha)
	d := data{Curves: curves(figures), History: pasts(series), Trades: []trade{}}
	d.Trades, d.PerGPU = trades(cases)
	levels := Sheet(figures)
	levels.Class = "sortable"
	sections := []shared.Section{{ID: "cases", Title: "Cases"}, {ID: "curves", Title: "Curves"},
		{ID: "trade-off", Title: "Trade-off"},
		{ID: "levels", Title: "Levels"}, {ID: "history", Title: "History"}}
	return shared.Page{
		Title: o.Title, Generator: o.Generator, Sections: sections, Data: []shared.Data{{ID: "disagg", Value: d}},
		Styles: []string{styles}, Scripts: []string{script},
	}.WriteWith(w, body, struct {
		Options
		Answer  []string
		Cases   []judge.Case
		Levels  *sheet.Sheet
		Trades  int
		Percent string
	}{o, Answer(cases), cases, levels, len(d.Trades), fmt.Sprintf("%g", 100*(1-o.Alpha))})
}

func curves(figures []Figure) []curve {
	list := []curve{}
	for _, f := range figures { // sorted by test, metric, concurrency
		if n := len(list); n == 0 || list[n-1].Test != f.Test || list[n-1].Metric != f.Metric {
			list = append(list, curve{Test: f.Test, Metric: f.Metric})
		}
		p := point{X: float64(f.Concurrency), Y: f.Median, Runs: f.Runs}
		if f.Low != nil {
			p.Range = &[2]float64{*f.Low, *f.High}
		}
		last := &list[len(list)-1]
		last.Points = append(last.Points, p)
	}
	return list
}

func pasts(series []Series) []past {
	list := []past{}
	for _, s := range series {
		p := past{Key: s.Key, Values: s.Values()}
		for _, r := range s.Rows {
			p.Times = append(p.Times, r.Start.Unix())
		}
		list = append(list, p)
	}
	return list
}

// measured is what the runs of a level of a case have measured.
type measured struct {
	id          string
	concurrency int
	rates, ttft []float64 // output tokens per second, and median times to the first token in ms
	x, y        []float64 // tokens per second of one user, and the rates of the same runs
}

// measuredOf brings together the complete levels of sound cases, in their order. Rates are per GPU where the number is
// known of all these cases.
func measuredOf(cases []judge.Case) (list []*measured, perGPU bool) {
	cases = slices.DeleteFunc(slices.Clone(cases), func(c judge.Case) bool { return !c.Sound() })
	perGPU = !slices.ContainsFunc(cases, func(c judge.Case) bool { return c.GPUs == 0 })
	for _, c := range cases {
		for _, l := range c.Levels {
			if !l.Complete || l.Throughput <= 0 {
				continue
			}
			at := func(m *measured) bool { return m.id == c.ID && m.concurrency == l.Concurrency }
			i := slices.IndexFunc(list, at)
			if i < 0 {
				i, list = len(list), append(list, &measured{id: c.ID, concurrency: l.Concurrency})
			}
			m, rate := list[i], l.Throughput
			if perGPU {
				rate /= float64(c.GPUs)
			}
			m.rates = append(m.rates, rate)
			if t := l.Metrics["SERVER_MEDIAN_TTFT"]; t > 0 {
				m.ttft = append(m.ttft, t)
			}
			if tpot := l.Metrics["SERVER_MEDIAN_TPOT"]; tpot > 0 && !math.IsInf(1000/tpot, 0) {
				m.x, m.y = append(m.x, 1000/tpot), append(m.y, rate)
			}
		}
	}
	return list, perGPU
}

// trades puts the levels of sound cases on two axes: what a user sees and what the
// machines give, each the median of all runs.
func trades(cases []judge.Case) (list []trade, perGPU bool) {
	list = []trade{}
	var points []stats.ParetoPoint
	levels, perGPU := measuredOf(cases)
	for _, m := range levels {
		if len(m.x) > 0 {
			t := trade{Case: m.id, Concurrency: m.concurrency, X: stats.Median(m.x), Y: stats.Median(m.y)}
			list = append(list, t)
			points = append(points, stats.ParetoPoint{X: t.X, Y: t.Y})
		}
	}
	for i, on := range stats.ParetoFront(points, false, false) {
		list[i].Front = on
	}
	return list, perGPU
}

// Answer says in sentences which level of which case generates most, per GPU where the number is known of all, and what
// became of the cases.
func Answer(cases []judge.Case) (list []string) {
	if len(cases) == 0 { // figures alone
		return nil
	}
	ids, failed := map[string]bool{}, []string{}
	for _, c := range cases {
		ids[c.ID] = true
		if c.State == judge.Failed && !slices.Contains(failed, c.ID) {
			failed = append(failed, c.ID)
		}
	}
	levels, perGPU := measuredOf(cases)
	if len(levels) > 0 {
		best := slices.MinFunc(levels, func(a, b *measured) int {
			return cmp.Or(cmp.Compare(stats.Median(b.rates), stats.Median(a.rates)),
				cmp.Compare(a.id+fmt.Sprint(a.concurrency), b.id+fmt.Sprint(b.concurrency)))
		})
		text := fmt.Sprintf("The highest output rate is that of %s at concurrency %d: %.4g tokens/s", best.id,
			best.concurrency, stats.Median(best.rates))
		if perGPU {
			text += " per GPU"
		}
		if len(best.ttft) > 0 {
			text += fmt.Sprintf(", with a median time to first token of %.4g ms", stats.Median(best.ttft))
		}
		if len(best.rates) > 1 {
			text += fmt.Sprintf(" (medians of %d runs)", len(best.rates))
		}
		list = append(list, text+".")
	}
	what := fmt.Sprintf("%s in %s", cli.Count(len(ids), "case"), cli.Count(len(cases), "run"))
	if len(failed) == 0 {
		return append(list, what+"; none failed.")
	}
	return append(list, fmt.Sprintf("%s; failed: %s.", what, strings.Join(failed, ", ")))
}

// Sheet is the table of figures.
func Sheet(figures []Figure) *sheet.Sheet {
	s := sheet.New("", "", "|Test", "Concurrency", "|Metric", "Median %.2f", "Low %.2f", "High %.2f", "Runs")
	s.Keys = 3
	for _, f := range figures {
		low, high := any(nil), any(nil)
		if f.Low != nil {
			low, high = *f.Low, *f.High
		}
		s.AddRow(f.Test, f.Concurrency, f.Metric, f.Median, low, high, f.Runs)
	}
	return s
}
