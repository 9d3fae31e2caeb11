package report

import (
	"cmp"
	"fmt"
	"strings"

	"perigee/internal/figures"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/result"
)

// The tables of a result, as the page has them; the text has some of their columns.

// cellOf writes a figure in words; a program and who sorts gets the figure. One that is not known is no cell.
func cellOf(n figures.Num, words func(figures.Num) string) any {
	if !n.Known() {
		return nil
	}
	return sheet.Cell{Value: float64(n), Text: words(n)}
}

func durationCell(n figures.Num) any { return cellOf(n, figures.Duration) }
func ratioCell(n figures.Num) any    { return cellOf(n, plainRatio) }
func rateCell(n figures.Num) any     { return cellOf(n, size.Rate[figures.Num]) }

// unlessZero is a cell whose value is not known where it is 0.
func unlessZero(n int64, cell any) any {
	if n == 0 {
		return nil
	}
	return cell
}

// plainSheet has rows that are text already.
func plainSheet(title string, columns []string, rows [][]string) *sheet.Sheet {
	s := sheet.New(title, "")
	s.AddColumns(sheet.Right, "", sheet.Unique(columns)...)
	for _, row := range rows {
		cells := make([]any, len(row))
		for i, text := range row {
			cells[i] = text
		}
		s.AddRow(cells...)
	}
	return s
}

func blockSheet(list []figures.Block) *sheet.Sheet {
	s := sheet.New("block transfers", "sortable blocks", "<Series", "Block", "Batch", "Threads", "Iterations",
		"Bandwidth", "Mean", "P50", "P99", "P99.9", "CPU")
	for _, b := range list {
		s.AddRow(strings.TrimSuffix(b.Series+", "+b.Measured(), ", "), sheet.Cell{Value: b.BlockBytes,
			Text: b.BlockSize()},
			b.Batch, b.Threads, b.Iterations, rateCell(b.Bandwidth), durationCell(b.MeanNS), durationCell(b.P50NS),
			durationCell(b.P99NS), durationCell(b.P999NS), cellOf(b.CPUSeconds, func(n figures.Num) string {
				return fmt.Sprintf("%.3g s", float64(n))
			}))
	}
	return s
}

// patternSheet has the columns of [figures.PatternColumns], without those that no pattern has.
func patternSheet(list []figures.PatternFigures) *sheet.Sheet {
	s := sheet.New("patterns", "sortable patterns")
	for _, c := range figures.PatternColumns {
		side := sheet.Right
		if c.Name == "Name" || c.Name == "Op" {
			side = sheet.Words
		}
		s.AddColumn(c.Name, side, "")
		s.Explain(c.Name, c.Help)
	}
	requests := ofRequests(list)
	for i := range list {
		var row []any
		for _, c := range figures.PatternColumns {
			row = append(row, patternCell(c, &list[i]))
		}
		if requests {
			row[0] = sheet.Cell{Value: row[0], Text: list[i].Label()}
		}
		s.AddRow(row...)
	}
	return s.Filled() // what no pattern has takes the room of what they have
}

// patternCell says a figure of a pattern in its unit.
func patternCell(c figures.PatternColumn, p *figures.PatternFigures) any {
	switch v := c.Of(p).(type) {
	case figures.Num:
		switch c.Unit {
		case "ns":
			return durationCell(v)
		case "B/s":
			return rateCell(v)
		}
		return ratioCell(v)
	case [2]figures.Num:
		return sheet.Cell{Value: float64(v[0]), Text: sleepsText(v)}
	case int64:
		if c.Unit == "B" {
			return sheet.Bytes(v)
		}
		return v
	default:
		return v
	}
}

// pairSheet is about pairs of ranks; way names the hosts that their bytes go between.
func pairSheet(list []figures.Pair, way func(figures.Pair) string) *sheet.Sheet {
	s := sheet.New("slowdown by pair", "sortable pairs", "From", "To", "<Hosts", "Messages", "Bytes", "Isolated",
		"Workload", "Bandwidth", "Slowdown", "Contention", "Pair")
	for _, p := range list {
		s.AddRow(p.From, p.To, way(p), p.Messages, sheet.Bytes(p.Bytes), durationCell(p.IsolatedNS),
			durationCell(p.LatencyNS),
			rateCell(p.Bandwidth), ratioCell(p.Slowdown), ratioCell(p.Contention), fmt.Sprintf("%d \u2192 %d",
				p.From, p.To))
	}
	return s
}

func latencySheet(list []figures.Latency) *sheet.Sheet {
	s := sheet.New("latency", "percentiles", "<Of", "Count", "Min", "P50", "P90", "P95", "P99", "P99.9", "Max")
	for _, x := range list {
		row := []any{strings.TrimSpace(x.Of + " " + x.Phase), x.Count}
		for _, n := range []figures.Num{x.Min, x.P50, x.P90, x.P95, x.P99, x.P999, x.Max} {
			if x.Unit == "ratio" {
				row = append(row, ratioCell(n))
			} else {
				row = append(row, durationCell(n))
			}
		}
		s.AddRow(row...)
	}
	return s
}

func metricSheet(list []metricView) *sheet.Sheet {
	s := sheet.New("metrics", "metrics", "<Metric", "<What it is", "Values", "Min", "P50", "P90", "P99", "Max")
	for _, m := range list {
		s.AddRow(m.Name, m.Help, m.Count, m.Min, m.Median, m.P90, m.P99, m.Max)
	}
	return s
}

