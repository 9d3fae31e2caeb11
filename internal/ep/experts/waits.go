package experts

import (
	"fmt"
	"slices"

	"perigee/internal/kit/stats"
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

// line sums up the waits of all for one, or of one for all.
type line struct {
	at                  int
	typical, mean, rest float64 // lower median and mean of these waits; mean of those of the others for each other
}

// standsOut holds them against a part of the limit.
func (l line) standsOut(part float64) bool { return min(l.typical, l.mean) > part*slowLine*l.rest }

// finding names the waits that stand out: those of a destination, for a source, or of the one for the other; -1 is all.
type finding struct {
	text, size          string
	destination, source int
	mean                float64
	among               func(rows [][]float64) waits // the waits that it is found among
}

// halves are the parts of the iterations, one after the other, in each of which what stands out must be seen again:
// waits scatter, and what stands out by chance is something else each time. There it has to be only again times as
// large, since half of the iterations scatter more.
const (
	halves = 2
	again  = 0.6
)

// verdict names what others wait for, or what waits for others, or nothing. rows are the mean waits of ranks by
// destination and source, parts the same of the halves of the iterations. Where ranks wait much longer for those of
// other hosts than for those on their host, that is said, and further causes are looked for among the former. named is
// what was found there, without its size.
func verdict(
	operation string, rows [][]float64, parts [][][]float64, hosts []string, latency float64,
) (text, named string) {
	text, found := judge(rows, hosts, latency)
	if found != nil && !slices.ContainsFunc(parts, func(part [][]float64) bool { return !found.holds(part, again) }) {
		text, named = found.text+": "+found.size, found.text
		if slices.ContainsFunc(hosts, func(h string) bool { return h != hosts[0] }) {
			text += "; " + eitherWay
		}
	}
	if text == "" {
		return "", ""
	}
	return operation + ": " + text, named
}

// eitherWay is said of what stands out where ranks are on several hosts. Over a connection such as TCP's the
// acknowledgements of what a rank sends queue behind what it receives: if that is slow, it also sends late.
const eitherWay = "the slow way may be the one there or the one back"

// judge says if ranks wait for those of other hosts, and what stands out.
func judge(rows [][]float64, hosts []string, latency float64) (text string, found *finding) {
	ranks := waits{rows, func(int, int) bool { return true }, func(i int) string {
		return fmt.Sprintf("rank %d (%s)", i, hosts[i])
	}}
	if mean := ranks.mean(ranks.there); len(rows) < fewest || mean < leastWait*latency || mean <= 0 {
		return "", nil
	}
	within := func(d, s int) bool { return hosts[d] == hosts[s] }
	across := func(d, s int) bool { return hosts[d] != hosts[s] }
	switch own, other := ranks.mean(within), ranks.mean(across); {
	case !ranks.has(within) || !ranks.has(across):
	case other > slowHosts*own:
		ranks.there = across
		text = "ranks wait for those on other hosts: " + size(other, own, "as for those on their own")
	case own > slowHosts*other:
		ranks.there = within
		text = "ranks wait for those on their own host: " + size(own, other, "as for those on others")
	}
	found = ranks.find(fewest)
	if found != nil && ranks.shared(*found, hosts) {
		found = nil // the other ranks of the same hosts are no better
	}
	among := func(rows [][]float64) waits { return waits{rows, ranks.there, ranks.name} }
	if found == nil && ranks.has(across) {
		found = ranks.byHost(hosts).find(3)
		among = func(rows [][]float64) waits { return waits{rows, ranks.there, ranks.name}.byHost(hosts) }
	}
	if found != nil {
		found.among = among
	}
	return text, found
}

// holds reports whether what was found stands out in other waits of ranks, too, with limits that are part of the usual.
func (f *finding) holds(rows [][]float64, part float64) bool {
	w := f.among(rows)
	if f.destination >= 0 && f.source >= 0 {
		return w.rows[f.destination][f.source] > part*slowPair*w.mean(except(f.destination, f.source))
	}
	var list []float64
	w.each(func(d, s int, wait float64) {
		if d == f.destination || s == f.source {
			list = append(list, wait)
		}
	})
	return w.line(max(f.destination, f.source), list).standsOut(part)
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
		case source.standsOut(1) && source.mean >= destination.mean:
			return &finding{
				text: "all wait for " + w.name(source.at), size: size(source.mean, source.rest, others),
				destination: -1, source: source.at, mean: source.mean,
			}
		case destination.standsOut(1):
			return &finding{
				text: w.name(destination.at) + " waits for all", size: size(destination.mean, destination.rest, others),
				destination: destination.at, source: -1, mean: destination.mean,
			}
		}
	}
	apart := except(pair[0], pair[1])
	if rest := w.mean(apart); w.has(apart) && most > slowPair*rest {
		return &finding{
			text: w.name(pair[0]) + " waits for " + w.name(pair[1]), size: size(most, rest, others),
			destination: pair[0], source: pair[1], mean: most,
		}
	}
	return nil
}

// except holds for all waits but one.
func except(destination, source int) func(d, s int) bool {
	return func(d, s int) bool { return d != destination || s != source }
}

const others = "as the others on average"

// size says how long a wait is, and how many times as long as something else.
func size(wait, rest float64, as string) string {
	if rest <= 0 {
		return fmt.Sprintf("%.1f us, and no others wait", wait)
	}
	return fmt.Sprintf("%.1f us, %.1f times as long %s", wait, wait/rest, as)
}

// largest returns the line with the largest lower median of its list of waits.
func (w waits) largest(lists [][]float64) line {
	at, most := -1, 0.
	for i, list := range lists {
		if len(list) > 0 {
			if m := lowerMedian(list); at < 0 || m > most {
				at, most = i, m
			}
		}
	}
	if at < 0 {
		return line{at: -1}
	}
	return w.line(at, lists[at])
}

func lowerMedian(list []float64) float64 { return slices.Sorted(slices.Values(list))[(len(list)-1)/2] }

// line sets a list of waits for one, or of one, against those of the others for each other.
func (w waits) line(at int, list []float64) line {
	rest := w.mean(func(d, s int) bool { return d != at && s != at })
	return line{at: at, typical: lowerMedian(list), mean: stats.Mean(list), rest: rest}
}
