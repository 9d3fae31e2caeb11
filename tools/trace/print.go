package trace

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/table"
	"perigee/internal/trace/figures"
)

// row is a figure: its name and its text, or "" where a trace has not got it.
type row struct {
	name string
	text func(f *figures.Figures) string
}

// section is a part of the text, under a heading.
type section struct {
	name string
	rows []row
}

// print writes the answers, and below them all figures, with a column for each trace.
func print(w io.Writer, all []*figures.Figures) error {
	for _, f := range all {
		fmt.Fprintln(w, answer(f))
	}
	for _, s := range []section{arrivals, lengths, blocks, hits, load} {
		if err := s.write(w, all); err != nil {
			return err
		}
	}
	return nil
}

// write writes a section without the rows that no trace has, and nothing if none is left.
func (s section) write(w io.Writer, all []*figures.Figures) error {
	var t table.Table
	t.AddColumn(s.name, table.Left, "%s")
	for _, f := range all {
		t.AddColumn(short(f.Name, all), table.Right, "%s")
	}
	for _, r := range s.rows {
		cells, any := []any{r.name}, false
		for _, f := range all {
			cells = append(cells, nil)
			if text := r.text(f); text != "" {
				cells[len(cells)-1], any = text, true
			}
		}
		if any {
			t.AddRow(cells...)
		}
	}
	if t.Len() == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return t.WriteText(w)
}

// short is the last part of a trace's name, if no other trace has the same.
func short(name string, all []*figures.Figures) string {
	base := filepath.Base(name)
	for _, f := range all {
		if f.Name != name && filepath.Base(f.Name) == base {
			return name
		}
	}
	return base
}

// answer says in plain words what matters most.
func answer(f *figures.Figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s in %s s, %s of prompts", f.Name, cli.Count(f.Requests, "request"), number(f.SpanS),
		cli.Count(f.Input.Sum, "token"))
	if f.Outside > 0 {
		fmt.Fprintf(&b, " (%d of %d requests are outside of --from and --to)", f.Outside, f.Outside+f.Requests)
	}
	b.WriteString(".")
	if l := f.Load; l != nil && l.Prompt.GBPerS != nil {
		fmt.Fprintf(&b, " Their KV caches in %s (%s) are %.3f GB/s on average", l.Model, l.CacheDType, *l.Prompt.GBPerS)
		if n := len(l.Windows); n > 0 {
			peaks := each(byteWindows, func(w figures.ByteWindow) string { return three(w.GBPerS) })(f)
			fmt.Fprintf(&b, ", and %s GB/s in the busiest %s s", peaks, scales(n))
		}
		b.WriteString(".")
	} else if n := len(f.Windows); n > 0 {
		peaks := each(windows, func(w figures.Window) string { return fmt.Sprintf("%.1f", w.PeakToMean) })(f)
		fmt.Fprintf(&b, " The busiest %s s have %s times the tokens of the mean.", scales(n), peaks)
	}
	if f.Hits != nil {
		fmt.Fprintf(&b, " An infinite prefix cache finds %.6f of the tokens.", f.Hits.Token)
	}
	if f.UnitAssumed {
		fmt.Fprintf(&b, " The timestamps are assumed to be in %s: --trace-unit says it.", f.Unit)
	}
	for _, note := range f.Notes {
		fmt.Fprintf(&b, "\nNote: %s.", note)
	}
	if g := f.Arrivals.Grid; g != nil && bunched(g) {
		fmt.Fprintf(&b, "\nWARNING: the timestamps stand on a %s: times in between were not recorded, and a replay as they are "+
			"plays bursts of %.1f requests on average, %d at most. perigee replay --spread draws times within the ticks.",
			gridText(g), g.Mean, g.Max)
	}
	return b.String()
}

// bunched reports whether ticks with requests have two or more on average: then most bursts are the grid's.
func bunched(g *figures.Grid) bool { return g.Mean*float64(g.Ticks) >= 2*float64(g.Ticks-g.Empty) }

func gridText(g *figures.Grid) string {
	return fmt.Sprintf("%s ms grid, %d ticks, %d empty, max %d", number(g.PeriodMS), g.Ticks, g.Empty, g.Max)
}

// number writes a float with the digits that it has.
func number(x float64) string {
	text := fmt.Sprintf("%.9f", x)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// of is a row of a part of the figures, which may not be there.
func of[T any](name string, part func(f *figures.Figures) *T, text func(p *T) string) row {
	return row{name, func(f *figures.Figures) string {
		if p := part(f); p != nil {
			return text(p)
		}
		return ""
	}}
}

func whole[N int | int64 | uint64](n N) string { return fmt.Sprint(n) }
func ratio(x float64) string                   { return fmt.Sprintf("%.6f", x) }
func four(x float64) string                    { return fmt.Sprintf("%.4f", x) }
func three(x float64) string                   { return fmt.Sprintf("%.3f", x) }
func optional(x *float64, text func(float64) string) string {
	if x == nil {
		return ""
	}
	return text(*x)
}
