package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/conf"
	"perigee/internal/plaintext"
	"perigee/internal/secret"
)

// Problem is something wrong with a config.
type Problem struct {
	Path    string `json:"path"` // of keys, with dots; empty for the file as a whole
	Line    int    `json:"line"` // from 1; 0 if unknown
	Message string `json:"message"`
}

// most is the largest integer that a key may hold: products of four of them are
// never computed, of two they fit.
const most = 1_000_000_000

// reader compares a document with the schema. It goes on after a problem.
type reader struct {
	root     *conf.Value
	values   map[string]*conf.Value // by path: what is there and has its type
	problems []Problem
	unknown  []Problem // keys that the schema lacks

	more, moreUnknown int // beyond mostProblems
}

// mostProblems bounds what is kept of the problems of a case. A file may have one in each line, and a sweep makes
// thousands of cases of it.
const mostProblems = 100

func read(root *conf.Value) *reader {
	r := &reader{root: root, values: map[string]*conf.Value{}}
	if root.Kind != conf.Map {
		r.add(root, "", "wanted a map with the sections %s, got %s", strings.Join(children(""), ", "), root.Kind)
		return r
	}
	r.findUnknown(root, "")
	for i := range schema {
		k := &schema[i]
		v := at(root, k.path)
		if v == nil || v.Kind == conf.Null {
			continue
		}
		if wanted := k.mismatch(v); wanted != "" {
			got := shown(v)
			if k.kind == mapping || k.kind == assignments || k.kind == section { // of variables, which may be secret
				got = v.Kind.String()
			}
			r.add(v, k.path, "wanted %s, got %s", wanted, got)
			continue
		}
		r.values[k.path] = v
	}
	return r
}

// add notes a problem at the line of v.
func (r *reader) add(v *conf.Value, path, format string, args ...any) {
	line := 0
	if v != nil {
		line = v.Line
	}
	if len(r.problems) >= mostProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, Problem{Path: path, Line: line, Message: fmt.Sprintf(format, args...)})
}

// strange notes a key that the schema lacks, with the nearest that it has. path is the whole path of the key.
func (r *reader) strange(v *conf.Value, path, name string, nearest func() string) {
	if len(r.unknown) >= mostProblems {
		r.moreUnknown++
		return
	}
	if section, ok := strings.CutSuffix(path, name); ok {
		path = section + secret.Text(name)
	}
	r.unknown = append(r.unknown, Problem{path, v.Line,
		fmt.Sprintf("the key %q is not known here%s", clip(secret.Text(name)), nearest())})
}

// last is what is said of so many problems beyond mostProblems.
func last(more int) []Problem {
	if more == 0 {
		return nil
	}
	return []Problem{{"", 1, fmt.Sprintf("and %d more like these", more)}}
}

