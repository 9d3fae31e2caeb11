package runs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/expr"
)

// Key distinguishes scenarios: what was asked of the system. Configurations and
// load vary within a scenario. Lengths are NaN where unknown.
type Key struct {
	Model, GPU string
	ISL, OSL   float64
}

// Scenario is a key with its runs.
type Scenario struct {
	Key
	Index int // stable: scenarios are sorted
	Runs  []*Run
}

// Key returns the scenario that a run belongs to.
func (r *Run) Key() Key { return Key{r.Model, r.GPU(), r.ISL, r.OSL} }

// comparable stands for NaN, which equals nothing, by -1.
func (k Key) comparable() Key {
	for _, x := range []*float64{&k.ISL, &k.OSL} {
		if math.IsNaN(*x) {
			*x = -1
		}
	}
	return k
}

func compareKeys(a, b Key) int {
	return cmp.Or(Natural(a.Model, b.Model), Natural(a.GPU, b.GPU), cmp.Compare(a.ISL, b.ISL),
		cmp.Compare(a.OSL, b.OSL))
}

// String describes the scenario in a line.
func (k Key) String() string {
	return fmt.Sprintf("%s on %s, ISL %s, OSL %s", cmp.Or(k.Model, "unknown model"), cmp.Or(k.GPU, "unknown GPU"),
		cmp.Or(expr.Num(k.ISL).String(), "unknown"), cmp.Or(expr.Num(k.OSL).String(), "unknown"))
}

// Scenarios groups runs, sorted by model, GPU, ISL and OSL. Results of perigee
// are left out: they answered no requests.
func Scenarios(all []*Run) []Scenario {
	groups := map[Key][]*Run{}
	for _, r := range all {
		if !r.Transfer {
			k := r.Key().comparable()
			groups[k] = append(groups[k], r)
		}
	}
	list := make([]Scenario, 0, len(groups))
	for _, group := range groups {
		list = append(list, Scenario{Key: group[0].Key(), Runs: group})
	}
	slices.SortFunc(list, func(a, b Scenario) int { return compareKeys(a.comparable(), b.comparable()) })
	for i := range list {
		list[i].Index = i
	}
	return list
}

// Configuration is a setup of engines whose load was swept, with its runs in
// the order of concurrency.
type Configuration struct {
	Name      string
	PD        bool
	Directory string // "" unless directories are kept apart and there are several
	Runs      []*Run
}

// Title names the configuration; with its directory if that is kept apart.
func (c Configuration) Title() string {
	title := cmp.Or(c.Name, "unknown engines")
	if c.Directory != "" {
		title += " in " + c.Directory
	}
	return title
}

// Configurations groups runs: those with prefill and decode apart first, then by
// name. byDirectory keeps equal configurations in different directories apart.
func Configurations(all []*Run, byDirectory bool) []Configuration {
	byDirectory = byDirectory && len(Directories(all)) > 1
	type key struct{ name, directory string }
	groups := map[key]*Configuration{}
	for _, r := range all {
		k := key{name: r.Name()}
		if byDirectory {
			k.directory = r.Directory
		}
		if groups[k] == nil {
			groups[k] = &Configuration{Name: k.name, PD: r.IsPD(), Directory: k.directory}
		}
		groups[k].Runs = append(groups[k].Runs, r)
	}
	list := make([]Configuration, 0, len(groups))
	for _, c := range groups {
		slices.SortFunc(c.Runs, compareLoad)
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Configuration) int {
		return cmp.Or(compareBool(b.PD, a.PD), Natural(a.Name, b.Name), Natural(a.Directory, b.Directory))
	})
	return list
}

// Directories are the different directories of runs, sorted.
func Directories(all []*Run) []string {
	var list []string
	seen := map[string]bool{}
	for _, r := range all {
		if !seen[r.Directory] {
			seen[r.Directory] = true
			list = append(list, r.Directory)
		}
	}
	slices.SortFunc(list, Natural)
	return list
}

// ShortNames gives each of some different paths the shortest end of it that no
// other has, for legends; also, where a page is sent around, it keeps to itself
// where on this machine the files lie.
func ShortNames(paths []string) map[string]string {
	short, starts := map[string]string{}, map[string]int{} // of the ends that were tried last
	for _, path := range paths {
		starts[path] = len(path) + 1
	}
	for len(starts) > 0 {
		count := map[string]int{}
		for path, start := range starts {
			start = strings.LastIndexByte(path[:start-1], '/') + 1
			starts[path], short[path] = start, path[start:]
			count[short[path]]++
		}
		for path, start := range starts {
			if start == 0 || count[short[path]] == 1 {
				delete(starts, path)
			}
		}
	}
	return short
}

// compareLoad orders the runs of a configuration.
func compareLoad(a, b *Run) int {
	return cmp.Or(
		Compare(expr.Num(a.Concurrency), expr.Num(b.Concurrency)), Compare(expr.Num(a.Rate), expr.Num(b.Rate)),
		Natural(a.Directory, b.Directory), Natural(a.File, b.File), strings.Compare(a.Label, b.Label))
}

// Sort puts runs in the order of tables: by scenario, configuration, load and
// file, whatever order they were found in. Results of perigee come last.
func Sort(all []*Run) {
	type entry struct {
		run  *Run
		key  Key
		pd   bool
		name string
	}
	entries := make([]entry, len(all)) // names are worked out once, not in every comparison
	for i, r := range all {
		entries[i] = entry{r, r.Key().comparable(), r.IsPD(), r.Name()}
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(
			compareBool(a.run.Transfer, b.run.Transfer), compareKeys(a.key, b.key),
			compareBool(b.pd, a.pd), Natural(a.name, b.name), compareLoad(a.run, b.run))
	})
	for i := range entries {
		all[i] = entries[i].run
	}
}
