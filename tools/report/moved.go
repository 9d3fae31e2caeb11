package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"perigee/internal/figures"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/result"
)

//go:embed moved.html
var movedHTML string

// What a page shows of it at most: rows of a table, sentences above it, and counters of a row.
const (
	mostMoved    = 40
	mostSaid     = 8
	mostCounters = 2
	// mostMovedText is how many rows the text shows.
	mostMovedText = 16
)

// sheetsOf are the tables of what moved the bytes, with so many rows at most; none where nothing was looked at.
func sheetsOf(f *figures.Figures, most int) (list []*sheet.Sheet) {
	m := f.Moved
	if m == nil {
		return nil
	}
	if m.Uses != nil {
		list = append(list, sheetOfPath(m.Uses))
	}
	if m.Accounts != nil {
		list = append(list, sheetOfAccounts(m.Accounts))
	}
	if len(m.NICs)+len(m.Notes) > 0 {
		list = append(list, sheetOfNetwork(m, f.HostNames()))
	}
	if m.Line != nil {
		list = append(list, sheetOfLine(m, f.Document))
	}
	for i, s := range list {
		if n := len(s.Say) - mostSaid; n > 0 {
			s.Say = append(s.Say[:mostSaid:mostSaid], fmt.Sprintf("... and %d more.", n))
		}
		if n := s.Len(); n > most {
			list[i] = s.First(most)
			list[i].Say = append(s.Say, fmt.Sprintf("The first %d of %d rows; --format json has all.", most, n))
		}
	}
	return list
}

func sheetOfPath(p *result.Paths) *sheet.Sheet {
	s := sheet.New("The path", "moved", "<Op", "<Memory", "<Reach", "<Transport", "<Device", "<How", "Bytes",
		"Messages", "Share", "Ranks")
	s.Say = append(s.Say, "As "+p.Source+" says.")
	if p.Unknown != "" {
		s.Say = append(s.Say, "Not known: "+p.Unknown)
	}
	for _, l := range p.Lanes {
		text := fmt.Sprintf("Connections of %s, %s: %s", cli.Count(l.Ranks, "rank"), l.Reach, l.Lanes)
		s.Say = append(s.Say, text)
	}
	type kind struct{ op, local, remote string }
	all := map[kind]int64{}
	for _, u := range p.Uses {
		all[kind{u.Op, u.Local, u.Remote}] += u.Count
	}
	for _, u := range p.Uses {
		sizes := "all"
		switch {
		case u.MaxBytes > 0:
			sizes = size.Binary(u.MinBytes) + " to " + size.Binary(u.MaxBytes)
		case u.MinBytes > 0:
			sizes = "from " + size.Binary(u.MinBytes)
		}
		share := float64(u.Count) / float64(max(all[kind{u.Op, u.Local, u.Remote}], 1))
		s.AddRow(u.Op, u.Local+" \u2192 "+u.Remote, u.Reach, u.Transport, u.Device, u.How, sizes, u.Count,
			percentText(figures.Num(share)), u.Ranks)
	}
	return s
}

func sheetOfAccounts(a *result.Accounts) *sheet.Sheet {
	s := sheet.New("Three accounts of the bytes", "moved", "<Phase", "Plan", "Between hosts", "Library", "NICs sent",
		"NICs received", "Library / plan", "NICs / between hosts")
	s.Say = []string{"In all: " + a.String(), "Library: " + a.Library, "NICs: " + a.NICs}
	part := func(n float64, ok bool) any {
		if !ok {
			return nil
		}
		return fmt.Sprintf("%.3f", n)
	}
	bytes := func(n *int64) any {
		if n == nil {
			return nil
		}
		return sheet.Bytes(*n)
	}
	total := a.Total
	total.Phase = "all"
	for i, x := range append([]result.Account{total}, a.Phases...) {
		if i > 0 && x.Verdict != "" {
			s.Say = append(s.Say, x.Phase+": "+x.Verdict)
		}
		s.AddRow(x.Phase, sheet.Bytes(x.Plan), sheet.Bytes(x.Between), bytes(x.Library), bytes(x.Sent),
			bytes(x.Received), part(x.LibraryRatio()), part(x.NICRatio()))
	}
	return s
}

