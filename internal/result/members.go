package result

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// encoding/json takes "Bytes" for bytes, and of two members with one name the last. What reads a result elsewhere may
// take the first: then one file says two things. So every name must be there once, and be spelled as it is.

// shape is what is known of the names in a value: nil where any will do.
type shape struct {
	members map[string]*shape // of a struct, by their names
	folded  map[string]string // their names, by what encoding/json takes for them
	inside  *shape            // of the elements of a list, or the members of a map
	text    bool              // of a string
	size    int64             // of a struct, in bytes
}

var document = shapeOf(reflect.TypeFor[Document]())

func shapeOf(t reflect.Type) *shape {
	if t == reflect.TypeFor[time.Time]() {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem())
	case reflect.Slice, reflect.Array, reflect.Map:
		return &shape{inside: shapeOf(t.Elem())}
	case reflect.Struct:
		s := &shape{members: map[string]*shape{}, folded: map[string]string{}, size: int64(t.Size())}
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" { // embedded, or not there
				continue
			}
			s.members[name], s.folded[fold(name)] = shapeOf(f.Type), name
		}
		return s
	case reflect.Interface:
		return nil
	}
	return &shape{text: t.Kind() == reflect.String}
}

// fold makes one of all names that encoding/json takes for the same.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// level is an object or a list that has not ended.
type level struct {
	shape  *shape
	object bool
	key    bool   // a string here is a name
	name   []byte // of the member, which its shape has
	index  int    // of the element
	begun  byte   // what the element begins with, if that is {, [ or, in a list, a quote
	seen   []uint64
	many   map[uint64]bool // what was seen, if it is much
}

// names makes sure of the names in a text.
type names struct {
	levels []level // those behind depth wait for their next use
	depth  int
	inside bool   // a name
	name   []byte // of which so much has come
	seed   maphash.Seed
}

// maxDepth is that of encoding/json.
const maxDepth = 10000

func (n *names) top() *level {
	if n.depth == 0 {
		return &level{}
	}
	return &n.levels[n.depth-1]
}

func (n *names) open(object bool) error {
	if n.depth == maxDepth {
		return fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	s := document
	if n.depth > 0 {
		s = n.top().next()
		n.top().begun = '['
		if object {
			n.top().begun = '{'
		}
	}
	if n.depth == len(n.levels) {
		n.levels = append(n.levels, level{})
	}
	n.depth++
	l := n.top()
	*l = level{shape: s, object: object, key: object, name: l.name[:0], seen: l.seen[:0]}
	return nil
}

// next is the shape of the value that follows.
func (l *level) next() *shape {
	switch {
	case l.shape == nil:
		return nil
	case l.shape.members != nil:
		return l.shape.members[string(l.name)]
	}
	return l.shape.inside
}

// anything reports whether what stands in the value may be of any kind.
func (l *level) anything() bool {
	return l.shape == nil || l.shape.members == nil && l.shape.inside == nil
}

func (n *names) close() { n.depth = max(n.depth-1, 0) }

func (n *names) comma() {
	l := n.top()
	l.key, l.begun = l.object, 0
	l.index++
}

// quote begins a string.
func (n *names) quote() {
	l := n.top()
	n.inside, n.name = l.key, n.name[:0]
	if !l.object {
		l.begun = '"'
	}
}

// naming reports whether the string that has begun is the name of a member of a map.
func (n *names) naming() bool {
	return n.inside && (n.top().shape == nil || n.top().shape.members == nil)
}

// part keeps the piece of a string that stands at the end of a piece of the text.
func (n *names) part(text []byte) {
	if n.inside {
		n.name = append(n.name, text...)
	}
}

// end ends a string with its last piece.
func (n *names) end(text []byte) error {
	if !n.inside {
		return nil
	}
	n.inside = false
	l := n.top()
	l.key = false
	l.name = append(append(l.name[:0], n.name...), text...)
	if slices.Contains(l.name, '\\') || !utf8.Valid(l.name) {
		var name string
		if json.Unmarshal(slices.Concat([]byte{'"'}, l.name, []byte{'"'}), &name) != nil {
			return nil // the reader will say more
		}
		l.name = append(l.name[:0], name...)
	}
	if l.shape != nil && l.shape.members != nil {
		if _, ok := l.shape.members[string(l.name)]; !ok {
			if want := l.shape.folded[fold(string(l.name))]; want != "" {
				return fmt.Errorf("the name %q should be %s", n.path(), want)
			}
		}
	}
	if n.again(l) {
		return fmt.Errorf("%s is there twice", n.path())
	}
	return nil
}

// again notes the name of a member, and reports whether it was there.
func (n *names) again(l *level) bool {
	const few = 32
	sum := maphash.Bytes(n.seed, l.name)
	if l.many == nil {
		if slices.Contains(l.seen, sum) {
			return true
		}
		if l.seen = append(l.seen, sum); len(l.seen) == few {
			l.many = map[uint64]bool{}
			for _, s := range l.seen {
				l.many[s] = true
			}
		}
		return false
	}
	was := l.many[sum]
	l.many[sum] = true
	return was
}

// path is where the text has come to.
func (n *names) path() string {
	var b strings.Builder
	for i := range n.levels[:n.depth] {
		l := &n.levels[i]
		switch {
		case !l.object:
			b.WriteString("[" + strconv.Itoa(l.index) + "]")
			continue
		case i > 0:
			b.WriteString(".")
		}
		b.Write(l.name[:min(len(l.name), MaxName)])
	}
	return b.String()
}
