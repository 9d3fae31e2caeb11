package conf

import (
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlReader fills values from the expressions of a TOML document.
type tomlReader struct {
	top    *Value
	parser unstable.Parser
	lines  lines
	line   int // of the last node that knows its place; arrays do not
	made   map[*Value]madeBy
}

// madeBy says which kind of line has made a map or a list of tables. A value that is not noted, such as an inline
// table, is closed.
type madeBy int

const (
	aValue       madeBy = iota
	longerHeader        // [a.b] makes a
	ownHeader           // [a] makes a
	listHeader          // [[a]] makes the list a and the maps in it
	dottedKey           // a.b = 1 makes a
)

func readTOML(top *Value, text []byte) error {
	r := &tomlReader{top: top, lines: newLines(text), line: 1, made: map[*Value]madeBy{}}
	r.parser.Reset(text)
	current := top
	for r.parser.NextExpression() {
		top.Kind = Map
		var err error
		switch n := r.parser.Expression(); n.Kind {
		case unstable.KeyValue:
			err = r.keyValue(current, n)
		case unstable.Table:
			current, err = r.table(r.keys(n))
		case unstable.ArrayTable:
			current, err = r.arrayTable(r.keys(n))
		}
		if err != nil {
			return err
		}
	}
	if err := r.parser.Error(); err != nil {
		return r.parseError(err)
	}
	return nil
}

// parseError says what the parser found, with its line.
func (r *tomlReader) parseError(err error) error {
	line := 0
	if parse, ok := errors.AsType[*unstable.ParserError](err); ok {
		line = r.lines.at(int(r.parser.Range(parse.Highlight).Offset))
	}
	return syntaxError(r.top, line, "TOML", strings.TrimPrefix(err.Error(), "toml: "))
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
		keys = append(keys, keyNode{string(steps.Node().Data), r.lineOf(steps.Node())})
	}
	return keys
}

// open returns the map that holds the last of keys. It makes the maps on the way that are not there. A header leads
// through the last one of a list of tables, a dotted key only through maps that other dotted keys have made.
func (r *tomlReader) open(from *Value, keys []keyNode, by madeBy) (*Value, error) {
	for _, key := range keys[:len(keys)-1] {
		to := from.Get(key.name)
		switch made := r.made[to]; {
		case to == nil:
			var err error
			if to, err = r.add(from, key, Map, by); err != nil {
				return nil, err
			}
		case made == aValue || by == dottedKey && made != dottedKey:
			return from.entry(key.name, key.line) // an error: it is there
		case to.Kind == List:
			to = to.list[len(to.list)-1]
		}
		from = to
	}
	return from, nil
}

// add adds a key with an empty map or list.
func (r *tomlReader) add(to *Value, key keyNode, kind Kind, by madeBy) (*Value, error) {
	v, err := to.entry(key.name, key.line)
	if err == nil {
		v.Kind, r.made[v] = kind, by
	}
	return v, err
}

// table returns the map that a [header] opens.
func (r *tomlReader) table(keys []keyNode) (*Value, error) {
	from, err := r.open(r.top, keys, longerHeader)
	if err != nil {
		return nil, err
	}
	last := keys[len(keys)-1]
	if to := from.Get(last.name); r.made[to] == longerHeader {
		r.made[to] = ownHeader
		return to, nil
	}
	return r.add(from, last, Map, ownHeader)
}

// arrayTable returns the new map that a [[header]] opens.
func (r *tomlReader) arrayTable(keys []keyNode) (*Value, error) {
	from, err := r.open(r.top, keys, longerHeader)
	if err != nil {
		return nil, err
	}
	last := keys[len(keys)-1]
	list := from.Get(last.name)
	if r.made[list] != listHeader {
		if list, err = r.add(from, last, List, listHeader); err != nil {
			return nil, err
		}
	}
	table, err := list.item(last.line)
	table.Kind = Map
	return table, err
}

// keyValue adds key = value to a map.
func (r *tomlReader) keyValue(to *Value, n *unstable.Node) error {
	keys := r.keys(n)
	to, err := r.open(to, keys, dottedKey)
	if err != nil {
		return err
	}
	last := keys[len(keys)-1]
	value, err := to.entry(last.name, last.line)
	if err != nil {
		return err
	}
	return r.fill(value, n.Value())
}

// fill makes v the value of a node.
func (r *tomlReader) fill(v *Value, n *unstable.Node) error {
	switch n.Kind {
	case unstable.InlineTable:
		v.Kind = Map
		for pairs := n.Children(); pairs.Next(); {
			if err := r.keyValue(v, pairs.Node()); err != nil {
				return err
			}
		}
	case unstable.Array:
		v.Kind = List
		for elements := n.Children(); elements.Next(); {
			value, err := v.item(r.lineOf(elements.Node()))
			if err == nil {
				err = r.fill(value, elements.Node())
			}
			if err != nil {
				return err
			}
		}
	case unstable.String:
		v.Kind, v.scalar = String, string(n.Data)
	default:
		return r.fillScalar(v, string(n.Data))
	}
	return nil
}

// fillScalar makes v what the library reads. Dates and times stay the text they are in the document: the other formats
// have nothing like them.
func (r *tomlReader) fillScalar(v *Value, text string) error {
	var one struct{ V any }
	if err := toml.Unmarshal([]byte("v = "+text), &one); err != nil {
		return syntaxError(r.top, v.Line, "TOML", strings.TrimPrefix(err.Error(), "toml: "))
	}
	switch x := one.V.(type) {
	case bool:
		v.Kind, v.scalar = Bool, x
	case int64:
		v.Kind, v.scalar = Int, x
	case float64:
		v.Kind, v.scalar = Float, x
	default:
		v.Kind, v.scalar = String, text
	}
	return nil
}
