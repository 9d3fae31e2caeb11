package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"perigee/internal/conf"
	"perigee/internal/secret"
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

// shownMark is a mark for messages: without what may be a secret.
func (a axis) shownMark() string { return "{" + secret.Text(a.name) + "}" }

// shellVariable looks for a placeholder behind a $, of which a shell would make another thing than the value: what
// reads as one of its variables becomes $0.8. It returns nil if there is none.
func shellVariable(base *conf.Value, axes []axis) *Problem {
	var look func(v *conf.Value) *Problem
	look = func(v *conf.Value) *Problem {
		if text := v.Text(); strings.Contains(text, "${") {
			for _, a := range axes {
				if !a.isKey() && strings.Contains(text, "$"+a.mark()) {
					shown := clip(a.shownMark())
					return &Problem{v.Path(), v.Line, fmt.Sprintf("$%s is a variable of the shell, and %s stands for the values of a sweep: "+
						"write %s for these, or give the sweep another name", shown, shown, shown)}
				}
			}
		}
		for _, element := range v.List() {
			if p := look(element); p != nil {
				return p
			}
		}
		for _, name := range v.Keys() {
			if p := look(v.Get(name)); p != nil {
				return p
			}
		}
		return nil
	}
	problem := look(base)
	for _, a := range axes {
		for _, value := range a.values {
			if problem == nil {
				problem = look(value)
			}
		}
	}
	return problem
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
	if problem := shellVariable(base, axes); problem != nil {
		return nil, problem
	}
	seen, inBase := map[string]bool{}, make([]bool, len(axes))
	findMarks(base, axes, inBase)
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
	if zip {
		if len(axes[0].values) > mostVariants {
			return nil, tooManyCases(section)
		}
		rows := make([][]*conf.Value, len(axes[0].values))
		for _, a := range axes {
			if len(a.values) != len(rows) {
				return nil, &Problem{"sweep.zip", section.Line,
					fmt.Sprintf("%s has %d values and %s has %d: zip wants as many of each",
						secret.Text(axes[0].name), len(rows), secret.Text(a.name), len(a.values))}
			}
			for i, v := range a.values {
				rows[i] = append(rows[i], v)
			}
		}
		return rows, nil
	}
	rows := [][]*conf.Value{nil}
	for _, a := range axes {
		if len(rows)*len(a.values) > mostVariants {
			return nil, tooManyCases(section)
		}
		var next [][]*conf.Value
		for _, row := range rows {
			for _, v := range a.values {
				next = append(next, append(slices.Clip(row), v))
			}
		}
		rows = next
	}
	return rows, nil
}

func tooManyCases(section *conf.Value) *Problem {
	return &Problem{"sweep", section.Line, fmt.Sprintf("wanted at most %d cases, got more", mostVariants)}
}

// findMarks notes which placeholders stand in texts of a document.
func findMarks(v *conf.Value, axes []axis, found []bool) {
	if text := v.Text(); strings.Contains(text, "{") {
		for i, a := range axes {
			found[i] = found[i] || strings.Contains(text, a.mark())
		}
	}
	for _, element := range v.List() {
		findMarks(element, axes, found)
	}
	for _, name := range v.Keys() {
		findMarks(v.Get(name), axes, found)
	}
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
			a.shownMark(), secret.Text(a.name))
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
