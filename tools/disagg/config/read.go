package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/conf"
	"perigee/internal/secret"
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
	path = strings.TrimSuffix(path, name) + secret.Text(name)
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
			r.strange(at, at.Path(), name, conf.Suggestion(name, names))
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
		wrong := store(k.to, x)
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
	if s := conf.Suggestion(name, names); s != "" {
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

// The places of values, besides pointers to a string, a float64, a bool, a list of strings, a map of variables, and a
// *conf.Value for what is passed through.
type (
	oneOf struct {
		to    *string
		texts []string
	}
	whole struct {
		to          *int
		least, most int64
	}
	script      struct{ to *string }      // of a shell
	words       struct{ to *[]string }    // with blanks between
	assignments struct{ to *[]string }    // K=V with blanks between
	levels      struct{ to *[]int }       // positive integers with blanks between, one integer, or a list of them
	duration    struct{ to *int }         // "HH:MM:SS", or seconds
	mapping     struct{ to **conf.Value } // a map with any keys
	section     struct{}                  // a map whose keys are in the table too
)

// most is the largest integer that a key may hold: products of four of them are
// never computed, of two they fit.
const most = 1_000_000_000

func count(to *int) whole    { return whole{to, 0, most} }
func positive(to *int) whole { return whole{to, 1, most} }

// store puts what v holds to its place, or says what is wrong with it.
func store(to any, v *conf.Value) (wrong []string) {
	wanted := ""
	switch to := to.(type) {
	case *string:
		wanted = storeText(to, v)
	case script:
		wanted = storeText(to.to, v)
	case words:
		text := ""
		wanted = storeText(&text, v)
		*to.to = strings.Fields(text)
	case oneOf:
		text := ""
		if wanted = storeText(&text, v); wanted == "" && !slices.Contains(to.texts, text) {
			wanted = "one of " + strings.Join(to.texts, ", ")
		} else if wanted == "" {
			*to.to = text
		}
	case whole:
		if i := v.Int(); v.Kind != conf.Int || i < to.least || i > to.most {
			wanted = fmt.Sprintf("a whole number from %d to %d", to.least, to.most)
		} else {
			*to.to = int(i)
		}
	case *float64:
		wanted = storeNumber(to, v)
	case **float64:
		x := new(float64)
		if wanted = storeNumber(x, v); wanted == "" {
			*to = x
		}
	case *bool:
		if v.Kind != conf.Bool {
			wanted = "true or false"
		} else {
			*to = v.Bool()
		}
	case **bool:
		*to = new(bool)
		return store(*to, v)
	case *[]string:
		*to, wanted = texts(v)
	case levels:
		*to.to, wrong = levelsOf(v)
		return wrong
	case duration:
		ok := false
		if *to.to, ok = Seconds(v); !ok {
			wanted = `a time such as "02:00:00", or seconds`
		}
	case assignments:
		if *to.to = pairs(v.Text()); v.Kind != conf.String {
			return []string{`wanted text such as "A=1 B=2", got ` + v.Kind.String()}
		}
	case *map[string]string:
		*to = plainMap(v)
		return storeMap(new(*conf.Value), v)
	case mapping:
		return storeMap(to.to, v)
	case section:
		return storeMap(new(*conf.Value), v)
	case **conf.Value:
		*to = v
	}
	if wanted == "" {
		return nil
	}
	return []string{"wanted " + wanted + ", got " + shown(v)}
}

func storeText(to *string, v *conf.Value) (wanted string) {
	if v.Kind != conf.String {
		return "text (in quotes it would be text)"
	}
	*to = cmp.Or(v.Text(), *to)
	return ""
}

func storeNumber(to *float64, v *conf.Value) (wanted string) {
	if !isFinite(v) {
		return "a finite number"
	}
	*to = v.Float()
	return ""
}

// storeMap does not show the value: it may be of variables that are secret.
func storeMap(to **conf.Value, v *conf.Value) (wrong []string) {
	if v.Kind != conf.Map {
		return []string{"wanted a map, got " + v.Kind.String()}
	}
	*to = v
	return nil
}