func sheetOfNetwork(m *figures.Moved, hosts []string) *sheet.Sheet {
	s := sheet.New("Counters of the network", "moved", "<Phase", "<Host", "<NIC", "<Congestion", "Sent", "Received",
		"Sent/s", "Received/s")
	s.Say = append([]string{"All traffic of a host, also that of other processes. Rates are over the whole phase, with its " +
		"pauses; a part is of the NIC's speed, in one direction. What counted congestion stands first, then the busiest."},
		m.Notes...)
	rate := func(rate, use figures.Num) any {
		text := plainRate(rate)
		if use.Known() {
			text += ", " + percentText(use)
		}
		return sheet.Cell{Value: float64(rate), Text: text}
	}
	for _, n := range m.NICs {
		row := []any{n.Phase, figures.HostName(hosts, n.Host)}
		if n.Name == "" {
			s.AddRow(append(row, "TCP", countersText("tcp ", n.Counters), nil, nil, nil, nil)...)
			continue
		}
		s.AddRow(append(row, n.Name, countersText("", n.Counters), sheet.Bytes(n.Sent), sheet.Bytes(n.Received),
			rate(n.SentRate, n.SentUse), rate(n.ReceivedRate, n.ReceivedUse))...)
	}
	return s
}

// countersText names the counters that rose, the largest first. Those without words are part of others.
func countersText(prefix string, counters map[string]int64) string {
	names := slices.Sorted(maps.Keys(counters))
	names = slices.DeleteFunc(names, func(name string) bool {
		_, _, plain := result.CongestionWords(prefix+name, 0)
		return !plain || counters[name] == 0
	})
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counters[b], counters[a]) })
	var parts []string
	for _, name := range names {
		parts = append(parts, name+" "+fmt.Sprint(counters[name]))
	}
	return cmp.Or(strings.Join(plaintext.First(parts, mostCounters, "%d more"), ", "), "-")
}

func sheetOfLine(m *figures.Moved, d *result.Document) *sheet.Sheet {
	s := sheet.New("The line", "moved", "<Bandwidth between hosts", "Rate", "Of the line", "Of the ceiling")
	line := "unknown"
	if m.Line.Rate > 0 {
		line = size.Rate(m.Line.Rate) + " for the messages of one rank in one direction"
	}
	if m.Line.Host > 0 {
		line += ", " + size.Rate(m.Line.Host) + " for all of a host"
	}
	if m.Line.From != "" {
		line += " (" + m.Line.From + ")"
	}
	s.Say = append(s.Say, "Line: "+line)
	if text := d.CeilingText(); text != "" {
		s.Say = append(s.Say, fmt.Sprintf("Ceiling: %s; %s of %s, the median of %s", text, m.Line.Ceiling.Op,
			m.Line.Ceiling.Mem, cli.Count(m.Line.Ceiling.Runs, "run")))
	}
	exceeds := func(r figures.Reached) bool {
		return r.OfCeiling.Known() && float64(r.Bandwidth) > m.Line.Ceiling.Exceeded()
	}
	if slices.ContainsFunc(m.Reached, exceeds) {
		s.Say = append(s.Say, "More than the ceiling, "+result.NoCeiling+".")
	}
	for _, r := range m.Reached {
		s.AddRow(r.Of, rateCell(r.Bandwidth), percentText(r.OfLine), percentText(r.OfCeiling))
	}
	return s
}

// percentText is a part in percent.
func percentText(n figures.Num) string {
	if !n.Known() {
		return "-"
	}
	switch v := 100 * float64(n); {
	case v >= 99.95:
		return fmt.Sprintf("%.0f %%", v)
	case v > 0 && v < 0.05:
		return "<0.1 %"
	default:
		return fmt.Sprintf("%.1f %%", v)
	}
}

// writeMoved writes what moved the bytes.
func writeMoved(p *printer, f *figures.Figures, l look) {
	for _, s := range sheetsOf(f, mostMovedText) {
		p.grid(l, s)
		for _, text := range s.Say {
			p.finding(l, figures.Finding{Level: "detail", Text: text})
		}
	}
}
