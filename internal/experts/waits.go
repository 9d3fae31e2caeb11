package experts

import (
	"fmt"
	"slices"

	"perigee/internal/stats"
)

// The limits of a verdict. Waits are compared with the mean of those that have no part in them: a mean of all would
// grow with what is to be found, and of four ranks none could wait 4 times as long as it.
const (
	slowLine  = 3.0  // the waits for one rank or host, or of one, over those of the others for each other
	slowPair  = 5.0  // the wait of a pair, over those of all other pairs
	slowHosts = 3.0  // the waits for ranks of other hosts over those for ranks of the own one, or the other way round
	leastWait = 0.01 // the part of an iteration that the mean of all must be for anything to be said
)

// fewest ranks are needed to find out which one others wait for.
const fewest = 4

// waits are mean waits by destination and source, of ranks or of hosts. Those that are not to be compared are not
// there.
type waits struct {
	rows  [][]float64
	there func(destination, source int) bool
	name  func(i int) string
}

// each hands over the waits that are there.
func (w waits) each(f func(destination, source int, wait float64)) {
	for d, row := range w.rows {
		for s, wait := range row {
			if s != d && w.there(d, s) {
				f(d, s, wait)
			}
		}
	}
}

// mean is that of the waits that one holds for; 0 of none.
func (w waits) mean(of func(destination, source int) bool) float64 {
	sum, n := 0., 0
	w.each(func(d, s int, wait float64) {
		if of(d, s) {
			sum, n = sum+wait, n+1
		}
	})
	return sum / float64(max(n, 1))
}

// line is what all wait for one, or one for all.
type line struct {
	at                  int
	typical, mean, rest float64 // lower median and mean of these waits; mean of those of the others for each other
}

func (l line) standsOut() bool { return l.typical > slowLine*l.rest }

// finding is what stands out, with its size: the waits of a destination, for a source, or of the one for the other;
// -1 is all.
type finding struct {
	text                string
	destination, source int
	mean                float64
}

// verdict names what others wait for, or what waits for others, or nothing. rows are the mean waits of ranks by
// destination and source. Where ranks wait much longer for those of other hosts than for those on their host, that is
// said, and further causes are looked for among the former.
func verdict(operation string, rows [][]float64, hosts []string, latency float64) string {
	ranks := waits{rows, func(int, int) bool { return true }, func(i int) string {
		return fmt.Sprintf("rank %d (%s)", i, hosts[i])
	}}
	anywhere := ranks.there
	if mean := ranks.mean(anywhere); len(rows) < fewest || mean < leastWait*latency || mean <= 0 {
		return ""
	}
	within := func(d, s int) bool { return hosts[d] == hosts[s] }
	across := func(d, s int) bool { return hosts[d] != hosts[s] }
	text := ""
	switch own, other := ranks.mean(within), ranks.mean(across); {
	case !ranks.has(within) || !ranks.has(across):
	case other > slowHosts*own:
		ranks.there = across
		text = "ranks wait for those on other hosts: " + size(other, own, "as for those on their own")
	case own > slowHosts*other:
		ranks.there = within
		text = "ranks wait for those on their own host: " + size(own, other, "as for those on others")
	}
	found := ranks.find(fewest)
	if found != nil && ranks.shared(*found, hosts) {
		found = nil // the other ranks of the same hosts are no better
	}
	if found == nil && ranks.has(across) {
		found = ranks.byHost(hosts).find(3)
	}
	if found != nil {
		text = found.text
	}
	if text == "" {
		return ""
	}
	return operation + ": " + text
}

func (w waits) has(of func(destination, source int) bool) (found bool) {
	w.each(func(d, s int, _ float64) { found = found || of(d, s) })
	return found
}

// byHost are the mean waits between hosts.
func (w waits) byHost(hosts []string) waits {
	var names []string
	at := make([]int, len(hosts))
	for rank, h := range hosts {
		if at[rank] = slices.Index(names, h); at[rank] < 0 {
			at[rank] = len(names)
			names = append(names, h)
		}
	}
	rows, counts := make([][]float64, len(names)), make([][]float64, len(names))
	for i := range rows {
		rows[i], counts[i] = make([]float64, len(names)), make([]float64, len(names))
	}
	w.each(func(d, s int, wait float64) {
		rows[at[d]][at[s]], counts[at[d]][at[s]] = rows[at[d]][at[s]]+wait, counts[at[d]][at[s]]+1
	})
	for i := range rows {
		for k := range rows[i] {
			rows[i][k] /= max(counts[i][k], 1)
		}
	}
	return waits{rows, func(int, int) bool { return true }, func(i int) string { return "host " + names[i] }}
}

// shared reports whether what was found of ranks holds for the other ranks of their hosts, too.
func (w waits) shared(f finding, hosts []string) bool {
	alike := func(rank, found int) bool { return found < 0 || hosts[rank] == hosts[found] }
	beside := func(d, s int) bool {
		return alike(d, f.destination) && alike(s, f.source) && d != f.destination && s != f.source
	}
	return w.has(beside) && w.mean(beside) > 0 && f.mean <= slowLine*w.mean(beside) && w.has(func(d, s int) bool {
		return hosts[d] != hosts[s]
	})
}

// find looks for a source, a destination or a pair that stands out; lines take so many ranks or hosts. Most of the
// waits of a source or of a destination must stand out, so that one pair is not taken for the one or the other.
func (w waits) find(lines int) *finding {
	var most float64
	pair := [2]int{-1, -1}
	bySource, byDestination := make([][]float64, len(w.rows)), make([][]float64, len(w.rows))
	w.each(func(d, s int, wait float64) {
		bySource[s], byDestination[d] = append(bySource[s], wait), append(byDestination[d], wait)
		if wait > most {
			most, pair = wait, [2]int{d, s}
		}
	})
	if len(w.rows) >= lines {
		source, destination := w.largest(bySource), w.largest(byDestination)
		switch {
		case source.standsOut() && source.mean >= destination.mean:
			text := "all wait for " + w.name(source.at) + ": " + size(source.mean, source.rest, others)
			return &finding{text, -1, source.at, source.mean}
		case destination.standsOut():
			text := w.name(destination.at) + " waits for all: " + size(destination.mean, destination.rest, others)
			return &finding{text, destination.at, -1, destination.mean}
		}
	}
	apart := func(d, s int) bool { return d != pair[0] || s != pair[1] }
	if rest := w.mean(apart); w.has(apart) && most > slowPair*rest {
		text := w.name(pair[0]) + " waits for " + w.name(pair[1]) + ": " + size(most, rest, others)
		return &finding{text, pair[0], pair[1], most}
	}
	return nil
}

const others = "as the others on average"

// size says how long a wait is, and how many times as long as something else.
func size(wait, rest float64, as string) string {
	if rest <= 0 {
		return fmt.Sprintf("%.1f us, and no others wait", wait)
	}
	return fmt.Sprintf("%.1f us, %.1f times as long %s", wait, wait/rest, as)
}

// largest is what has the largest lower median of its list of waits.
func (w waits) largest(lists [][]float64) line {
	l := line{at: -1}
	for i, list := range lists {
		if len(list) == 0 {
			continue
		}
		if typical := slices.Sorted(slices.Values(list))[(len(list)-1)/2]; l.at < 0 || typical > l.typical {
			l = line{at: i, typical: typical, mean: stats.Mean(list)}
		}
	}
	l.rest = w.mean(func(d, s int) bool { return d != l.at && s != l.at })
	return l
}
