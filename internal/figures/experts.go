package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/size"
)

// MostPlanes is how many measurements of a data plane are drawn and listed.
const MostPlanes = 500

// object is one of the values that a scenario keeps. What it lacks reads as None, "" and nothing.
type object map[string]any

// objects are the values of a list that are objects.
func objects(v any) (list []object) {
	elements, _ := v.([]any)
	for _, e := range elements {
		if o, ok := e.(map[string]any); ok {
			list = append(list, o)
		}
	}
	return list
}

// num is the number at a path.
func (o object) num(path ...string) Num {
	for _, k := range path[:len(path)-1] {
		next, _ := o[k].(map[string]any)
		o = next
	}
	if v, ok := o[path[len(path)-1]].(float64); ok {
		return Num(v)
	}
	return None
}

// text is a text or a number, as it is written.
func (o object) text(key string) string {
	if v := o.num(key); v.Known() {
		return plain(v)
	}
	s, _ := o[key].(string)
	return s
}

// same reports whether two objects have equal texts there.
func (o object) same(other object, keys ...string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return o.text(k) != other.text(k) })
}

// planes are the measurements of an expert-parallel data plane, controls those of its control plane, episodes the
// phases of a plan in which ranks join and leave.
func (f *Figures) planes() []object {
	list := objects(f.value("ep"))
	return list[:min(len(list), MostPlanes)]
}
func (f *Figures) controls() []object { return objects(f.value("ep_control")) }
func (f *Figures) episodes() (list []object) {
	for _, plan := range objects(f.value("ep_elastic")) {
		list = append(list, objects(plan["phases"])...)
	}
	return list
}

// value is what a scenario has kept under a name.
func (f *Figures) value(name string) any {
	if f.Document == nil {
		return nil
	}
	return f.Document.Values[name]
}

// sayExperts sums up measurements of expert parallelism, which scenarios keep among a result's values.
func sayExperts(f *Figures, say sayer) {
	for _, b := range objects(f.value("ep_beside")) {
		if b.num("slowdown").Known() && b.num("other_slowdown").Known() {
			experts, kv := b.num("slowdown"), b.num("other_slowdown")
			say("note", "%s", strings.TrimSpace(fmt.Sprintf("%s An iteration of the experts takes %s as long beside KV "+
				"transfers as alone%s, a KV transfer %s as long beside them%s.", waitsOf(f.Document), times(experts),
				polling(experts, b.num("busy_us")/b.num("alone_us")), times(kv),
				polling(kv, b.num("other_busy_us")/b.num("other_alone_us")))))
		}
	}
	best := object{}
	for _, m := range f.planes() {
		if rateOf(m) > rateOf(best) {
			best = m
		}
		if m.text("named") != "" {
			say("bad", "%s, %s, %s tokens: %s.", m.text("mode"), m.text("entry"), m.text("tokens"), m.text("verdict"))
		}
	}
	if rateOf(best) > 0 {
		took := ""
		if ns := 1e3 * best.num("latency_us", "avg"); ns.Known() {
			took = ", " + Duration(ns) + " an iteration"
		}
		say("note", "The best bandwidth of a rank is %s by assignment: %s, %s, %s tokens of %s channels%s.",
			size.Rate(rateOf(best)), best.text("mode"), best.text("entry"), best.text("tokens"),
			best.text("hidden"), took)
	}
	sayControl(f.controls(), say)
	sayEpisodes(f.episodes(), say)
}

// polling says how many times as long something takes beside threads that only poll: the rest of the slowdown is the
// other traffic's. Where there is no rest, or something else made the times alone longer than those, nothing is known
// of it.
func polling(slowdown, ratio Num) string {
	switch {
	case !ratio.Known():
		return ""
	case ratio >= slowdown:
		return fmt.Sprintf(" (%s beside a thread that only polls, so nothing can be said of what the traffic costs)", times(ratio))
	case ratio < quieterThanAlone:
		return fmt.Sprintf(" (%s beside a thread that only polls: something else made it slow alone, so nothing can be said of what the "+
			"traffic costs)", times(ratio))
	}
	return fmt.Sprintf(" (%s beside a thread that only polls)", times(ratio))
}

