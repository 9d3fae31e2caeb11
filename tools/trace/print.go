package trace

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/model"
	"perigee/internal/trace/figures"
)

// print writes the answers, and below them a table for each section, with a column for each trace.
func print(w io.Writer, all []*figures.TraceFigures) error {
	for _, f := range all {
		fmt.Fprintln(plaintext.Folded(w), answer(f))
	}
	var places []place
	var cells [][]any // of each place
	for i, f := range all {
		next := 0 // place: traces have theirs in the same order
		for _, r := range rowsOf(f) {
			k := slices.Index(places[next:], r.place)
			if k < 0 {
				k = 0
				places = slices.Insert(places, next, r.place)
				cells = slices.Insert(cells, next, make([]any, len(all)))
			}
			cells[next+k][i] = r.text
			next += k + 1
		}
	}
	for len(places) > 0 {
		var t sheet.Sheet
		section := places[0].section
		t.AddColumn(section, sheet.Left, "%s")
		for _, f := range all {
			t.AddColumn(short(f.Name, all), sheet.Right, "%s")
		}
		for len(places) > 0 && places[0].section == section {
			t.AddRow(append([]any{places[0].name}, cells[0]...)...)
			places, cells = places[1:], cells[1:]
		}
		fmt.Fprintln(w)
		if err := t.WriteText(w); err != nil {
			return err
		}
	}
	return nil
}

// short is the last part of a trace's name, if no other trace has the same.
func short(name string, all []*figures.TraceFigures) string {
	base := filepath.Base(name)
	for _, f := range all {
		if f.Name != name && filepath.Base(f.Name) == base {
			return name
		}
	}
	return base
}

// answer says in plain words what matters most.
func answer(f *figures.TraceFigures) string {
	text := f.Name + ": " + sentence(f)
	for _, n := range notes(f) {
		text += fmt.Sprintf("\n%s: %s", n.Level, n.Text)
	}
	return text
}

// sentence is the trace in a few words.
func sentence(f *figures.TraceFigures) string {
	var b strings.Builder
	if f.Load != nil && f.Load.Fit != nil {
		b.WriteString(fitSentence(f.Load.Fit) + "\n")
	}
	fmt.Fprintf(&b, "%s in %s s, %s of prompts", cli.Count(f.Requests, "request"), number(f.SpanS),
		cli.Count(f.Input.Sum, "token"))
	if f.Outside > 0 {
		fmt.Fprintf(&b, " (%d of %d requests are outside of --from and --to)", f.Outside, f.Outside+f.Requests)
	}
	b.WriteString(".")
	var scales, peaks []string
	var tick float64 // in seconds: shorter windows have bursts of the grid, not of users
	if g := f.Arrivals.Grid; g != nil && bunched(g) {
		tick = g.PeriodMS / 1e3
	}
	for i, w := range f.Windows {
		if w.LengthS < tick {
			continue
		}
		scales = append(scales, number(w.LengthS))
		if f.Load == nil {
			peaks = append(peaks, fmt.Sprintf("%.1f", w.PeakToMean))
		} else {
			peaks = append(peaks, three(f.Load.Windows[i].GBPerS))
		}
	}
	scale, peak := strings.Join(scales, " / "), strings.Join(peaks, " / ")
	if l := f.Load; l != nil && l.Prompt.GBPerS != nil {
		fmt.Fprintf(&b, " Their KV caches of %s in %s", l.Model, precision(l))
		if l.StateDType != "" {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " are %.3f GB/s on average", *l.Prompt.GBPerS)
		if scales != nil {
			fmt.Fprintf(&b, ", and %s GB/s in the busiest %s s", peak, scale)
		}
		b.WriteString(".")
		if text := served(l); text != "" {
			fmt.Fprintf(&b, " They move %s.", text)
		}
	} else if scales != nil {
		fmt.Fprintf(&b, " The busiest %s s have %s times the tokens of the mean.", scale, peak)
	}
	if len(f.Windows) > 0 && f.Windows[0].LengthS < tick {
		fmt.Fprintf(&b, " Windows shorter than %s s show the grid of the timestamps.", number(tick))
	}
	if f.Hits != nil {
		fmt.Fprintf(&b, " An infinite prefix cache finds %.6f of the tokens.", f.Hits.Token)
	}
	return b.String()
}

// precision says in words in what the caches are counted.
func precision(l *figures.Load) string {
	text := fmt.Sprintf("%s (%s)", l.CacheDType, l.CacheDTypeBy)
	if l.StateDType != "" {
		text += fmt.Sprintf(", states in %s (%s)", l.StateDType, l.StateDTypeBy)
	}
	return text
}

// served says in words how the caches move where that changes their bytes.
func served(l *figures.Load) string {
	var parts []string
	if l.Serving != "" {
		parts = append(parts, fmt.Sprintf("as with %v, in pages of %s (%s)", model.Serving(l.Serving),
			cli.Count(l.Block, "token"), l.BlockBy))
	}
	if l.Copies != "" {
		parts = append(parts, fmt.Sprintf("to decode workers of %s: %s", cli.Count(l.DecodeRanks, "rank"), l.Copies))
	}
	return strings.Join(parts, ", ")
}

// note is what readers must know before they use the figures. Level is WARNING, or Note where nothing is at stake.
type note struct{ Level, Text string }

func notes(f *figures.TraceFigures) (list []note) {
	if f.UnitAssumed {
		rate := "all at once"
		if f.Arrivals.RatePerS != nil {
			rate = four(*f.Arrivals.RatePerS) + " requests/s"
		}
		other := map[string]string{"s": "ms", "ms": "s"}[f.Unit]
		list = append(list, note{"WARNING", fmt.Sprintf("the timestamps are assumed to be in %s, which makes %s: if they are in %s, "+
			"--trace-unit %s.", f.Unit, rate, other, other)})
	}
	for _, text := range f.Notes {
		list = append(list, note{"Note", text + "."})
	}
	if f.Load != nil {
		for _, text := range f.Load.Notes {
			list = append(list, note{"Note", text + "."})
		}
	}
	if g := f.Arrivals.Grid; g != nil && bunched(g) {
		list = append(list, note{"WARNING", fmt.Sprintf("the timestamps stand on a %s: times in between were not recorded, and a "+
			"replay as they are plays bursts of %.1f requests on average, %d at most. perigee replay --spread draws times within "+
			"the ticks.", gridText(g), g.Mean, g.Max)})
	} else if g != nil {
		list = append(list, note{"Note", fmt.Sprintf("the timestamps stand on a %s.", gridText(g))})
	}
	return list
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

func whole[N int | int64 | uint64](n N) string { return fmt.Sprint(n) }
func ratio(x float64) string                   { return fmt.Sprintf("%.6f", x) }
func four(x float64) string                    { return fmt.Sprintf("%.4f", x) }
func three(x float64) string                   { return fmt.Sprintf("%.3f", x) }
