package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"perigee/internal/result"
)

// obstacles lists why results should not be compared, and what else differs between them.
// Every result is held against the first old one.
func obstacles(old, fresh []*result.Document) (differences, remarks []string) {
	said := map[string]bool{}
	add := func(list *[]string, text string) {
		if text != "" && !said[text] {
			said[text] = true
			*list = append(*list, text)
		}
	}
	first := old[0]
	for _, d := range slices.Concat(old[1:], fresh) {
		for _, text := range differ(first, d) {
			add(&differences, text)
		}
		for _, text := range around(first, d) {
			add(&remarks, text)
		}
	}
	for _, d := range slices.Concat(old, fresh) {
		if d.Status != result.Complete {
			why := "it is still going on, or was killed"
			if d.Failure != nil {
				why = d.Failure.Cause
			}
			add(&remarks, "a result is partial: "+why)
		}
	}
	return differences, remarks
}

// differ lists what makes two runs different measurements.
func differ(a, b *result.Document) (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	other := a.Scenario.Name != b.Scenario.Name
	if a.Scenario.SHA256 != b.Scenario.SHA256 {
		if other {
			add("the scenario is %s and %s", a.Scenario.Name, b.Scenario.Name)
		} else {
			add("the text of the scenario %s differs (SHA-256 %.8s... and %.8s...)", a.Scenario.Name, a.Scenario.SHA256,
				b.Scenario.SHA256)
		}
	}
	list = append(list, optionsDiffer(a, b, other)...)
	if a.World.Size != b.World.Size {
		add("there are %d and %d ranks", a.World.Size, b.World.Size)
	}
	if x, y := engineOf(a), engineOf(b); x != y {
		add("the engine is %s and %s", x, y)
	}
	return append(list, patternsDiffer(a, b)...)
}

func engineOf(d *result.Document) string {
	if d.Engine == nil {
		return "none"
	}
	return d.Engine.Name
}

// optionsDiffer compares the arguments of the scenario. Files that were written do not
// count; files that were read are compared by what they hold, where the results know it. Options that only one of two
// other scenarios has follow from that.
func optionsDiffer(a, b *result.Document, other bool) (list []string) {
	keys, writes, reads := map[string]bool{}, map[string]bool{}, setOf(a.Scenario.Reads)
	for _, d := range []*result.Document{a, b} {
		for k := range d.Scenario.Options {
			keys[k] = true
		}
		maps.Copy(writes, setOf(d.Scenario.Writes))
	}
	digestsOfA, digestsOfB := digestsOf(a), digestsOf(b)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		v, inA := a.Scenario.Options[k]
		w, inB := b.Scenario.Options[k]
		if other && inA != inB {
			continue
		}
		if writes[k] {
			continue
		}
		if reads[k] {
			from, _ := v.(string)
			to, _ := w.(string)
			x, y := digestsOfA[from], digestsOfB[to]
			if x != "" && y != "" {
				if x != y {
					list = append(list, fmt.Sprintf("the file of the option %s differs (%v and %v)", k, v, w))
				}
				continue
			}
		}
		if shown(v) != shown(w) {
			list = append(list, fmt.Sprintf("the option %s is %s and %s", k, shown(v), shown(w)))
		}
	}
	return list
}

