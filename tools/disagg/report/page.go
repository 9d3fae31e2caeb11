package report

import (
	"bytes"
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
	var text bytes.Buffer
	err := body.Execute(&text, struct {
		Options
		Answer  []string
		Cases   []judge.Case
		Levels  *sheet.Sheet
		Trades  int
		Percent string
	}{o, Answer(cases), cases, levels, len(d.Trades), fmt.Sprintf("%g", 100*(1-o.Alpha))})
	if err != nil {
		return err
	}
	sections := []shared.Section{{ID: "cases", Title: "Cases"}, {ID: "curves", Title: "Curves"},
		{ID: "trade-off", Title: "Trade-off"},
		{ID: "levels", Title: "Levels"}, {ID: "history", Title: "History"}}
	return shared.Page{
		Title: o.Title, Generator: o.Generator, Sections: sections, Body: template.HTML(text.String()),
		Footer: shared.MadeBy(o.Generator), Data: []shared.Data{{ID: "disagg", Value: d}}, Styles: []string{styles},
		Scripts: []string{script},
	}.Write(w)
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

// trades puts the levels of sound cases on two axes: what a user sees and what the
// machines give, each the median of all runs.
func trades(cases []judge.Case) (list []trade, perGPU bool) {
	cases = slices.DeleteFunc(slices.Clone(cases), func(c judge.Case) bool { return !c.Sound() })
	perGPU = !slices.ContainsFunc(cases, func(c judge.Case) bool { return c.GPUs == 0 })
	type key struct {
		id          string
		concurrency int
	}
	var keys []key
	x, y := map[key][]float64{}, map[key][]float64{}
	for _, c := range cases {
		for _, l := range c.Levels {
			tpot := l.Metrics["SERVER_MEDIAN_TPOT"]
			if !l.Complete || tpot <= 0 || l.Throughput <= 0 || math.IsInf(1000/tpot, 0) {
				continue
			}
			k, gpus := key{c.ID, l.Concurrency}, 1
			if perGPU {
				gpus = c.GPUs
			}
			if x[k] == nil {
				keys = append(keys, k)
			}
			x[k], y[k] = append(x[k], 1000/tpot), append(y[k], l.Throughput/float64(gpus))
		}
	}
	list = []trade{}
	var points []stats.ParetoPoint
	for _, k := range keys {
		t := trade{Case: k.id, Concurrency: k.concurrency, X: stats.Median(x[k]), Y: stats.Median(y[k])}
		list = append(list, t)
		points = append(points, stats.ParetoPoint{X: t.X, Y: t.Y})
	}
	for i, on := range stats.ParetoFront(points, false, false) {
		list[i].Front = on
	}
	return list, perGPU
}

// Answer says in sentences which level of which case generates most, per GPU where the number is known of all, and what
// became of the cases.
func Answer(cases []judge.Case) (list []string) {
	type level struct {
		id          string
		concurrency int
	}
	rates, ttft, perGPU := map[level][]float64{}, map[level][]float64{}, true
	ids, failed := map[string]bool{}, []string{}
	for _, c := range cases {
		ids[c.ID] = true
		if c.State == judge.Failed && !slices.Contains(failed, c.ID) {
			failed = append(failed, c.ID)
		}
		perGPU = perGPU && (!c.Sound() || c.GPUs > 0)
	}
	var best level
	for _, c := range cases {
		for _, l := range c.Levels {
			if !c.Sound() || !l.Complete || l.Throughput <= 0 {
				continue
			}
			k, gpus := level{c.ID, l.Concurrency}, 1
			if perGPU {
				gpus = c.GPUs
			}
			rates[k] = append(rates[k], l.Throughput/float64(gpus))
			if t := l.Metrics["SERVER_MEDIAN_TTFT"]; t > 0 {
				ttft[k] = append(ttft[k], t)
			}
		}
	}
	for k, values := range rates {
		if n, most := stats.Median(values), stats.Median(rates[best]); rates[best] == nil || n > most ||
			n == most && k.id+fmt.Sprint(k.concurrency) < best.id+fmt.Sprint(best.concurrency) {
			best = k
		}
	}
	if values := rates[best]; values != nil {
		text := fmt.Sprintf("The highest output rate is that of %s at concurrency %d: %.4g tokens/s", best.id,
			best.concurrency, stats.Median(values))
		if perGPU {
			text += " per GPU"
		}
		if t := ttft[best]; t != nil {
			text += fmt.Sprintf(", with a median time to first token of %.4g ms", stats.Median(t))
		}
		if len(values) > 1 {
			text += fmt.Sprintf(" (medians of %d runs)", len(values))
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
	s := &sheet.Sheet{Title: "", Keys: 3}
	s.AddColumn("Test", sheet.Left, "")
	s.AddColumn("Concurrency", sheet.Right, "")
	s.AddColumn("Metric", sheet.Left, "")
	s.AddColumns(sheet.Right, "%.2f", "Median", "Low", "High")
	s.AddColumn("Runs", sheet.Right, "")
	for _, f := range figures {
		low, high := any(nil), any(nil)
		if f.Low != nil {
			low, high = *f.Low, *f.High
		}
		s.AddRow(f.Test, f.Concurrency, f.Metric, f.Median, low, high, f.Runs)
	}
	return s
}
