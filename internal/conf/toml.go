package conf

import (
	"bytes"
	"errors"
	"math"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"perigee/internal/fault"
)

// tomlReader fills values from the expressions of a TOML document.
type tomlReader struct {
	b      *builder
	top    *Value
	parser unstable.Parser
	lines  lines
	line   int // of the last node that knows its place; arrays do not
}

func readTOML(b *builder, top *Value, text []byte) error {
	if err := weighTOML(top.File, text); err != nil {
		return err
	}
	if err := countSearches(top.File, text); err != nil {
		return err
	}
	// The decoder knows all rules of TOML about tables that are defined twice
	// or from two sides; the parser below only knows the grammar, but also the
	// lines. So the first one judges and the second one reads.
	var judged map[string]any
	if err := toml.Unmarshal(text, &judged); err != nil {
		return tomlError(top, err)
	}
	if len(judged) == 0 {
		return nil // Parse says what is wanted
	}
	top.become(Map, nil)
	r := tomlReader{b: b, top: top, lines: newLines(text), line: 1}
	r.parser.Reset(text)
	current := top
	for r.parser.NextExpression() {
		var err error
		switch n := r.parser.Expression(); n.Kind {
		case unstable.KeyValue:
			err = r.keyValue(current, n)
		case unstable.Table:
			current, err = r.table(n)
		case unstable.ArrayTable:
			current, err = r.arrayTable(n)
		}
		if err != nil {
			return err
		}
	}
	if err := r.parser.Error(); err != nil {
		return tomlError(top, err)
	}
	return nil
}

// weighTOML bounds what the decoder takes for a document, as [weighYAML] does, and how deep the document is: the parser
// calls itself.
func weighTOML(name string, text []byte) error {
	bytesOf := [256]int{'\n': 150, ',': 200, '[': 350, '{': 900, '=': 350, '.': 850}
	line, dots, inside, taken := 1, 0, 0, 0
	for i := 0; i < len(text); {
		n := 1
		c := text[i]
		taken += bytesOf[c]
		switch c {
		case '"', '\'':
			n = tomlString(text[i:])
		case '#':
			if n = bytes.IndexByte(text[i:], '\n'); n < 0 {
				n = len(text) - i
			}
		case '.':
			dots++
		case '[', '{':
			dots, inside = 0, inside+1
		case ']', '}':
			dots, inside = 0, inside-1
		case '=', ',', '\n':
			dots = 0
		}
		if dots > maxDepth || inside > maxDepth {
			return fault.New(fault.Input, "%s: wanted at most %d lists and maps inside each other, got more",
				place(name, line), maxDepth)
		}
		line += bytes.Count(text[i:i+n], []byte("\n"))
		i += n
	}
	if taken > MaxMemory {
		return tooLarge(name)
	}
	return nil
}

// tomlKey is a key as the decoder keeps it: in a list of all, in which it searches for each step of each key, from the
// table of which the key is a part.
type tomlKey struct {
	at   int // in that list, when it was made
	up   *tomlKey
	keys map[string]*tomlKey
	size int // keys below it
}

// mostLooks takes the decoder about two seconds.
const mostLooks = 1 << 28

// searches counts what the decoder looks at.
type searches struct {
	keys, looks int
	top         tomlKey
}

func (s *searches) step(table *tomlKey, name []byte) (key *tomlKey, found bool) {
	if key = table.keys[string(name)]; key != nil {
		s.looks += max(key.at-table.at, 0)
		return key, true
	}
	if table.at <= s.keys {
		s.looks += s.keys - table.at
	} else {
		s.looks += s.keys // the list has become shorter since
	}
	s.add(table)
	key = &tomlKey{at: s.keys, up: table}
	if table.keys == nil {
		table.keys = map[string]*tomlKey{}
	}
	table.keys[string(name)] = key
	return key, false
}