// digestsOf are the digests of the files that a run has read, by their paths, as far as its result has them.
func digestsOf(d *result.Document) map[string]string {
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
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// patternsDiffer compares patterns by their place in the list, as results number them. Names do not count: a pattern
// may be renamed and stay the same traffic.
func patternsDiffer(a, b *result.Document) (list []string) {
	if x, y := len(a.Patterns), len(b.Patterns); x != y {
		return []string{fmt.Sprintf("there are %d and %d patterns", x, y)}
	}
	for i, p := range a.Patterns {
		q := b.Patterns[i]
		var what []string
		if a.Matrices[p.Matrix].SHA256 != b.Matrices[q.Matrix].SHA256 {
			what = append(what, "matrix")
		}
		if p.Mem != q.Mem {
			what = append(what, fmt.Sprintf("memory (%s and %s)", p.Mem, q.Mem))
		}
		if p.Op != q.Op {
			what = append(what, fmt.Sprintf("operation (%s and %s)", p.Op, q.Op))
		}
		if p.Shards != q.Shards {
			what = append(what, fmt.Sprintf("shards (%d and %d)", p.Shards, q.Shards))
		}
		if what == nil {
			continue
		}
		const most = 3
		if len(list) == most {
			return append(list, "and more patterns differ")
		}
		list = append(list, fmt.Sprintf("pattern %d differs in %s", i, strings.Join(what, ", ")))
	}
	return list
}

// around lists what may explain a change.
func around(a, b *result.Document) (list []string) {
	add := func(what, x, y string) {
		if x != y {
			list = append(list, fmt.Sprintf("%s: %s and %s", what, x, y))
		}
	}
	add("perigee", buildOf(a), buildOf(b))
	list = append(list, hostsDiffer(a, b)...)
	list = append(list, hardwareDiffers(a, b)...)
	add("launcher", a.World.Launcher, b.World.Launcher)
	if a.Engine != nil && b.Engine != nil && a.Engine.Name == b.Engine.Name {
		add("version of "+a.Engine.Name, a.Engine.Version, b.Engine.Version)
		add("backend of "+a.Engine.Name, a.Engine.Backend, b.Engine.Backend)
		list = append(list, settingsDiffer(a.Engine.Name, a.Engine.Params, b.Engine.Params)...)
	}
	add("seed", fmt.Sprint(a.Seed), fmt.Sprint(b.Seed))
	return list
}

func buildOf(d *result.Document) string {
	text := d.Perigee.Version
	if d.Perigee.Commit != "" {
		text += fmt.Sprintf(" (%.12s)", d.Perigee.Commit)
	}
	return text + " " + d.Perigee.Go
}

// settingsDiffer lists the settings of an engine that two runs do not share.
func settingsDiffer(engine string, a, b map[string]string) (list []string) {
	keys := slices.Sorted(maps.Keys(a))
	for _, k := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	said := func(m map[string]string, k string) string {
		if v, ok := m[k]; ok {
			return v
		}
		return "not given"
	}
	differ := 0
	for _, k := range keys {
		x, y := said(a, k), said(b, k)
		if x == y {
			continue
		}
		if differ++; differ <= mostSettings {
			list = append(list, fmt.Sprintf("setting %s of %s: %s and %s", k, engine, x, y))
		}
	}
	if differ > mostSettings {
		list = append(list, fmt.Sprintf("%d more settings of %s", differ-mostSettings, engine))
	}
	return list
}

// mostSettings is how many settings that differ are named.
const mostSettings = 100

// hostsDiffer names the hosts that only one of two runs had.
func hostsDiffer(a, b *result.Document) (list []string) {
	x, y := hostsOf(a), hostsOf(b)
	only := func(which string, these, those []string) {
		var rest []string
		there := setOf(those)
		for _, h := range these {
			if !there[h] {
				rest = append(rest, h)
			}
		}
		const most = 4
		if more := len(rest) - most; more > 0 {
			rest = append(rest[:most], fmt.Sprint("and ", more, " more"))
		}
		if len(rest) > 0 {
			list = append(list, "hosts only "+which+": "+strings.Join(rest, ", "))
		}
	}
	only("in OLD", x, y)
	only("in NEW", y, x)
	return list
}

func hostsOf(d *result.Document) (list []string) {
	for _, h := range d.World.Hosts {
		quota := ""
		if h.CPUQuota > 0 {
			quota = fmt.Sprintf(", a CPU quota of %g", h.CPUQuota)
		}
		list = append(list, fmt.Sprintf("%s (%d ranks, %d CPUs%s)", h.Name, len(h.Ranks), h.CPUs, quota))
	}
	return list
}

// hardwareDiffers names the hardware that only one of two runs had, where both results know it.
func hardwareDiffers(a, b *result.Document) (list []string) {
	x, y := a.World.ByHardware(), b.World.ByHardware()
	if len(x) == 0 || len(y) == 0 {
		return nil
	}
	only := func(which string, these, those []result.HostGroup) {
		there := map[string]bool{}
		for _, g := range those {
			there[g.Hardware] = true
		}
		for _, g := range these {
			if !there[g.Hardware] {
				list = append(list, "hardware only "+which+": "+g.Hardware)
			}
		}
	}
	only("in OLD", x, y)
	only("in NEW", y, x)
	return list
}
