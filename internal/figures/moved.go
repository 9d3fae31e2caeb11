package figures

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"perigee/internal/figures/contention"
	"perigee/internal/kit/cli"
	"perigee/internal/result"
)

// Moved is what was seen beside the times: over what the bytes went, who counted them, and what the wire can carry.
type Moved struct {
	Path     string           `json:"summary,omitempty"` // the path in a line
	Uses     *result.Paths    `json:"path,omitempty"`
	Accounts *result.Accounts `json:"accounts,omitempty"`
	// NICs are the counters of the hosts' networks: those with counters of congestion first, then the busiest.
	NICs       []NIC        `json:"nics"`
	Notes      []string     `json:"notes"`                // of the counters
	Congestion string       `json:"congestion,omitempty"` // counters that rose in the workload and not alone
	Line       *result.Line `json:"line,omitempty"`
	Reached    []Reached    `json:"reached"` // what stands against the line and the ceiling
}

// NIC is what a NIC has counted in a phase; without a name it is the TCP of its host. Rates are over the whole phase.
type NIC struct {
	Host         int              `json:"host"` // index into the world's hosts
	Phase        string           `json:"phase"`
	Name         string           `json:"name"`
	Mbps         int64            `json:"mbps,omitempty"`
	NS           int64            `json:"ns"`
	Sent         int64            `json:"sent_bytes"`
	Received     int64            `json:"received_bytes"`
	SentRate     Num              `json:"sent_bytes_per_s"`
	ReceivedRate Num              `json:"received_bytes_per_s"`
	SentUse      Num              `json:"sent_utilisation"` // of the NIC's speed, in this direction
	ReceivedUse  Num              `json:"received_utilisation"`
	Counters     map[string]int64 `json:"counters"`
}

// Reached is a bandwidth between hosts as a part of what one rank's messages can reach, or of all that a host can.
type Reached struct {
	Of        string `json:"of"`
	Bandwidth Num    `json:"bandwidth"`
	OfLine    Num    `json:"of_line"`
	OfCeiling Num    `json:"of_ceiling"`
}

// movedOf takes it out of a result. It is nil where nothing was looked at.
func movedOf(f *Figures, flows *result.Flows) *Moved {
	d := f.Document
	if d.Paths == nil && d.Network == nil && d.Accounts == nil && d.Line == nil {
		return nil
	}
	m := &Moved{Uses: d.Paths, Accounts: d.Accounts, Line: d.Line, NICs: []NIC{}, Notes: []string{}}
	if d.Paths != nil {
		m.Path = "path: " + firstOf(d.Paths.Lines())
	}
	if d.Network != nil {
		m.addWindows(d, f.HostNames())
		m.Congestion = f.congestion()
	}
	m.Reached = f.reached(flows)
	return m
}

// firstOf joins the first lines on what moved the bytes.
func firstOf(lines []string) string {
	const most = 2
	if more := len(lines) - most; more > 0 {
		lines = append(slices.Clone(lines[:most]), cli.Count(more, "further way"))
	}
	return cmp.Or(strings.Join(lines, "; "), "nothing was moved")
}

// addWindows makes a row of each NIC in each phase, and of each host's TCP that counted anything.
func (m *Moved) addWindows(d *result.Document, hosts []string) {
	for _, w := range d.Network.Windows {
		ns := w.EndNS - w.StartNS
		if counted(w.TCP) > 0 {
			m.NICs = append(m.NICs, NIC{Host: w.Host, Phase: w.Phase, NS: ns, SentRate: None, ReceivedRate: None,
				SentUse: None, ReceivedUse: None, Counters: w.TCP})
		}
		for _, n := range w.NICs {
			row := NIC{Host: w.Host, Phase: w.Phase, Name: n.Name, Mbps: n.Mbps, NS: ns, Sent: n.Sent,
				Received: n.Received, SentUse: None, ReceivedUse: None, Counters: n.Counters,
				SentRate:     ratio(float64(n.Sent)*1e9, float64(ns)),
				ReceivedRate: ratio(float64(n.Received)*1e9, float64(ns))}
			if sent, received, ok := d.Utilisation(w, n); ok {
				row.SentUse, row.ReceivedUse = Num(sent), Num(received)
			}
			m.NICs = append(m.NICs, row)
		}
		if w.Note != "" {
			m.Notes = append(m.Notes, fmt.Sprintf("%s, phase %s: %s", HostName(hosts, w.Host), w.Phase, w.Note))
		}
	}
	slices.SortStableFunc(m.NICs, func(a, b NIC) int {
		return cmp.Or(cmp.Compare(min(counted(b.Counters), 1), min(counted(a.Counters), 1)),
			cmp.Compare(b.Sent+b.Received, a.Sent+a.Received), cmp.Compare(counted(b.Counters), counted(a.Counters)))
	})
}

// counted is the sum of counters that rose.
func counted(counters map[string]int64) (sum int64) {
	for _, n := range counters {
		sum += max(n, 0)
	}
	return sum
}

// HostName is the name of a host of which a result speaks, or its number where the result lacks it.
func HostName(names []string, host int) string {
	if host >= 0 && host < len(names) {
		return names[host]
	}
	return fmt.Sprint("host ", host)
}

// mostCounters is how many counters are named as evidence.
const mostCounters = 2

// fewestExpected is how many events the runs alone must have made one expect, at the rate of the workload: with five, a
// counter that does not depend on what runs together stays at 0 in less than one of a hundred results.
const fewestExpected = 5