// missing notes a key that is not there, at the line of the innermost section
// that is.
func (r *reader) missing(path string) {
	v, within := r.root, ""
	for part := range strings.SplitSeq(path, ".") {
		next := v.Get(part)
		if next == nil || next.Kind != conf.Map {
			break
		}
		v, within = next, strings.TrimPrefix(within+"."+part, ".")
	}
	message := "missing " + path
	if k := find(path); k != nil && k.help != "" {
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

func find(path string) *key {
	i := slices.IndexFunc(schema, func(k key) bool { return k.path == path })
	if i < 0 {
		return nil
	}
	return &schema[i]
}

// childrenOf holds the names of the keys of each section.
var childrenOf = func() map[string][]string {
	m := map[string][]string{}
	for _, k := range schema {
		parent, name := "", k.path
		if i := strings.LastIndexByte(k.path, '.'); i >= 0 {
			parent, name = k.path[:i], k.path[i+1:]
		}
		m[parent] = append(m[parent], name)
	}
	return m
}()

func children(section string) []string { return childrenOf[section] }

// kindOf holds the kind of each key.
var kindOf = func() map[string]kind {
	m := map[string]kind{}
	for _, k := range schema {
		m[k.path] = k.kind
	}
	return m
}()

// findUnknown looks for keys that a section does not have, with the nearest
// that some section has.
func (r *reader) findUnknown(v *conf.Value, path string) {
	known := children(path)
	for _, name := range v.Keys() {
		full := strings.TrimPrefix(path+"."+name, ".")
		value := v.Get(name)
		if !slices.Contains(known, name) {
			r.strange(value, full, name, func() string { return nearest(name, path) })
			continue
		}
		if kindOf[full] == section && value.Kind == conf.Map {
			r.findUnknown(value, full)
		}
	}
}

// nearest suggests the key that was meant: one of the same section, else the
// same name in another one.
func nearest(name, path string) string {
	if s := conf.Suggestion(name, children(path)); s != "" {
		return s
	}
	for _, k := range schema {
		if strings.HasSuffix(k.path, "."+name) {
			return fmt.Sprintf("; did you mean %q?", k.path)
		}
	}
	if path == "" {
		return "; the sections are " + strings.Join(children(""), ", ")
	}
	return "; " + path + " has " + strings.Join(children(path), ", ")
}

// mismatch says what k wants where v is something else.
func (k *key) mismatch(v *conf.Value) string {
	switch k.kind {
	case text, script:
		if v.Kind != conf.String {
			return "text (in quotes it would be text)"
		}
		if len(k.enum) > 0 && !slices.Contains(k.enum, v.Text()) {
			return "one of " + strings.Join(k.enum, ", ")
		}
	case integer:
		return wholeMismatch(v, 0)
	case positive:
		return wholeMismatch(v, 1)
	case number:
		if !isFinite(v) {
			return "a finite number"
		}
	case boolean:
		if v.Kind != conf.Bool {
			return "true or false"
		}
	case texts:
		return textsMismatch(v)
	case duration:
		if _, ok := Seconds(v); !ok {
			return `a time such as "02:00:00", or seconds`
		}
	case assignments:
		if v.Kind != conf.String {
			return `text such as "A=1 B=2"`
		}
	case section, mapping:
		if v.Kind != conf.Map {
			return "a map"
		}
	}
	return "" // anything; levels have their own messages
}

// isFinite reports whether v is a number that is neither infinite nor NaN.
func isFinite(v *conf.Value) bool {
	x := v.Float()
	return (v.Kind == conf.Int || v.Kind == conf.Float) && !math.IsNaN(x) && !math.IsInf(x, 0)
}

func wholeMismatch(v *conf.Value, least int64) string {
	if i := v.Int(); v.Kind != conf.Int || i < least || i > most {
		return fmt.Sprintf("a whole number from %d to %d", least, most)
	}
	return ""
}

func textsMismatch(v *conf.Value) string {
	list := v.List()
	if v.Kind == conf.String {
		list = []*conf.Value{v}
	} else if v.Kind != conf.List {
		return "a list of texts"
	}
	for _, element := range list {
		if element.Kind != conf.String || element.Text() == "" {
			return "a list of texts that are not empty"
		}
	}
	return ""
}

// shown describes what a value holds.
func shown(v *conf.Value) string {
	switch v.Kind {
	case conf.String:
		return "the text " + strconv.Quote(clip(secret.Text(v.Text())))
	case conf.Bool:
		return "the boolean " + strconv.FormatBool(v.Bool())
	case conf.Int:
		return "the number " + strconv.FormatInt(v.Int(), 10)
	case conf.Float:
		return "the number " + strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return v.Kind.String()
}

func clip(s string) string {
	const longest = 60
	return plaintext.Cut(s, longest)
}

// text returns the text at a path, "" where there is none.
func (r *reader) text(path string) string { return r.values[path].Text() }

func (r *reader) list(path string) []string {
	v := r.values[path]
	if v == nil {
		return nil
	}
	if v.Kind == conf.String {
		return []string{v.Text()}
	}
	var all []string
	for _, element := range v.List() {
		all = append(all, element.Text())
	}
	return all
}

func (r *reader) int(path string, otherwise int) int {
	if v := r.values[path]; v != nil {
		return int(v.Int())
	}
	return otherwise
}

func (r *reader) float(path string, otherwise float64) float64 {
	if v := r.values[path]; v != nil {
		return v.Float()
	}
	return otherwise
}

func (r *reader) bool(path string, otherwise bool) bool {
	if v := r.values[path]; v != nil {
		return v.Bool()
	}
	return otherwise
}

// Seconds reads a time limit: [[HH:]MM:]SS or D-HH[:MM[:SS]] as Slurm has it, or a
// number of seconds, which is how YAML 1.1 reads an unquoted 10:00:00.
func Seconds(v *conf.Value) (int, bool) {
	if v.Kind == conf.Int {
		return int(v.Int()), v.Int() >= 0 && v.Int() <= most
	}
	s := v.Text()
	if strings.HasPrefix(s, "<") && strings.HasSuffix(s, ">") {
		return 0, true // a placeholder
	}
	days, rest, withDays := strings.Cut(s, "-")
	if !withDays {
		days, rest = "0", s
	}
	parts := strings.Split(rest, ":")
	if len(parts) > 3 {
		return 0, false
	}
	// Slurm reads MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS.
	units := []int{60}
	switch {
	case withDays:
		units = []int{3600, 60, 1}[:len(parts)]
	case len(parts) > 1:
		units = []int{3600, 60, 1}[3-len(parts):]
	}
	total, err := strconv.Atoi(days)
	if err != nil || total < 0 || total > most/86400 {
		return 0, false
	}
	total *= 86400
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > 1_000_000 {
			return 0, false
		}
		total += n * units[i]
	}
	return total, v.Kind == conf.String && total <= 2*most
}

// Keys lists the keys that hold values, by their paths.
func Keys() []string {
	var list []string
	for _, k := range schema {
		if k.kind != section {
			list = append(list, k.path)
		}
	}
	return list
}
