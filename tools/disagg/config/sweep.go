package config

import (
	"fmt"
	"regexp"
	"strings"

	"perigee/internal/conf"
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

// visit calls f for a value and all values in it.
func visit(v *conf.Value, f func(v *conf.Value)) {
	f(v)
	for _, element := range v.List() {
		visit(element, f)
	}
	for _, name := range v.Keys() {
		visit(v.Get(name), f)
	}
}

// findMarks notes which placeholders stand in the texts of a document. It looks for those behind a $, of which a shell
// would make another thing than the value: what reads as one of its variables becomes $0.8.
func findMarks(base *conf.Value, axes []axis) (found []bool, problem *Problem) {
	found = make([]bool, len(axes))
	look := func(v *conf.Value, inBase bool) {
		text := v.Text()
		for i, a := range axes {
			if a.isKey() || !strings.Contains(text, a.mark()) {
				continue
			}
			found[i] = found[i] || inBase
			if problem == nil && strings.Contains(text, "$"+a.mark()) {
				shown := clip(a.mark())
				problem = &Problem{v.Path(), v.Line, fmt.Sprintf("$%s is a variable of the shell, and %s stands for the values "+
					"of a sweep: write %s for these, or give the sweep another name", shown, shown, shown)}
			}
		}
	}
	visit(base, func(v *conf.Value) { look(v, true) })
	for _, a := range axes {
		for _, value := range a.values {
			look(value, false)
		}
	}
	return found, problem
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
	inBase, problem := findMarks(base, axes)
	if problem != nil {
		return nil, problem
	}
	seen := map[string]bool{}
	for _, row := range rows {
		v := variant{tree: base}
		for i, value := range row {
			v.suffix += "_" + shortName(axes, i) + fileName(scalarText(value))
		}
		for _, keys := range []bool{true, false} { // placeholders may stand in the values of keys
			for i, value := range row {
				if axes[i].isKey() != keys {
					continue
				}
				if v.tree, problem = apply(v.tree, axes[i], value, inBase[i]); problem != nil {
					return nil, problem
				}
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
		return nil, &Problem{"sweep", section.Line, "wanted grid or zip, got both"}
	}
	for _, way := range []string{"grid", "zip"} {
		if !section.Has(way) {
			continue
		}
		if section.Len() > 1 {
			return nil, &Problem{"sweep", section.Line, "the names of the sweep stand either in " + way +
				" or beside it, not both"}
		}
		section = section.Get(way)
	}
	if section.Kind != conf.Map || section.Len() == 0 {
		return nil, &Problem{"sweep", section.Line, "wanted a map of names to lists of values"}
	}
	var axes []axis
	for _, name := range section.Keys() {
		v := section.Get(name)
		if v.Kind != conf.List || v.Len() == 0 {
			return nil, &Problem{v.Path(), v.Line, "wanted a list of values"}
		}
		for _, value := range v.List() {
			if value.Kind == conf.List || value.Kind == conf.Map || value.Kind == conf.Null {
				return nil, &Problem{value.Path(), value.Line, "wanted a text, a number or a boolean, got " +
					value.Kind.String()}
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

// apply gives one name of a sweep its value. In texts it is as the file has it written: True, or 1.0. A placeholder
// that was in the file, inBase, may be in no text anymore: a key of the sweep may have replaced the one that held it.
func apply(tree *conf.Value, a axis, value *conf.Value, inBase bool) (*conf.Value, *Problem) {
	wrong := func(format string, args ...any) *Problem {
		return &Problem{value.Path(), value.Line, fmt.Sprintf(format, args...)}
	}
	if a.isKey() {
		changed, err := tree.With(strings.Split(a.name, "."), value)
		if err != nil {
			return nil, wrong("%v", err)
		}
		return changed, nil
	}
	mark, text, found := a.mark(), scalarText(value), inBase
	if value.Kind == conf.Bool {
		text = value.Written()
	}
	changed := tree.MapScalars(func(_ []string, v *conf.Value) any {
		switch s := v.Text(); {
		case !strings.Contains(s, mark):
			return v
		case s == mark:
			found = true
			return value // keeps its type, so that the case still validates
		default:
			found = true
			return strings.ReplaceAll(s, mark, text)
		}
	})
	if !found {
		return nil, wrong("no text of the file holds %s; a key is written with its section, such as benchmark.%s",
			a.mark(), a.name)
	}
	return changed, nil
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

var unfit = regexp.MustCompile(`[^A-Za-z0-9._+-]+`)

// fileName makes a value fit for the name of a folder.
func fileName(s string) string { return unfit.ReplaceAllString(s, "-") }