// counter is one of a host's TCP, or of a NIC where that has a name.
type counter struct {
	host      int
	name, nic string
}

// gain is what a counter has gained, in a time.
type gain struct{ count, ns int64 }

// gains sums up the counters of the phases in which patterns ran.
func (f *Figures) gains() map[string]map[counter]gain {
	list := map[string]map[counter]gain{}
	for _, l := range f.Latencies {
		if l.Of == "pattern" {
			list[l.Phase] = map[counter]gain{}
		}
	}
	for i := range f.Document.Network.Windows {
		w := &f.Document.Network.Windows[i]
		phase := list[w.Phase]
		if phase == nil {
			continue
		}
		f.Document.Counted(w, func(name, nic string, n int64) {
			k := counter{w.Host, name, nic}
			phase[k] = gain{phase[k].count + n, phase[k].ns + w.EndNS - w.StartNS}
		})
	}
	return list
}

// congestion says which counters rose in the workload and stayed at 0 while patterns ran alone. It is no cause by
// itself, so it stands beside the verdict that messages which overlap take longer, and is empty without it.
func (f *Figures) congestion() string {
	if f.Contention.Verdict != contention.Costs {
		return ""
	}
	type evidence struct {
		counter
		phase string
		count int64
	}
	gains := f.gains()
	worst, hosts := map[string]evidence{}, map[string]map[int]bool{}
	for _, phase := range slices.Sorted(maps.Keys(gains)) {
		for k, g := range gains[phase] {
			alone, known := gains[Isolated][k]
			expected := float64(g.count) * float64(alone.ns) / float64(max(g.ns, 1))
			if _, _, plain := result.CongestionWords(k.name, 0); !plain {
				continue
			}
			if !known || alone.count != 0 || expected < fewestExpected {
				continue
			}
			if hosts[k.name] == nil {
				hosts[k.name] = map[int]bool{}
			}
			hosts[k.name][k.host] = true
			w := worst[k.name]
			if g.count > w.count || g.count == w.count && phase == w.phase && k.host < w.host {
				worst[k.name] = evidence{k, phase, g.count}
			}
		}
	}
	place := func(name string) int { _, place, _ := result.CongestionWords(name, 0); return place }
	plainest := slices.SortedFunc(maps.Keys(worst), func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	names, said := f.HostNames(), []string{}
	for _, name := range plainest {
		e := worst[name]
		on := HostName(names, e.host)
		if e.nic != "" {
			on = e.nic + " of " + on
		}
		if more := len(hosts[name]) - 1; more > 0 {
			on += fmt.Sprintf(" (and on %s)", cli.Count(more, "further host"))
		}
		words, _, _ := result.CongestionWords(name, e.count)
		said = append(said, fmt.Sprintf("%s in phase %s on %s, 0 there in phase %s", words, e.phase, on, Isolated))
	}
	if len(said) == 0 {
		return ""
	}
	return strings.Join(said[:min(len(said), mostCounters)], "; ") + "."
}

// reached sets the best bandwidth between hosts, alone and in the workload, against the line and the ceiling.
func (f *Figures) reached(flows *result.Flows) []Reached {
	list, l := []Reached{}, f.Document.Line
	if l == nil {
		return list
	}
	ceiling := 0.0
	if l.Ceiling != nil {
		ceiling = l.Ceiling.Rate
	}
	add := func(of string, rate Num) {
		if rate.Known() && rate > 0 && (l.Rate > 0 || ceiling > 0) {
			list = append(list, Reached{of, rate, ratio(float64(rate), l.Rate), ratio(float64(rate), ceiling)})
		}
	}
	best := func(of func(Pair) Num) (rate Num, pair string) {
		for _, p := range f.Pairs {
			if f.Ranks[p.From].Host != f.Ranks[p.To].Host && of(p) > rate {
				rate, pair = of(p), fmt.Sprintf("%d \u2192 %d", p.From, p.To)
			}
		}
		return rate, pair
	}
	if c := l.Ceiling; c != nil && l.Rate > 0 {
		add("the ceiling", Num(c.Rate))
	}
	alone, pair := best(func(p Pair) Num { return p.IsolatedBandwidth })
	add("all messages of the fastest pair alone, "+pair, alone)
	together, pair := best(func(p Pair) Num { return p.Bandwidth })
	add("all messages of the fastest pair in the workload, "+pair, together)
	if b, ok := flows.Busiest(f.Document); ok && l.Host > 0 {
		list = append(list, Reached{"all of the busiest host: " + b.Text(f.Document), Num(b.Rate),
			ratio(b.Rate, l.Host), None})
	}
	if f.Document.World.Size == 2 && len(f.Document.World.Hosts) == 2 { // else several ranks share it
		var best Num
		for _, b := range f.Blocks.List {
			best = max(best, b.Bandwidth)
		}
		add("best of the block transfers", best)
	}
	return list
}

// lineLimits are the line and the ceiling for a chart of bandwidths between hosts that one rank sends or receives.
func lineLimits(d *result.Document) (limits []Limit) {
	if d.Line == nil || len(d.World.Hosts) < 2 {
		return nil
	}
	add := func(name string, rate float64) {
		if rate > 0 {
			limits = append(limits, Limit{name, []Point{{X: None, Y: Num(rate), Low: None, High: None}}})
		}
	}
	add("line", d.Line.Rate)
	if c := d.Line.Ceiling; c != nil {
		add("ceiling", c.Rate)
	}
	return limits
}