func (s *searches) add(table *tomlKey) {
	s.keys++
	for ; table != nil; table = table.up {
		table.size++
	}
}

func (s *searches) walk(table *tomlKey, n *unstable.Node) (key *tomlKey, found bool) {
	for steps := n.Key(); steps.Next(); {
		table, found = s.step(table, steps.Node().Data)
	}
	return table, found
}

// another is a further element of an array of tables: the keys of the one before are forgotten.
func (s *searches) another(array *tomlKey) {
	s.looks += s.keys
	s.keys -= array.size
	for up := array.up; up != nil; up = up.up {
		up.size -= array.size
	}
	array.keys, array.size = nil, 0
}

func (s *searches) value(key *tomlKey, n *unstable.Node) {
	switch n.Kind {
	case unstable.InlineTable:
		for pairs := n.Children(); s.looks <= mostLooks && pairs.Next(); {
			of, _ := s.walk(key, pairs.Node())
			s.value(of, pairs.Node().Value())
		}
	case unstable.Array:
		for elements := n.Children(); elements.Next(); {
			if kind := elements.Node().Kind; kind == unstable.InlineTable || kind == unstable.Array {
				s.add(key)
				s.value(&tomlKey{at: s.keys, up: key}, elements.Node())
			}
		}
	}
}

// countSearches bounds the time that the decoder takes, which grows with the square of the keys in a table.
func countSearches(name string, text []byte) error {
	var s searches
	var p unstable.Parser
	p.Reset(text)
	for table := &s.top; p.NextExpression() && s.looks <= mostLooks; {
		switch n := p.Expression(); n.Kind {
		case unstable.KeyValue:
			key, _ := s.walk(table, n)
			s.value(key, n.Value())
		case unstable.Table:
			table, _ = s.walk(&s.top, n)
		case unstable.ArrayTable:
			var again bool
			if table, again = s.walk(&s.top, n); again {
				s.another(table)
			}
		}
	}
	if s.looks > mostLooks {
		return fault.New(fault.Input, "%s: wanted TOML of fewer tables and keys, about 20000 in one, got more", name).
			WithHint("use arrays of tables ([[name]]), or write the document in JSON or YAML, which have no such bound")
	}
	return nil // the decoder finds mistakes
}

// tomlString returns the length of the string with which text begins. One without its end ends with text, or its line.
func tomlString(text []byte) int {
	quote, closing := text[0], text[:1]
	if three := bytes.Repeat(text[:1], 3); bytes.HasPrefix(text, three) {
		closing = three
	}
	for i := len(closing); i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quote == '"':
			i++
		case c == '\n' && len(closing) == 1:
			return i
		case bytes.HasPrefix(text[i:], closing):
			return i + len(closing)
		}
	}
	return len(text)
}

// tomlError says what the TOML library found, with its line.
func tomlError(top *Value, err error) error {
	line := 0
	if decode, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ = decode.Position()
	}
	return syntaxError(top, line, "TOML", strings.TrimPrefix(err.Error(), "toml: "))
}

// lineOf returns the line of a node or, if it has no place, of the last one
// that has.
func (r *tomlReader) lineOf(n *unstable.Node) int {
	if n.Raw.Length > 0 {
		r.line = r.lines.at(int(n.Raw.Offset))
	}
	return r.line
}

// keyNode is one step of a dotted key.
type keyNode struct {
	name string
	line int
}

// keys takes a dotted key apart. It has at least one step.
func (r *tomlReader) keys(n *unstable.Node) []keyNode {
	var keys []keyNode
	for steps := n.Key(); steps.Next(); {
		step := steps.Node()
		keys = append(keys, keyNode{string(step.Data), r.lineOf(step)})
	}
	return keys
}