// quieterThanAlone is the share of the time alone below which what is measured beside something has had less to wait
// for.
const quieterThanAlone = 0.95

// sayControl names the phase of the control plane that takes longest, and how long connecting takes.
func sayControl(list []object, say sayer) {
	for _, m := range slices.Backward(list) { // the largest is measured last
		var parts []string
		for _, p := range objects(m["phases"]) {
			if t := p.num("slowest_ms"); t.Known() {
				parts = append(parts, fmt.Sprintf("%s %s", p.text("phase"), Duration(1e6*t)))
			}
		}
		if len(parts) > 0 {
			say("note", "%s ranks, %s experts each, the slowest rank of a round: %s. Rounds: %s.", m.text("ranks"),
				m.text("experts_per_rank"), strings.Join(parts, ", "), m.text("rounds"))
		}
	}
}

// sayEpisodes sums up a plan by the iterations of its phases' slowest ranks.
func sayEpisodes(list []object, say sayer) {
	var parts []string
	for i, p := range list {
		if most := slowestOf(p); most > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", episode(i, p), Duration(most)))
		}
	}
	if len(parts) > 0 {
		say("note", "Mean iteration of the slowest rank: %s.", strings.Join(parts, ", "))
	}
}

// episode names a phase of a plan by its number, its ranks and how many of them were killed in it.
func episode(i int, phase object) string {
	ranks, _ := phase["present"].([]any)
	text := fmt.Sprintf("phase %d with %s", i+1, cli.Count(len(ranks), "rank"))
	if killed, _ := phase["killed"].([]any); len(killed) > 0 {
		text += fmt.Sprintf(" (%d killed)", len(killed))
	}
	return text
}

// slowestOf is the largest mean of a phase's ranks, in nanoseconds; 0 without one.
func slowestOf(phase object) (most Num) {
	for _, r := range objects(phase["by_rank"]) {
		if t := 1e3 * r.num("mean_us"); t > most {
			most = t
		}
	}
	return most
}

// rateOf returns the bandwidth by assignment of a measurement in bytes per second, 0 if it has none.
func rateOf(m object) Num {
	if rate := m.num("gb_per_s", "assignment"); rate > 0 {
		return 1e9 * rate
	}
	return 0
}

// expertsCharts draws expert parallelism: bandwidth and time over tokens, what each rank receives, phases.
func expertsCharts(f *Figures) (list []Chart) {
	phases := timesOf("Control plane", "Phase", "slowest rank, mean of rounds")
	phases.Y.Log = true // disconnecting takes a hundredth of making an agent
	for _, m := range f.controls() {
		for _, p := range objects(m["phases"]) {
			phases.bar(p.text("phase"), m.text("ranks")+" ranks, "+m.text("experts_per_rank")+" experts each",
				Point{Y: 1e6 * p.num("slowest_ms"), Low: None, High: None})
		}
	}
	plan := timesOf("Iterations by phase", "Phase of the plan", "mean of the slowest rank")
	for i, p := range f.episodes() {
		if most := slowestOf(p); most > 0 {
			plan.bar(episode(i, p), "slowest rank", Point{Y: most, Low: None, High: None})
		}
	}
	for _, c := range append(planesCharts(f.planes()), phases, plan) {
		if c.sort(); len(c.Series) > 0 {
			list = append(list, c)
		}
	}
	return list
}

// timesOf is a chart of times without series.
func timesOf(title, x, y string) Chart {
	return Chart{Title: title, X: Axis{Label: x}, Y: Axis{Label: y, Unit: "ns"}}
}

// bar adds a bar of that word to the series of that name; what is not known has none.
func (c *Chart) bar(word, series string, p Point) {
	at := slices.Index(c.X.Words, word)
	switch {
	case !p.Y.Known() || at < 0 && len(c.X.Words) == mostBars:
		return
	case at < 0:
		at = len(c.X.Words)
		c.X.Words = append(c.X.Words, word)
	}
	p.X = Num(at)
	c.add(series, p)
}

