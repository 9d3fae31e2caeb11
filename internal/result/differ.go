package result

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
)

// Difference is a setting that two results do not share.
type Difference struct {
	Name     string
	Old, New string // its values
	// Around says that it is of the surroundings, such as a version or a host: both results measured the same.
	Around bool
}

// String names the setting and both values.
func (d Difference) String() string { return fmt.Sprintf("%s: %s and %s", d.Name, d.Old, d.New) }

// Differences lists the settings that two results do not share: what was measured first, its surroundings last.
func Differences(a, b *Document) (list []Difference) {
	add := func(name string, x, y any) {
		if from, to := shown(x), shown(y); from != to {
			list = append(list, Difference{Name: name, Old: from, New: to})
		}
	}
	other := a.Scenario.Name != b.Scenario.Name
	add("scenario", a.Scenario.Name, b.Scenario.Name)
	if !other && a.Scenario.SHA256 != b.Scenario.SHA256 {
		add("text of "+a.Scenario.Name, "SHA-256 "+short(a.Scenario.SHA256), "SHA-256 "+short(b.Scenario.SHA256))
	}
	for _, m := range a.Scenario.Modules { // what else differs of modules follows from the scripts
		for _, n := range b.Scenario.Modules {
			if n.Name == m.Name && n.SHA256 != m.SHA256 {
				add("text of the module "+m.Name, "SHA-256 "+short(m.SHA256), "SHA-256 "+short(n.SHA256))
			}
		}
	}
	engine := func(d *Document) string {
		if d.Engine == nil {
			return "none"
		}
		return d.Engine.Name
	}
	add("engine", engine(a), engine(b))
	add("ranks", a.World.Size, b.World.Size)
	if x, y := expertsRouting(a), expertsRouting(b); x != "" && y != "" {
		add("routing", x, y)
	}
	list = append(list, patternsDiffer(a, b)...)
	list = append(list, optionsDiffer(a, b, other, list)...)
	return append(list, around(a, b)...)
}

// expertsRouting is the routing of experts that a result measured, and whether a token may name one twice.
func expertsRouting(d *Document) string {
	list, _ := d.Values["ep"].([]any)
	if len(list) == 0 {
		return ""
	}
	first, _ := list[0].(map[string]any)
	routing, _ := first["routing"].(string)
	replacement, _ := first["replacement"].(string)
	return strings.Trim(routing+", "+replacement, ", ")
}

func short(digest string) string { return digest[:min(8, len(digest))] }

// Once notes the file of a run in fileOf. A run that is there already, as a converted copy say, is an error of the kind
// Input: it would count as two that agree.
func (d *Document) Once(path string, fileOf map[string]string) error {
	if d.Job == nil || d.Job.ID == "" {
		return nil
	}
	run := fmt.Sprint(d.Job.ID, d.Started.UTC())
	if other, twice := fileOf[run]; twice {
		return fault.New(fault.Input, "%s and %s are the same run (job %s): it would count twice", other, path, d.Job.ID).
			WithHint("name it once, and keep no copy of it in the folder")
	}
	fileOf[run] = path
	return nil
}

// optionsDiffer compares the arguments of the scenario. Files that were written do not count; files that were read are
// compared by what they hold, where the results know it. Options that only one of two other scenarios has follow from
// that, and so do those whose effect is among the differences already.
func optionsDiffer(a, b *Document, other bool, known []Difference) (list []Difference) {
	keys, writes, reads := map[string]bool{}, map[string]bool{}, setOf(a.Scenario.Reads)
	for _, d := range []*Document{a, b} {
		for k := range d.Scenario.Options {
			keys[k] = true
		}
		maps.Copy(writes, setOf(d.Scenario.Writes))
	}
	digestsOfA, digestsOfB := digestsOf(a), digestsOf(b)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		v, inA := a.Scenario.Options[k]
		w, inB := b.Scenario.Options[k]
		said := slices.ContainsFunc(known, func(d Difference) bool { return d.Name == k })
		// Patterns say what became of these.
		preset := (k == "op" || k == "mem_type") && inA != inB && len(a.Patterns) > 0 && len(b.Patterns) > 0
		if other && inA != inB || writes[k] || said || preset {
			continue
		}
		from, to := shown(v), shown(w)
		if reads[k] {
			x, y := digestsOfA[from], digestsOfB[to]
			if x != "" && x == y {
				continue
			}
			if x != "" && y != "" && from == to {
				from, to = from+" (SHA-256 "+short(x)+")", to+" (SHA-256 "+short(y)+")"
			}
		}
		if from != to {
			list = append(list, Difference{Name: k, Old: from, New: to})
		}
	}
	return list
}