// shareSheet has a row for each class of patterns.
func shareSheet(shares *figures.Shares) *sheet.Sheet {
	s := sheet.New("shares by class", "shares", "<Class", "Runs", "Weight", "Throughput", "Alone", "Leakage", "In SLO",
		"Goodput")
	for _, x := range shares.Classes {
		s.AddRow(cmp.Or(x.Class, "(none)"), x.Runs, cellOf(x.Weight, shareText), rateCell(x.Throughput),
			rateCell(x.Isolated), cellOf(x.Leakage, shareText), cellOf(x.Attainment, shareText), rateCell(x.Goodput))
	}
	s.Say = []string{fmt.Sprintf("Jain's index of throughput / weight: %s. Sum of weight x goodput: %s.",
		shareText(shares.Jain), plainRate(shares.Goodput))}
	return s
}

// planeSheet has a row for each measurement of the data plane of experts.
func planeSheet(list []planeView) *sheet.Sheet {
	s := sheet.New("experts: mean over ranks, percentiles of the slowest rank", "sortable experts", "<Mode", "<Entry",
		"Tokens", "GB/s", "mean (us)", "p50", "p99", "wait %", "Hidden", "Experts/rank", "Top-k", "<Routing",
		"<Placement",
		"Sent", "GB/s by rank", "remote", "on the wire", "p90", "Rank load max/mean")
	for _, x := range list {
		fixed := func(n number, decimals int) any {
			return cellOf(figures.Num(n), func(figures.Num) string { return n.Text(decimals) })
		}
		s.AddRow(x.Mode, x.Began(), x.Tokens, fixed(x.Rate.Assignment, 2), fixed(x.Latency.Avg, 1),
			fixed(x.Slowest.P50, 1),
			fixed(x.Slowest.P99, 1), fixed(100*x.Shares.Wait, 1), x.Hidden, x.PerRank, x.TopK, x.Routing+", "+x.Payload,
			x.Placement, sheet.Cell{Value: float64(x.Bytes.Assignment), Text: x.Sent()}, fixed(x.Rate.Rank, 2),
			fixed(x.Rate.Remote, 2), fixed(x.Rate.Wire, 2), fixed(x.Slowest.P90, 1), fixed(x.Hotspot, 2))
	}
	return s
}

// scaleSheet is the load of a replay: a row for each length of windows, and one for the steady window.
func scaleSheet(r *figures.Replay) *sheet.Sheet {
	s := sheet.New("load by time scale", "scales", "Window", "Windows", "Peak offered", "Of capacity", "Over it",
		"Peak carried", "Peak to a rank")
	known := r.Capacity != nil
	share := func(v float64) any {
		if !known || !(*r.Capacity > 0) {
			return nil
		}
		return fmt.Sprintf("%.3g", v / *r.Capacity)
	}
	for _, x := range r.Scales {
		over := any(x.Over)
		if !known {
			over = nil
		}
		s.AddRow(fmt.Sprintf("%g s", x.WindowS), x.Windows, size.Rate(x.Offered), share(x.Offered), over,
			size.Rate(x.Carried), size.Rate(x.PerRank))
	}
	s.AddRow("all, "+figures.Duration(figures.Num(r.SpanNS)), 1, size.Rate(r.Offered), share(r.Offered), nil,
		size.Rate(r.Carried), nil)
	return s
}

// requestSheet is the percentiles of a replay, a row for each figure of requests that is known.
func requestSheet(r *figures.Replay) *sheet.Sheet {
	s := sheet.New("requests", "replayed", "<Of requests", "P50", "P90", "P99", "Max")
	add := func(name string, list [4]float64, text func(float64) string) {
		if figures.Num(list[0]).Known() {
			s.AddRow(name, text(list[0]), text(list[1]), text(list[2]), text(list[3]))
		}
	}
	ns := func(v float64) string { return figures.Duration(figures.Num(v)) }
	add("lateness of all posts", r.Lateness.List(), ns)
	add("queue: due to admitted", r.Queue.List(), ns)
	add("latency: due to done", r.Latency.List(), ns)
	add("transfer: posted to done", r.Transfer.List(), ns)
	add("slowdown: transfer / as many bytes alone", r.Slowdown.List(),
		func(v float64) string { return fmt.Sprintf("%.2fx", v) })
	add("transfer's share of the time to first token", r.Share.List(),
		func(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) })
	return s
}

func hostPairSheet(list []figures.HostPair, names []string) *sheet.Sheet {
	s := sheet.New("traffic between hosts", "sortable hostpairs", "<From", "<To", "Bytes", "Messages", "Mean latency",
		"Bandwidth", "Slowdown")
	for _, p := range list {
		s.AddRow(names[p.From], names[p.To], sheet.Bytes(p.Bytes), p.Messages, durationCell(p.LatencyNS),
			rateCell(p.Bandwidth), ratioCell(p.Slowdown))
	}
	return s
}

// thresholdSheet has the limits, violated ones first.
func thresholdSheet(list []result.Threshold) *sheet.Sheet {
	s := sheet.New("thresholds", "thresholds", "<Limit", "<Verdict", "Value", "Samples", "<Set by")
	for _, t := range violatedFirst(list) {
		samples := any(t.Samples)
		if t.Passed == nil {
			samples = nil
		}
		s.AddRow(strings.TrimSuffix(t.Threshold+": "+whyViolated(t), ": "), verdict(t), measuredText(t), samples,
			t.From)
	}
	return s
}