// planesCharts draws a data plane, without series where nothing is known. A series is what has one mode, entry and size
// but for the tokens.
func planesCharts(planes []object) []Chart {
	differs := func(k string) bool {
		return slices.ContainsFunc(planes, func(m object) bool { return !m.same(planes[0], k) })
	}
	name := func(m object, keys ...string) string {
		var parts []string
		for _, k := range keys {
			switch {
			case k == "mode" || k == "entry":
				parts = append(parts, m.text(k))
			case differs(k):
				parts = append(parts, strings.ReplaceAll(k, "_", " ")+" "+m.text(k))
			}
		}
		return strings.Join(parts, ", ")
	}
	rate := Chart{Title: "Bandwidth of a rank", Y: Axis{Label: "bytes by assignment / mean time", Unit: "bytes/s"}}
	time := Chart{Title: "Time of an iteration", Y: Axis{Label: "slowest rank: P50, line to P99", Unit: "ns"}}
	load := Chart{Title: "Load of each rank", X: Axis{Label: "Rank"}, Y: Axis{Label: "assignments that it receives"}}
	for _, m := range planes {
		p50, p99 := 1e3*m.num("slowest_us", "p50"), 1e3*m.num("slowest_us", "p99")
		at := m.num("tokens")
		rated, timed := Point{at, m.num("gb_per_s", "assignment") * 1e9, None, None, ""}, Point{at, p50, p50, p99, ""}
		if differs("tokens") && at.Known() {
			series := name(m, "mode", "entry", "hidden", "experts_per_rank", "topk")
			rate.X, time.X = Axis{Label: "Tokens of a rank", Log: true}, Axis{Label: "Tokens of a rank", Log: true}
			rate.add(series, rated)
			time.add(series, timed)
		} else {
			size := name(m, "mode", "hidden", "experts_per_rank", "topk")
			rate.X.Label, time.X.Label = "Mode", "Mode"
			rate.bar(size, m.text("entry"), rated)
			time.bar(size, m.text("entry"), timed)
		}
		series := cmp.Or(name(m, "tokens", "hidden", "experts_per_rank", "topk"), "load")
		if slices.ContainsFunc(load.Series, func(s Series) bool { return s.Name == series }) {
			continue // modes and entries move the same tokens
		}
		ranks, _ := m["rank_load"].([]any)
		for rank, n := range ranks {
			v, _ := n.(float64)
			p := Point{X: Num(rank), Y: Num(v), Low: None, High: None}
			if len(ranks) <= mostBars {
				load.bar(fmt.Sprint(rank), series, p)
			} else {
				load.add(series, p)
			}
		}
	}
	return []Chart{rate, time, load}
}

// expertsWhy says what figures of expert parallelism are, and where iterations one after the other take longer than
// those after a barrier, how much of that are waits for messages.
func expertsWhy(f *Figures) string {
	planes, why := f.planes(), waitsOf(f.Document)
	if len(objects(f.value("ep_beside"))) > 0 {
		why = "" // the sentence says so
	}
	for _, a := range planes {
		for _, b := range planes {
			longer, waits := a.num("latency_us", "avg")-b.num("latency_us", "avg"), a.waits()-b.waits()
			if a.text("entry") == "steady" && b.text("entry") == "fresh" && a.same(b, sizesOfPlane...) &&
				longer > later*b.num("latency_us", "avg") && waits.Known() {
				cause := "."
				if waits > longer/2 {
					cause = ": without a barrier before each, waits pass on to the next iteration."
				}
				return strings.TrimSpace(why + fmt.Sprintf(" Steady iterations (%s, %s tokens) take %s longer than fresh ones, "+
					"%s of that in waits for messages of others%s",
					a.text("mode"), a.text("tokens"), Duration(1e3*longer), Duration(1e3*min(max(waits, 0), longer)),
					cause))
			}
		}
	}
	return why
}

// later is how much longer than fresh iterations steady ones take, as a part, before a report says so.
const later = 0.1

// waits is the mean time of an iteration, in microseconds, in which a rank waits for messages.
func (m object) waits() Num { return m.num("shares", "wait") * m.num("latency_us", "avg") }

// sizesOfPlane are what a measurement of the data plane differs in from others, but for how iterations begin.
var sizesOfPlane = []string{"mode", "tokens", "hidden", "experts_per_rank", "topk"}