// descend goes from a map to the map under a key, which it makes if it is not
// there. Under a key with an array of tables that is the last of them.
func (r *tomlReader) descend(from *Value, key keyNode) (*Value, error) {
	to := from.Get(key.name)
	if to == nil {
		to, err := r.b.entry(from, key.name, key.line)
		if err != nil {
			return nil, err
		}
		to.become(Map, nil)
		return to, nil
	}
	if to.Kind == List && to.Len() > 0 {
		to = to.List()[to.Len()-1]
	}
	if to.Kind != Map {
		return nil, to.Errorf("on line %d this key is used as a table", key.line)
	}
	return to, nil
}

// walk descends along keys.
func (r *tomlReader) walk(from *Value, keys []keyNode) (*Value, error) {
	for _, key := range keys {
		var err error
		if from, err = r.descend(from, key); err != nil {
			return nil, err
		}
	}
	return from, nil
}

// table returns the map that a [header] opens.
func (r *tomlReader) table(n *unstable.Node) (*Value, error) {
	return r.walk(r.top, r.keys(n))
}

// arrayTable returns the new map that a [[header]] opens.
func (r *tomlReader) arrayTable(n *unstable.Node) (*Value, error) {
	keys := r.keys(n)
	last := keys[len(keys)-1]
	from, err := r.walk(r.top, keys[:len(keys)-1])
	if err != nil {
		return nil, err
	}
	list := from.Get(last.name)
	if list == nil {
		if list, err = r.b.entry(from, last.name, last.line); err != nil {
			return nil, err
		}
		list.become(List, nil)
	}
	if list.Kind != List {
		return nil, list.Errorf("on line %d this key is used as a list of tables", last.line)
	}
	table, err := r.b.item(list, last.line)
	if err != nil {
		return nil, err
	}
	table.become(Map, nil)
	return table, nil
}

// keyValue adds key = value to a map.
func (r *tomlReader) keyValue(to *Value, n *unstable.Node) error {
	keys := r.keys(n)
	last := keys[len(keys)-1]
	to, err := r.walk(to, keys[:len(keys)-1])
	if err != nil {
		return err
	}
	value, err := r.b.entry(to, last.name, last.line)
	if err != nil {
		return err
	}
	return r.fill(value, n.Value())
}

// fill makes v the value of a node. Dates and times stay the text they are in
// the document: the other formats have nothing like them.
func (r *tomlReader) fill(v *Value, n *unstable.Node) error {
	text := string(n.Data)
	switch n.Kind {
	case unstable.InlineTable:
		v.become(Map, nil)
		for pairs := n.Children(); pairs.Next(); {
			if err := r.keyValue(v, pairs.Node()); err != nil {
				return err
			}
		}
	case unstable.Array:
		v.become(List, nil)
		for elements := n.Children(); elements.Next(); {
			value, err := r.b.item(v, r.lineOf(elements.Node()))
			if err != nil {
				return err
			}
			if err := r.fill(value, elements.Node()); err != nil {
				return err
			}
		}
	case unstable.Bool:
		v.become(Bool, text == "true")
	case unstable.Integer:
		// Base 0 reads 0x, 0o, 0b and underscores; TOML has no other octals.
		i, err := parseInt(text, 0)
		if err != nil {
			return v.misread(err)
		}
		v.become(Int, i)
	case unstable.Float:
		f, err := tomlFloat(text)
		if err != nil {
			return v.misread(err)
		}
		v.become(Float, f)
	case unstable.String, unstable.LocalDate, unstable.LocalTime, unstable.LocalDateTime, unstable.DateTime:
		v.become(String, text)
	default:
		return v.Errorf("a TOML value of the kind %s is not known here", n.Kind)
	}
	return nil
}

func tomlFloat(text string) (float64, error) {
	switch strings.TrimLeft(text, "+-") {
	case "inf":
		if text[0] == '-' {
			return math.Inf(-1), nil
		}
		return math.Inf(1), nil
	case "nan":
		return math.NaN(), nil
	}
	return parseFloat(strings.ReplaceAll(text, "_", ""))
}
