package report

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"

	"perigee/internal/figures"
	"perigee/internal/kit/size"
)

//go:embed replay.html
var replayHTML string

// scaleColumns are the headers of the table of load by time scale, of which scaleRows has a row for each length of
// windows, and one for the steady window.
func scaleColumns() []string {
	return []string{"Window", "Windows", "Peak offered", "Of capacity", "Over it", "Peak carried", "Peak to a rank"}
}

func scaleRows(r *figures.Replay) (rows [][]string) {
	share := func(v float64) string {
		if r.Capacity == nil || !(*r.Capacity > 0) {
			return "-"
		}
		return fmt.Sprintf("%.3g", v / *r.Capacity)
	}
	for _, s := range r.Scales {
		over := "-"
		if r.Capacity != nil {
			over = strconv.Itoa(s.Over)
		}
		rows = append(rows, []string{fmt.Sprintf("%g s", s.WindowS), strconv.Itoa(s.Windows), size.Rate(s.Offered),
			share(s.Offered), over, size.Rate(s.Carried), size.Rate(s.PerRank)})
	}
	return append(rows, []string{"all, " + figures.Duration(figures.Num(r.SpanNS)), "1", size.Rate(r.Offered),
		share(r.Offered), "-", size.Rate(r.Carried), "-"})
}

// requestColumns are the headers of the table of percentiles, of which requestRows has a row for each figure of
// requests that is known.
func requestColumns() []string { return []string{"Of requests", "P50", "P90", "P99", "Max"} }

func requestRows(r *figures.Replay) [][]string {
	ns := func(v float64) string { return figures.Duration(figures.Num(v)) }
	var rows [][]string
	for _, x := range []struct {
		name string
		list [4]float64
		text func(float64) string
	}{
		{"lateness of all posts", r.Lateness.List(), ns}, {"queue: due to admitted", r.Queue.List(), ns},
		{"latency: due to done", r.Latency.List(), ns}, {"transfer: posted to done", r.Transfer.List(), ns},
		{"slowdown: transfer / as many bytes alone", r.Slowdown.List(),
			func(v float64) string { return fmt.Sprintf("%.2fx", v) }},
		{"transfer's share of the time to first token", r.Share.List(),
			func(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }},
	} {
		if math.IsNaN(x.list[0]) {
			continue
		}
		p := x.list
		rows = append(rows, []string{x.name, x.text(p[0]), x.text(p[1]), x.text(p[2]), x.text(p[3])})
	}
	return rows
}

func writeReplay(p *printer, r *figures.Replay, l look) {
	p.grid(l, "load by time scale", scaleColumns(), scaleRows(r))
	p.grid(l, "requests", requestColumns(), requestRows(r))
}
