package report

import (
	_ "embed"
	"fmt"
	"strconv"

	"perigee/internal/result"
	"perigee/internal/size"
	"perigee/tools/report/figures"
)

//go:embed replay.html
var replayHTML string

// scaleColumns are the headers of the table of load by time scale, of which scaleRows has a row for each length of
// windows, and one for the steady window.
func scaleColumns() []string {
	return []string{"Window", "Windows", "Peak offered", "Of capacity", "Over it", "Peak carried", "Peak to a rank"}
}

func scaleRows(r *figures.Replay) (rows [][]string) {
	rate := func(v float64) string { return size.Decimal(v) + "/s" }
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
		rows = append(rows, []string{fmt.Sprintf("%g s", s.WindowS), strconv.Itoa(s.Windows), rate(s.Offered),
			share(s.Offered), over, rate(s.Carried), rate(s.PerRank)})
	}
	return append(rows, []string{"all, " + figures.Duration(figures.Num(r.SpanNS)), "1", rate(r.Offered),
		share(r.Offered), "-", rate(r.Carried), "-"})
}

// requestColumns are the headers of the table of percentiles, of which requestRows has a row for each figure of
// requests that is known.
func requestColumns() []string { return []string{"Of requests", "P50", "P90", "P99", "Max"} }

func requestRows(r *figures.Replay) [][]string {
	ns := func(v int64) string { return figures.Duration(figures.Num(v)) }
	rows := [][]string{{"lateness of all posts", ns(r.Lateness.P50NS), "-", ns(r.Lateness.P99NS), ns(r.Lateness.MaxNS)}}
	times := func(name string, t *result.ReplayTimes) {
		if t != nil {
			rows = append(rows, []string{name, ns(t.P50NS), ns(t.P90NS), ns(t.P99NS), ns(t.MaxNS)})
		}
	}
	shares := func(name, format string, by float64, s *result.ReplayShares) {
		if s != nil {
			row := []string{name}
			for _, v := range []float64{s.P50, s.P90, s.P99, s.Max} {
				row = append(row, fmt.Sprintf(format, by*v))
			}
			rows = append(rows, row)
		}
	}
	times("queue: due to admitted", r.Queue)
	times("latency: due to done", r.Latency)
	times("transfer: posted to done", r.Transfer)
	shares("slowdown: transfer / as many bytes alone", "%.2fx", 1, r.Slowdown)
	shares("transfer's share of the time to first token", "%.3g %%", 100, r.Share)
	return rows
}

func writeReplay(p *printer, r *figures.Replay, l look) {
	p.grid(l, "load by time scale", scaleColumns(), scaleRows(r))
	p.grid(l, "requests", requestColumns(), requestRows(r))
}

// loadText is a rate of a replay, which may be absent.
func loadText(v any) string {
	switch v := v.(type) {
	case float64:
		return size.Decimal(v) + "/s"
	case *float64:
		return size.Decimal(*v) + "/s"
	}
	return "-"
}

// firstCharts is how many pictures stand above the facts, as report.js has it: one of the whole width counts for none.
func firstCharts(a figures.Answer) int {
	if len(a.Charts) > 0 && a.Charts[0].Wide {
		return 4
	}
	return 3
}
