package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"perigee/internal/conf"
	"perigee/internal/secret"
	"perigee/internal/size"
)

// What one file may make: a short one could fill the memory otherwise.
const (
	mostVariants = 10_000   // cases
	mostAxes     = 32       // names in a sweep
	mostSteps    = 100      // of a key with dots
	mostValues   = 1 << 21  // in all cases
	mostNames    = 64 << 20 // bytes that placeholders become, and those of the cases' names
	mostRead     = 64 << 20 // bytes of keys and texts that are read for all cases
	mostReadings = 1 << 22  // values that are read for all cases
)

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
// taken is what the cases take in memory, in bytes, as estimated.
func expand(tree *conf.Value) (list []variant, taken int, problem *Problem) {
	section := tree.Get("sweep")
	if section == nil || section.Kind == conf.Null {
		return []variant{{"", tree}}, tree.Memory(), nil
	}
	zip := section.Has("zip")
	axes, problem := readAxes(section)
	if problem != nil {
		return nil, 0, problem
	}
	rows, problem := combine(axes, zip, section)
	if problem != nil {
		return nil, 0, problem
	}
	if len(rows) > mostVariants {
		return nil, 0, &Problem{"sweep", section.Line, fmt.Sprintf("wanted at most %d cases, got more", mostVariants)}
	}
	base := tree.Without("sweep")
	if problem := shellVariable(base, axes); problem != nil {
		return nil, 0, problem
	}
	if n := bytesOf(base); n > mostRead/len(rows) {
		return nil, 0, &Problem{"sweep", section.Line, fmt.Sprintf(
			"wanted cases with at most %d MiB of keys and texts together, got %d with %d bytes each", mostRead>>20,
			len(rows), n)}
	}
	if n := valuesOf(base); n > mostReadings/len(rows) {
		return nil, 0, &Problem{"sweep", section.Line, fmt.Sprintf(
			"wanted cases with at most %d values together, got %d with %d each", mostReadings, len(rows), n)}
	}
	left := room{values: mostValues, text: mostNames, memory: conf.MaxMemory - tree.Memory()}
	bytes, readings := mostRead, mostReadings // with what a sweep has put in
	seen, inBase := map[string]bool{}, make([]bool, len(axes))
	findMarks(base, axes, inBase)
	for _, row := range rows {
		v := variant{tree: base}
		for i, value := range row {
			text := scalarText(value)
			if left.text -= len(text) + len(v.suffix); left.text < 0 {
				return nil, 0, tooMuchText(value)
			}
			v.suffix += "_" + shortName(axes, i) + fileName(text)
		}
		for _, keys := range []bool{true, false} { // placeholders may stand in the values of keys
			for i, value := range row {
				if axes[i].isKey() != keys {
					continue
				}
				if v.tree, problem = left.apply(v.tree, axes[i], value, inBase[i]); problem != nil {
					return nil, 0, problem
				}
			}
		}
		bytes -= bytesOf(v.tree)
		if readings -= valuesOf(v.tree); bytes < 0 || readings < 0 {
			return nil, 0, &Problem{"sweep", section.Line, fmt.Sprintf(
				"wanted cases with at most %d MiB of keys and texts, and %d values, together, got more", mostRead>>20, mostReadings)}
		}
		if seen[v.suffix] {
			return nil, 0, &Problem{"sweep", section.Line, "two cases would have the same name " + v.suffix[1:]}
		}
		seen[v.suffix] = true
		list = append(list, v)
	}
	return list, conf.MaxMemory - left.memory + mostNames - left.text, nil
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
	if section.Len() > mostAxes {
		return nil, &Problem{"sweep", section.Line, fmt.Sprintf("wanted at most %d names, got %d", mostAxes,
			section.Len())}
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

// room is what the cases of a sweep may still take: values, bytes of text, and bytes of memory, as estimated.
type room struct{ values, text, memory int }

// exceeded says what the cases take too much of, "" if nothing.
func (left *room) exceeded() string {
	switch {
	case left.values < 0:
		return fmt.Sprintf("wanted cases of at most %d values together, got more", mostValues)
	case left.memory < 0:
		return fmt.Sprintf("wanted cases that take at most %s of memory together, got more", size.Binary(conf.MaxMemory))
	}
	return ""
}

// valuesOf is the number of values in a document.
func valuesOf(v *conf.Value) int {
	n := 1
	for _, element := range v.List() {
		n += valuesOf(element)
	}
	for _, name := range v.Keys() {
		n += valuesOf(v.Get(name))
	}
	return n
}

// bytesOf is the length of all keys and texts of a document.
func bytesOf(v *conf.Value) int {
	n := len(v.Text())
	for _, element := range v.List() {
		n += bytesOf(element)
	}
	for _, name := range v.Keys() {
		n += len(name) + bytesOf(v.Get(name))
	}
	return n
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
func (left *room) apply(tree *conf.Value, a axis, value *conf.Value, inBase bool) (*conf.Value, *Problem) {
	wrong := func(format string, args ...any) *Problem {
		return &Problem{value.Path(), value.Line, fmt.Sprintf(format, args...)}
	}
	if a.isKey() {
		path := strings.Split(a.name, ".")
		if len(path) > mostSteps {
			return nil, wrong("wanted a key of at most %d parts, got %d", mostSteps, len(path))
		}
		for at, i := tree, 0; i < len(path); at, i = at.Get(path[i]), i+1 {
			n := 1 // in a map that is not there, and made
			if at != nil {
				n = max(1, at.Len()) // each map on the way is copied
			}
			left.values -= n
			left.memory -= mapBytes + keyBytes*n
		}
		if over := left.exceeded(); over != "" {
			return nil, wrong("%s", over)
		}
		changed, err := tree.With(path, value)
		if err != nil {
			return nil, wrong("%v", err)
		}
		return changed, nil
	}
	left.values -= valuesOf(tree)
	left.memory -= tree.Memory()
	if over := left.exceeded(); over != "" {
		return nil, wrong("%s", over)
	}
	mark, text, found := a.mark(), scalarText(value), inBase
	if value.Kind == conf.Bool {
		text = value.Written()
	}
	changed := tree.MapScalars(func(_ []string, v *conf.Value) any {
		s := v.Text()
		times := strings.Count(s, mark)
		if times == 0 || left.text < 0 {
			return v
		}
		found = true
		if s == mark {
			return value // keeps its type, so that the case still validates
		}
		if left.text -= len(s) + times*len(text); left.text < 0 {
			return v
		}
		return strings.ReplaceAll(s, mark, text)
	})
	switch {
	case left.text < 0:
		return nil, tooMuchText(value)
	case !found:
		return nil, wrong("no text of the file holds %s; a key is written with its section, such as benchmark.%s",
			a.shownMark(), secret.Text(a.name))
	}
	return changed, nil
}

func tooMuchText(value *conf.Value) *Problem {
	return &Problem{value.Path(), value.Line,
		fmt.Sprintf("wanted cases with at most %d MiB of names and replaced texts together, got more", mostNames>>20)}
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