// digestsOf are the digests of the files that a run has read, by their paths, as far as its result has them.
func digestsOf(d *Document) map[string]string {
	digests := map[string]string{}
	for _, in := range slices.Backward(d.Inputs) { // the first of a path counts
		digests[in.Path] = in.SHA256
	}
	return digests
}

func setOf(list []string) map[string]bool {
	set := map[string]bool{}
	for _, text := range list {
		set[text] = true
	}
	return set
}

// shown is a value as text. JSON does not distinguish 2 from 2.0, and neither does this.
func shown(v any) string {
	if v == nil {
		return "not given"
	}
	if text, ok := v.(string); ok && text != "" {
		return text
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// paired is what patterns that pair by their places have in common, of the first result that has them.
type paired struct {
	scenario, sum string
	bytes         int64
}

// alike reports whether patterns of the same place may be the same one: two scenarios share no order of patterns.
func (p paired) alike(q paired) bool {
	return p.scenario == q.scenario || p.sum == q.sum || p.bytes == q.bytes
}

// Pairing gives the patterns of results common numbers, those of the first result that has them, and returns them by
// result and place, with the name of each number. Patterns pair by their names, of equal names in their order; by their
// places where a result shares no name with those before it, or where only the name of the same matrix is another. By
// place, which is also that of patterns without names, they pair only within a scenario, or with as many bytes.
func Pairing(docs []*Document) (numbers [][]int, names []string) {
	index := map[string]int{}
	var of []paired
	for _, d := range docs {
		list, times, known := make([]int, len(d.Patterns)), map[string]int{}, map[int]bool{}
		keys, own := make([]string, len(d.Patterns)), make([]paired, len(d.Patterns))
		for i, p := range d.Patterns {
			keys[i] = fmt.Sprint(times[p.Name], " ", p.Name)
			own[i] = paired{d.Scenario.Name, d.Matrices[p.Matrix].SHA256, d.Matrices[p.Matrix].Bytes}
			times[p.Name]++
			if n, ok := index[keys[i]]; ok && (p.Name != "" || of[n].alike(own[i])) {
				known[n] = true
			}
		}
		shared := len(known) > 0
		for i, p := range d.Patterns {
			n, ok := index[keys[i]]
			ok = ok && (p.Name != "" || of[n].alike(own[i]))
			if !ok && i < len(names) && !known[i] && (!shared && of[i].alike(own[i]) || of[i].sum == own[i].sum) {
				n, ok = i, true
			}
			if !ok {
				n = len(names)
				index[keys[i]] = n
				names, of = append(names, p.Name), append(of, own[i])
			}
			list[i], known[n] = n, true
		}
		numbers = append(numbers, list)
	}
	return numbers, names
}

// mostPatterns is how many patterns are named that differ each in its own way.
const mostPatterns = 3

// patternsDiffer compares patterns that Pairing pairs. A setting that differs in the same way in all of them is named
// once.
func patternsDiffer(a, b *Document) (list []Difference) {
	if x, y := len(a.Patterns), len(b.Patterns); x != y {
		list = append(list, Difference{Name: "patterns", Old: fmt.Sprint(x), New: fmt.Sprint(y)})
	}
	numbers, _ := Pairing([]*Document{a, b})
	place := map[int]int{} // in a
	for i, n := range numbers[0] {
		place[n] = i
	}
	settings := []struct {
		name string
		of   func(d *Document, p Pattern) string
	}{
		{"op", func(_ *Document, p Pattern) string { return p.Op }},
		{"mem_type", func(_ *Document, p Pattern) string { return p.Mem }},
		{"shards", func(_ *Document, p Pattern) string { return fmt.Sprint(p.Shards) }},
		{"matrix", func(d *Document, p Pattern) string {
			return fmt.Sprintf("%d bytes (SHA-256 %s)", d.Matrices[p.Matrix].Bytes, short(d.Matrices[p.Matrix].SHA256))
		}},
	}
	for _, s := range settings {
		var found []Difference
		paired := 0
		for k, n := range numbers[1] {
			i, ok := place[n]
			if !ok {
				continue
			}
			paired++
			if x, y := s.of(a, a.Patterns[i]), s.of(b, b.Patterns[k]); x != y {
				found = append(found, Difference{Name: fmt.Sprintf("%s of pattern %d", s.name, n), Old: x, New: y})
			}
		}
		alike := !slices.ContainsFunc(found, func(d Difference) bool {
			return d.Old != found[0].Old || d.New != found[0].New
		})
		switch more := len(found) - mostPatterns; {
		case len(found) == paired && alike && paired > 0:
			found = []Difference{{Name: s.name, Old: found[0].Old, New: found[0].New}}
		case more > 0:
			rest := fmt.Sprintf("%s of further patterns: %d", s.name, more)
			found = append(found[:mostPatterns], Difference{Name: rest, Old: "one", New: "another"})
		}
		list = append(list, found...)
	}
	return list
}

// around lists the surroundings that may explain a change.
func around(a, b *Document) (list []Difference) {
	add := func(name, x, y string) {
		if x != y {
			list = append(list, Difference{name, x, y, true})
		}
	}
	only := func(name string, x, y []string) { add(name, without(x, y), without(y, x)) }
	add("perigee", buildOf(a), buildOf(b))
	only("hosts", hostsOf(a), hostsOf(b))
	if x, y := hardwareOf(a), hardwareOf(b); len(x) > 0 && len(y) > 0 { // else one does not know it
		only("hardware", x, y)
	}
	add("launcher", a.World.Launcher, b.World.Launcher)
	if a.Engine != nil && b.Engine != nil && a.Engine.Name == b.Engine.Name {
		add("version of "+a.Engine.Name, a.Engine.Version, b.Engine.Version)
		add("backend of "+a.Engine.Name, a.Engine.Backend, b.Engine.Backend)
		list = append(list, settingsDiffer(a, b)...)
	}
	add("seed", fmt.Sprint(a.Seed), fmt.Sprint(b.Seed))
	return list
}

// without names those of a list that another has not.
func without(list, other []string) string {
	there := setOf(other)
	rest := slices.DeleteFunc(slices.Clone(list), func(text string) bool { return there[text] })
	return cmp.Or(strings.Join(plaintext.First(rest, 4, "and %d more"), ", "), "no others")
}

func buildOf(d *Document) string {
	text := d.Perigee.Version
	if d.Perigee.Commit != "" {
		text += fmt.Sprintf(" (%.12s)", d.Perigee.Commit)
	}
	return text + " " + d.Perigee.Go
}

// settingsDiffer lists the settings of the engine of two runs that they do not share, and that both results hold.
func settingsDiffer(a, b *Document) (list []Difference) {
	engine, of, with := a.Engine.Name, a.EngineSettings(), b.EngineSettings()
	said := func(m map[string]string, k string) string {
		if v, ok := m[k]; ok {
			return v
		}
		return "not given"
	}
	all := map[string]string{}
	maps.Copy(all, of)
	maps.Copy(all, with)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		known := !libraries.MatchString(k) || a.Keeps(k) && b.Keeps(k)
		if x, y := said(of, k), said(with, k); x != y && known {
			list = append(list, Difference{fmt.Sprintf("setting %s of %s", k, engine), x, y, true})
		}
	}
	if more := len(list) - mostSettings; more > 0 {
		name := fmt.Sprintf("%d more settings of %s", more, engine)
		list = append(list[:mostSettings], Difference{name, "some values", "others", true})
	}
	return list
}

// mostSettings is how many settings that differ are named.
const mostSettings = 100

func hostsOf(d *Document) (list []string) {
	for _, h := range d.World.Hosts {
		quota := ""
		if h.CPUQuota > 0 {
			quota = fmt.Sprintf(", a CPU quota of %g", h.CPUQuota)
		}
		list = append(list, fmt.Sprintf("%s (%d ranks, %d CPUs%s)", h.Name, len(h.Ranks), h.CPUs, quota))
	}
	return list
}

func hardwareOf(d *Document) (list []string) {
	for _, g := range d.World.ByHardware() {
		list = append(list, g.Hardware)
	}
	return list
}
