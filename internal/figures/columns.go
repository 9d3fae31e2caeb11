package figures

import "perigee/internal/kit/expr"

// PatternColumn is a figure of a pattern as tables show it: a text, a whole number or a [Num] in the unit of the entry.
type PatternColumn struct {
	expr.Entry
	Of func(p *PatternFigures) any
}

func patternColumn(name, unit string, better expr.Better, help string, of func(p *PatternFigures) any) PatternColumn {
	return PatternColumn{expr.Entry{Name: name, Unit: unit, Better: better, Help: help}, of}
}

// PatternColumns are all figures of a pattern, in the order of a page. docs/tables.md has their names and formulas.
var PatternColumns = []PatternColumn{
	patternColumn("Pattern", "", expr.Neither, "number in the configuration, from 0; with the request whose cache it moves, where the two differ",
		func(p *PatternFigures) any { return p.Index }),
	patternColumn("Name", "", expr.Neither, "file of the matrix, or what the scenario says",
		func(p *PatternFigures) any { return p.Name }),
	patternColumn("Tokens", "", expr.Neither, "input tokens of the request or batch",
		func(p *PatternFigures) any { return known(p.Tokens) }),
	patternColumn("KV bytes", "B", expr.Neither, "bytes of its caches and states, before `--scale`",
		func(p *PatternFigures) any { return known(p.KVBytes) }),
	patternColumn("Op", "", expr.Neither, "WRITE or READ",
		func(p *PatternFigures) any { return p.Op }),
	patternColumn("Bytes", "B", expr.Neither, "sum of all cells of the matrix",
		func(p *PatternFigures) any { return p.Bytes }),
	patternColumn("Senders", "", expr.Neither, "ranks that send anything",
		func(p *PatternFigures) any { return p.Senders }),
	patternColumn("Receivers", "", expr.Neither, "ranks that receive anything",
		func(p *PatternFigures) any { return p.Receivers }),
	patternColumn("Isolated", "ns", expr.Lower,
		"latency of the runs alone: last end - first start over the initiators, median over the runs",
		func(p *PatternFigures) any { return p.IsolatedNS }),
	patternColumn("Workload", "ns", expr.Lower,
		"the same of the runs among all others; total time / runs where initiators do not meet between runs (`ct-perftest`)",
		func(p *PatternFigures) any { return p.LatencyNS }),
	patternColumn("Slowdown", "x", expr.Lower, "Workload / Isolated",
		func(p *PatternFigures) any { return p.Slowdown }),
	patternColumn("Start skew", "ns", expr.Lower,
		"last start - first start of the initiators, median over the runs; a part of the latency",
		func(p *PatternFigures) any { return p.StartSkewNS }),
	patternColumn("BW per sender", "B/s", expr.Higher,
		"mean over the senders of their bytes / own time, median over the runs; with one sender Total BW",
		func(p *PatternFigures) any { return p.MeanBandwidth }),
	patternColumn("Total BW", "B/s", expr.Higher, "Bytes / Workload",
		func(p *PatternFigures) any { return p.TotalBandwidth }),
	patternColumn("Sleeps", "ns", expr.Neither, "pauses before and after it",
		func(p *PatternFigures) any { return [2]Num{p.SleepBeforeNS, p.SleepAfterNS} }),
}

// known is a whole number that is missing where it is 0.
func known(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}
