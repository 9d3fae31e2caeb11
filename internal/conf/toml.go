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

// kindOfMade has the words of the library, whose errors these are.
var kindOfMade = map[madeBy]string{aValue: "value", longerHeader: "table", ownHeader: "table", dottedKey: "kv-table"}

func readTOML(top *Value, text []byte) error {
	r := &tomlReader{top: top, lines: newLines(text), line: 1, made: map[*Value]madeBy{}}
	r.parser.Reset(text)
	current := top
	for r.parser.NextExpression() {
		top.become(Map, nil)
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

// wrong reports a key that is used for two things.
func (r *tomlReader) wrong(key keyNode, before, after string) error {
	return syntaxError(r.top, key.line, "TOML", before+" "+key.name+" "+after)
}

// keys takes a dotted key apart. It has at least one step.
func (r *tomlReader) keys(n *unstable.Node) []keyNode {
	var keys []keyNode
	for steps := n.Key(); steps.Next(); {
		keys = append(keys, keyNode{string(steps.Node().Data), r.lineOf(steps.Node())})
	}
	return keys
}

// add adds a key that is not there, with an empty map or list.
func (r *tomlReader) add(to *Value, key keyNode, kind Kind, by madeBy) (*Value, error) {
	v, err := to.entry(key.name, key.line)
	if err != nil {
		return nil, err
	}
	v.become(kind, nil)
	r.made[v] = by
	return v, nil
}

// parent returns the map that holds the last key of a header. Maps on the way that are not there are made. Of a list of
// tables the way leads through the last one.
func (r *tomlReader) parent(keys []keyNode) (*Value, error) {
	from := r.top
	for _, key := range keys[:len(keys)-1] {
		to := from.Get(key.name)
		switch {
		case to == nil:
			var err error
			if to, err = r.add(from, key, Map, longerHeader); err != nil {
				return nil, err
			}
		case r.made[to] == aValue:
			return nil, r.wrong(key, "key", "already exists as a value")
		case to.Kind == List:
			to = to.List()[to.Len()-1]
		}
		from = to
	}
	return from, nil
}

// table returns the map that a [header] opens.
func (r *tomlReader) table(keys []keyNode) (*Value, error) {
	from, err := r.parent(keys)
	if err != nil {
		return nil, err
	}
	last := keys[len(keys)-1]
	to := from.Get(last.name)
	if to == nil {
		return r.add(from, last, Map, ownHeader)
	}
	switch r.made[to] {
	case longerHeader:
		r.made[to] = ownHeader
		return to, nil
	case ownHeader:
		return nil, r.wrong(last, "table", "already exists")
	case dottedKey:
		return nil, r.wrong(last, "table", "already exists as defined by a dotted key")
	case listHeader:
		return nil, r.wrong(last, "table", "already exists as an array of tables")
	}
	return nil, r.wrong(last, "key", "should be a table, not a value")
}

// arrayTable returns the new map that a [[header]] opens.
func (r *tomlReader) arrayTable(keys []keyNode) (*Value, error) {
	from, err := r.parent(keys)
	if err != nil {
		return nil, err
	}
	last := keys[len(keys)-1]
	list := from.Get(last.name)
	switch {
	case list == nil:
		if list, err = r.add(from, last, List, listHeader); err != nil {
			return nil, err
		}
	case r.made[list] != listHeader:
		return nil, r.wrong(last, "key",
			"already exists as a "+kindOfMade[r.made[list]]+", but should be an array table")
	}
	table, err := list.item(last.line)
	if err != nil {
		return nil, err
	}
	table.become(Map, nil)
	return table, nil
}

// keyValue adds key = value to a map.
func (r *tomlReader) keyValue(to *Value, n *unstable.Node) error {
	keys := r.keys(n)
	for i, key := range keys {
		next := to.Get(key.name)
		if i == len(keys)-1 {
			if next != nil {
				return r.wrong(key, "key", "is already defined")
			}
			value, err := to.entry(key.name, key.line)
			if err != nil {
				return err
			}
			return r.fill(value, n.Value())
		}
		if next != nil && r.made[next] != dottedKey {
			return r.wrong(key, "key", "is already defined")
		}
		if next == nil {
			var err error
			if next, err = r.add(to, key, Map, dottedKey); err != nil {
				return err
			}
		}
		to = next
	}
	return nil
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
			value, err := v.item(r.lineOf(elements.Node()))
			if err != nil {
				return err
			}
			if err := r.fill(value, elements.Node()); err != nil {
				return err
			}
		}
	case unstable.Bool:
		v.become(Bool, text == "true")
	case unstable.String:
		v.become(String, text)
	default:
		return r.fillScalar(v, text)
	}
	return nil
}

// fillScalar makes v a number, a date or a time, which the library reads.
func (r *tomlReader) fillScalar(v *Value, text string) error {
	var one struct{ V any }
	if err := toml.Unmarshal([]byte("v = "+text), &one); err != nil {
		return syntaxError(r.top, v.Line, "TOML", strings.TrimPrefix(err.Error(), "toml: "))
	}
	switch x := one.V.(type) {
	case int64:
		v.become(Int, x)
	case float64:
		v.become(Float, x)
	default:
		v.become(String, text)
	}
	return nil
}
