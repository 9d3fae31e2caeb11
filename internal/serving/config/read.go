package config

import (
	"fmt"
	"slices"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/secret"
	"perigee/internal/kit/value"
)

// Problem is something wrong with a config.
type Problem struct {
	Path    string `json:"path"` // of keys, with dots; empty for the file as a whole
	Line    int    `json:"line"` // from 1; 0 if unknown
	Message string `json:"message"`
}

// reader stores the values of a document by a schema. It goes on after a problem.
type reader struct {
	root     *conf.Value
	values   map[string]*conf.Value // by path: what is there and has its type
	problems []Problem
	unknown  []Problem // keys that the schema lacks
}

// add notes a problem at the line of v.
func (r *reader) add(v *conf.Value, path, format string, args ...any) {
	line := 0
	if v != nil {
		line = v.Line
	}
	r.problems = append(r.problems, Problem{Path: path, Line: line, Message: fmt.Sprintf(format, args...)})
}

// wrong notes a problem with a key that is there and has its type.
func (r *reader) wrong(path, format string, args ...any) {
	r.add(r.values[path], path, format, args...)
}

// strange notes a key that the schema lacks, with the one that was meant.
func (r *reader) strange(v *conf.Value, path, name, meant string) {
	if section, ok := strings.CutSuffix(path, name); ok {
		path = section + secret.Text(name)
	}
	message := fmt.Sprintf("the key %q is not known here%s", clip(name), meant)
	r.unknown = append(r.unknown, Problem{path, v.Line, message})
}

// document stores what the document has of the table's keys.
func (r *reader) document(ks keys) {
	if r.root.Kind != conf.Map {
		r.add(r.root, "", "wanted a map with the sections %s, got %s", strings.Join(ks.names(""), ", "), r.root.Kind)
		return
	}
	r.findUnknown(r.root, "", ks)
	r.store(r.root, "", ks)
}

// part stores what a map within the document has of some keys.
func (r *reader) part(v *conf.Value, ks keys) {
	names := ks.names("")
	for _, name := range v.Keys() {
		if !slices.Contains(names, name) {
			at := v.Get(name)
			r.strange(at, at.Path(), name, value.Suggestion(name, names))
		}
	}
	r.store(v, v.Path(), ks)
}

func (r *reader) store(v *conf.Value, path string, ks keys) {
	for _, k := range ks {
		x, full := at(v, k.path), join(path, k.path)
		if x == nil || x.Kind == conf.Null {
			continue
		}
		wrong := k.to.store(x)
		for _, message := range wrong {
			r.add(x, full, "%s", message)
		}
		if _, areLevels := k.to.(levels); wrong == nil || areLevels { // of which those that can be read are there
			r.values[full] = x
		}
	}
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// missing notes a key that is not there, at the line of the innermost section
// that is.
func (r *reader) missing(path string) {
	v := r.root
	for part := range strings.SplitSeq(path, ".") {
		next := v.Get(part)
		if next == nil || next.Kind != conf.Map {
			break
		}
		v = next
	}
	message := "missing " + path
	if k := table.find(path); k != nil {
		message += " (" + k.help + ")"
	}
	r.add(v, path, "%s", message)
}

// has reports whether a key is there, whatever its type.
func (r *reader) has(path string) bool {
	v := at(r.root, path)
	return v != nil && v.Kind != conf.Null
}

// at returns the value at a path of keys, or nil.
func at(v *conf.Value, path string) *conf.Value {
	for part := range strings.SplitSeq(path, ".") {
		v = v.Get(part)
	}
	return v
}

// findUnknown looks for keys that a section does not have.
func (r *reader) findUnknown(v *conf.Value, path string, ks keys) {
	for _, name := range v.Keys() {
		full, value := join(path, name), v.Get(name)
		k := ks.find(full)
		if k == nil || strings.Contains(name, ".") {
			r.strange(value, full, name, nearest(name, path, ks))
		} else if _, isSection := k.to.(section); isSection && value.Kind == conf.Map {
			r.findUnknown(value, full, ks)
		}
	}
}

// nearest suggests the key that was meant: one of the same section, else the
// same name in another one.
func nearest(name, path string, ks keys) string {
	names := ks.names(path)
	if s := value.Suggestion(name, names); s != "" {
		return s
	}
	for _, k := range ks {
		if strings.HasSuffix(k.path, "."+name) {
			return fmt.Sprintf("; did you mean %q?", k.path)
		}
	}
	if path == "" {
		return "; the sections are " + strings.Join(names, ", ")
	}
	return "; " + path + " has " + strings.Join(names, ", ")
}
