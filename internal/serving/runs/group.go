package runs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/expr"
)

// Part is a column of a Key with its value, which may be empty.
type Part struct {
	Column *Column
	Cell   expr.Cell
}

// Key distinguishes scenarios: what was asked of the system. Configurations and
// load vary within a scenario.
type Key []Part

// Scenario is a key with its runs.
type Scenario struct {
	Key
	Index int // stable: scenarios are sorted
	Runs  []*Record
}

// ScenarioColumns are those by which runs fall into scenarios unless others are asked for.
func ScenarioColumns() []*Column { return mustAll("Model", "GPU", "ISL", "OSL") }

// mustAll returns columns that exist.
func mustAll(names ...string) []*Column {
	list := make([]*Column, len(names))
	for i, name := range names {
		list[i] = byName[strings.ToLower(name)]
	}
	return list
}

// Key returns the scenario that a run belongs to, by these columns or else by ScenarioColumns.
func (r *Record) Key(by ...*Column) Key {
	if len(by) == 0 {
		by = ScenarioColumns()
	}
	key := make(Key, len(by))
	for i, c := range by {
		key[i] = Part{c, c.Of(r)}
	}
	return key
}

// comparable returns a text that equal keys have in common.
func (k Key) comparable() string {
	var b strings.Builder
	for _, p := range k {
		fmt.Fprintf(&b, "%v\x00", p.Cell.Plain())
	}
	return b.String()
}

// compareKeys orders keys by their columns; what is unknown comes first.
func compareKeys(a, b Key) int {
	for i := range a {
		x, y := a[i].Cell, b[i].Cell
		if c := cmp.Or(compareBool(y.Empty, x.Empty), Compare(x, y)); c != 0 {
			return c
		}
	}
	return 0
}

// Words describes each part: a name alone of a model or GPU, otherwise column and value.
func (k Key) Words() []string {
	words := make([]string, len(k))
	for i, p := range k {
		value := p.Cell.String()
		switch p.Column.Name {
		case "Model", "GPU":
			words[i] = cmp.Or(value, map[string]string{"Model": "unknown model", "GPU": "unknown GPU"}[p.Column.Name])
		default:
			words[i] = p.Column.Name + " " + cmp.Or(value, "unknown")
		}
	}
	return words
}

// String describes the scenario in a line.
func (k Key) String() string {
	words := k.Words()
	if len(k) > 1 && k[0].Column.Name == "Model" && k[1].Column.Name == "GPU" {
		words = slices.Insert(words[2:], 0, words[0]+" on "+words[1])
	}
	return strings.Join(words, ", ")
}

// Scenarios groups runs by columns, or else by ScenarioColumns, sorted by them. Results of perigee
// are left out: they answered no requests.
func Scenarios(all []*Record, by ...*Column) []Scenario {
	groups := map[string]int{}
	var list []Scenario
	for _, r := range all {
		if r.Transfer {
			continue
		}
		key := r.Key(by...)
		i, ok := groups[key.comparable()]
		if !ok {
			i = len(list)
			groups[key.comparable()], list = i, append(list, Scenario{Key: key})
		}
		list[i].Runs = append(list[i].Runs, r)
	}
	slices.SortStableFunc(list, func(a, b Scenario) int { return compareKeys(a.Key, b.Key) })
	for i := range list {
		list[i].Index = i
	}
	return list
}

// likeLengths is by which factor the mean lengths of runs of one workload may differ.
const likeLengths = 1.1

// SameWork reports whether two runs served the same model the same work: as many tokens, but for what answers of
// different lengths make of their means.
func (r *Record) SameWork(o *Record) bool {
	near := func(a, b float64) bool {
		return math.IsNaN(a) && math.IsNaN(b) || max(a, b) <= likeLengths*min(a, b)
	}
	return r.Model == o.Model && r.GPU() == o.GPU() &&
		near(r.InputLength, o.InputLength) && near(r.OutputLength, o.OutputLength)
}

// Configuration is a setup of engines whose load was swept, with its runs in
// the order of concurrency.
type Configuration struct {
	Name      string
	PD        bool
	Directory string // "" unless directories are kept apart and there are several
	Runs      []*Record
}

// Title names the configuration; with its directory if that is kept apart.
func (c Configuration) Title() string {
	title := c.Name
	if c.Directory != "" {
		title += " in " + c.Directory
	}
	return title
}

// Setup names the configuration of a run: its engines, and what it has in some columns.
func (r *Record) Setup(split ...*Column) string {
	name := cmp.Or(r.Name(), "unknown engines")
	if len(split) == 0 {
		return name
	}
	return name + ", " + strings.Join(r.Key(split...).Words(), ", ")
}

// Configurations groups runs: those with prefill and decode apart first, then by
// name. byDirectory keeps equal configurations in different directories apart, and split those that differ in columns.
func Configurations(all []*Record, byDirectory bool, split ...*Column) []Configuration {
	byDirectory = byDirectory && len(Directories(all)) > 1
	type key struct{ name, directory string }
	groups := map[key]*Configuration{}
	for _, r := range all {
		k := key{name: r.Setup(split...)}
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
func Directories(all []*Record) []string {
	list := make([]string, len(all))
	for i, r := range all {
		list[i] = r.Directory
	}
	slices.SortFunc(list, Natural)
	return slices.Compact(list)
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
func compareLoad(a, b *Record) int {
	return cmp.Or(
		Compare(expr.Num(a.Concurrency), expr.Num(b.Concurrency)), Compare(expr.Num(a.Rate), expr.Num(b.Rate)),
		Natural(a.Directory, b.Directory), Natural(a.File, b.File), strings.Compare(a.Label, b.Label))
}

// Sort puts runs in the order of tables: by scenario, as Scenarios has them, configuration, load and
// file, whatever order they were found in. Results of perigee come last.
func Sort(all []*Record, by ...*Column) {
	type entry struct {
		run  *Record
		key  Key
		pd   bool
		name string
	}
	entries := make([]entry, len(all)) // names are worked out once, not in every comparison
	for i, r := range all {
		entries[i] = entry{r, r.Key(by...), r.IsPD(), r.Name()}
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
