package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"perigee/internal/conf"
)

// mostVariants is how many cases one file may make.
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

// expand makes the cases of a document with a section sweep: a map of names to
// lists (all combinations, the last name fastest), or grid: or zip: with such a
// map. A name with dots is a key; another name stands in texts as {name}.
func expand(tree *conf.Value) ([]variant, *Problem) {
	section := tree.Get("sweep")
	if section == nil || section.Kind == conf.Null {
		return []variant{{"", tree}}, nil
	}
	zip := section.Has("zip")
	axes, problem := readAxes(section)
	if problem != nil {
		return nil, problem
	}
	rows, problem := combine(axes, zip, section)
	if problem != nil {
		return nil, problem
	}
	base := tree.Without("sweep")
	var list []variant
	seen := map[string]bool{}
	for _, row := range rows {
		v := variant{tree: base}
		for i, value := range row {
			v.suffix += "_" + shortName(axes, i) + fileName(scalarText(value))
			if v.tree, problem = apply(v.tree, axes[i].name, value); problem != nil {
				return nil, problem
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
		rows := make([][]*conf.Value, len(axes[0].values))
		for _, a := range axes {
			if len(a.values) != len(rows) {
				return nil, &Problem{"sweep.zip", section.Line,
					fmt.Sprintf("%s has %d values and %s has %d: zip wants as many of each",
						axes[0].name, len(rows), a.name, len(a.values))}
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
			return nil, &Problem{"sweep", section.Line, fmt.Sprintf("wanted at most %d cases, got more", mostVariants)}
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

// apply gives one name of a sweep its value.
func apply(tree *conf.Value, name string, value *conf.Value) (*conf.Value, *Problem) {
	if strings.Contains(name, ".") {
		changed, err := tree.With(strings.Split(name, "."), value.Plain())
		if err != nil {
			return nil, &Problem{value.Path(), value.Line, err.Error()}
		}
		return changed, nil
	}
	mark, found := "{"+name+"}", false
	changed := tree.MapText(func(s string) any {
		if !strings.Contains(s, mark) {
			return s
		}
		found = true
		if s == mark {
			return value.Plain() // keeps its type, so that the case still validates
		}
		return strings.ReplaceAll(s, mark, scalarText(value))
	})
	if !found {
		return nil, &Problem{value.Path(), value.Line,
			fmt.Sprintf("no text of the file holds %s; a key is written with its section, such as benchmark.%s", mark,
				name)}
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
