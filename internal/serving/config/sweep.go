package config

import (
	"fmt"
	"slices"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/lazyre"
)

// mostVariants bounds the cases of a file: a grid multiplies.
const mostVariants = 10_000

// variant is one case of a sweep.
type variant struct {
	suffix string // of the id: _key1value1_key2value2
	tree   *conf.Value
}

// axis is one key of a sweep.
type axis struct {
	name   string // a key with dots, or a placeholder {name} in texts
	values []*conf.Value
}

// isKey reports whether the name is a key.
func (a axis) isKey() bool { return strings.Contains(a.name, ".") }

// mark is what stands in texts for a name that is no key.
func (a axis) mark() string { return "{" + a.name + "}" }

// eachText calls use for the texts of a value and of all values in it.
func eachText(v *conf.Value, use func(v *conf.Value)) {
	if v.Kind == conf.String {
		use(v)
	}
	for _, element := range v.List() {
		eachText(element, use)
	}
	for _, name := range v.Keys() {
		eachText(v.Get(name), use)
	}
}

// checkMarks refuses a name that neither is a key nor stands in a text, and one behind a $, of which a shell would make
// another thing than the value: what reads as one of its variables becomes $0.8.
func checkMarks(base *conf.Value, axes []axis) (problem *Problem) {
	found := make([]bool, len(axes))
	look := func(v *conf.Value) {
		for i, a := range axes {
			found[i] = found[i] || a.isKey() || strings.Contains(v.Text(), a.mark())
			if problem == nil && !a.isKey() && strings.Contains(v.Text(), "$"+a.mark()) {
				shown := clip(a.mark())
				problem = wrongWith(v, "$%s is a variable of the shell, and %s stands for the values of a sweep: "+
					"write %s for these, or give the sweep another name", shown, shown, shown)
			}
		}
	}
	eachText(base, look)
	for _, a := range axes {
		for _, value := range a.values {
			look(value)
		}
	}
	if i := slices.Index(found, false); i >= 0 && problem == nil {
		problem = wrongWith(axes[i].values[0], "no text of the file holds %s; a key is written with its section, "+
			"such as benchmark.%s", axes[i].mark(), axes[i].name)
	}
	return problem
}

func wrongWith(v *conf.Value, format string, args ...any) *Problem {
	return &Problem{v.Path(), v.Line, fmt.Sprintf(format, args...)}
}

// expand makes the cases of a document with a section sweep: a map of names to
// lists (all combinations, the last name fastest), or grid: or zip: with such a
// map. A name with dots is a key; another name stands in texts as {name}, also in those that keys of the sweep have.
func expand(tree *conf.Value) (list []variant, problem *Problem) {
	section := tree.Get("sweep")
	if section == nil || section.Kind == conf.Null {
		return []variant{{"", tree}}, nil
	}
	axes, problem := readAxes(section)
	if problem != nil {
		return nil, problem
	}
	rows, problem := combine(axes, section.Has("zip"), section)
	if problem != nil {
		return nil, problem
	}
	base := tree.Without("sweep")
	if problem := checkMarks(base, axes); problem != nil {
		return nil, problem
	}
	seen := map[string]bool{}
	for _, row := range rows {
		v := variant{tree: base}
		for i, value := range row {
			v.suffix += "_" + shortName(axes, i) + fileName(scalarText(value))
			if axes[i].isKey() {
				var err error
				if v.tree, err = v.tree.With(strings.Split(axes[i].name, "."), value); err != nil {
					return nil, wrongWith(value, "%v", err)
				}
			}
		}
		for i, value := range row { // placeholders may stand in the values of keys
			if !axes[i].isKey() {
				v.tree = fillIn(v.tree, axes[i].mark(), value)
			}
		}
		if seen[v.suffix] {
			return nil, &Problem{"sweep", section.Line, "two cases would have the same name " + v.suffix[1:]}
		}
		seen[v.suffix] = true
		list = append(list, v)
	}
	return list, nil
}

func readAxes(section *conf.Value) ([]axis, *Problem) {
	if section.Has("grid") && section.Has("zip") {
		return nil, wrongWith(section, "wanted grid or zip, got both")
	}
	for _, way := range []string{"grid", "zip"} {
		if section.Has(way) && section.Len() > 1 {
			return nil, wrongWith(section, "the names of the sweep stand either in %s or beside it, not both", way)
		}
		if section.Has(way) {
			section = section.Get(way)
		}
	}
	if section.Kind != conf.Map || section.Len() == 0 {
		return nil, &Problem{"sweep", section.Line, "wanted a map of names to lists of values"}
	}
	var axes []axis
	for _, name := range section.Keys() {
		v := section.Get(name)
		if v.Kind != conf.List || v.Len() == 0 {
			return nil, wrongWith(v, "wanted a list of values")
		}
		for _, value := range v.List() {
			if value.Kind == conf.List || value.Kind == conf.Map || value.Kind == conf.Null {
				return nil, wrongWith(value, "wanted a text, a number or a boolean, got %s", value.Kind)
			}
		}
		axes = append(axes, axis{name, v.List()})
	}
	return axes, nil
}

// combine lists the combinations of the values, or with zip their n-th ones.
func combine(axes []axis, zip bool, section *conf.Value) ([][]*conf.Value, *Problem) {
	cases := 1
	for _, a := range axes {
		if n := len(a.values); zip && n != len(axes[0].values) {
			return nil, &Problem{"sweep.zip", section.Line, fmt.Sprintf("%s has %d values and %s has %d: zip wants as many of each",
				axes[0].name, len(axes[0].values), a.name, n)}
		} else if zip {
			cases = n
		} else {
			cases *= n
		}
		if cases > mostVariants {
			return nil, &Problem{"sweep", section.Line, fmt.Sprintf("wanted at most %d cases, got more", mostVariants)}
		}
	}
	rows := make([][]*conf.Value, cases)
	for i := range rows {
		left, each := i, cases // of the number of the case, and of the cases in which the names before are the same
		for _, a := range axes {
			n := i
			if !zip {
				each /= len(a.values)
				n, left = left/each, left%each
			}
			rows[i] = append(rows[i], a.values[n])
		}
	}
	return rows, nil
}

// fillIn puts a value where texts hold a mark. In a longer text it is as the file has it written: True, or 1.0.
func fillIn(tree *conf.Value, mark string, value *conf.Value) *conf.Value {
	text := scalarText(value)
	if value.Kind == conf.Bool {
		text = value.Written()
	}
	return tree.MapScalars(func(_ []string, v *conf.Value) any {
		switch s := v.Text(); {
		case !strings.Contains(s, mark):
			return v
		case s == mark:
			return value // keeps its type, so that the case still validates
		default:
			return strings.ReplaceAll(s, mark, text)
		}
	})
}

// shortName is the last part of a key, or more where two keys would be alike.
func shortName(axes []axis, i int) string {
	last := func(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
	for j, a := range axes {
		if j != i && last(a.name) == last(axes[i].name) {
			return strings.ReplaceAll(axes[i].name, ".", "_")
		}
	}
	return last(axes[i].name)
}

var unfit = lazyre.New(`[^A-Za-z0-9._+-]+`)

// fileName makes a value fit for the name of a folder.
func fileName(s string) string { return unfit.ReplaceAllString(s, "-") }
