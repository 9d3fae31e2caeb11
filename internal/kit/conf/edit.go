package conf

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"perigee/internal/kit/lazyre"
)

// With returns a copy of v in which the value at a path of map keys is data (plain, as in [FromPlain], or a scalar
// *Value, which stays as it is written). Maps that are missing on the way are added. The new value has the line of the
// one it replaces; v stays as it is.
func (v *Value) With(path []string, data any) (*Value, error) {
	if len(path) == 0 {
		c := v.as(Null, nil)
		return c, c.fillPlain(data)
	}
	if v.Kind != Map && v.Kind != Null {
		return nil, mismatch(v, "a map with the key "+quote(path[0]))
	}
	child := v.Get(path[0])
	if child == nil {
		child = v.newEntry(path[0], v.Line)
	}
	if err := child.checkDepth(); err != nil {
		return nil, err
	}
	child, err := child.With(path[1:], data)
	if err != nil {
		return nil, err
	}
	c := v.as(Map, nil)
	c.keys, c.fields = slices.Clone(v.keys), maps.Clone(v.fields)
	c.put(path[0], child)
	return c, nil
}

// Without returns a copy of the map v without a key.
func (v *Value) Without(key string) *Value {
	c := v.as(v.Kind, v.scalar)
	for _, k := range v.Keys() {
		if k != key {
			c.put(k, v.Get(k))
		}
	}
	return c
}

// MapScalars returns a copy of v in which every scalar is replaced by what change returns for it and the keys on the
// way to it, which it must not keep; an element of a list has those of the list. It returns a bool, int64, float64,
// string or scalar *Value. Keys stay.
func (v *Value) MapScalars(change func(path []string, v *Value) any) *Value {
	return v.mapScalars(nil, change)
}

func (v *Value) mapScalars(path []string, change func(path []string, v *Value) any) *Value {
	c := v.as(v.Kind, nil)
	for _, element := range v.list {
		c.list = append(c.list, element.mapScalars(path, change))
	}
	for _, key := range v.keys {
		c.put(key, v.Get(key).mapScalars(append(path, key), change))
	}
	if v.Kind == List || v.Kind == Map {
		return c
	}
	to := change(path, v)
	if to == v || to == v.scalar || c.fillPlain(to) != nil {
		return v
	}
	return c
}

// YAML writes v as a YAML document with the keys in their order.
func (v *Value) YAML() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(v.node())
	if err == nil {
		err = e.Close()
	}
	if err != nil {
		return nil, v.Errorf("%w", err)
	}
	return b.Bytes(), nil
}

// node makes the YAML node of a value. What a YAML document has said stays as it is written there.
func (v *Value) node() *yaml.Node {
	switch {
	case v.Kind == List:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, element := range v.List() {
			n.Content = append(n.Content, element.node())
		}
		return n
	case v.Kind == Map:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, key := range v.Keys() {
			name := textNode(key)
			if v.Get(key).keyPlain {
				name = plainNode(key)
			}
			n.Content = append(n.Content, name, v.Get(key).node())
		}
		return n
	case v.Kind == String && v.written == "":
		return textNode(v.Text())
	}
	return plainNode(v.Written())
}

// Written is a scalar as its document has it without quotes, which may say more than its value: 2.0, 1e6, or a number
// of thirty digits. Of other formats than YAML it is what YAML would have. For a list or map it is "".
func (v *Value) Written() string {
	switch {
	case v == nil || v.Kind == List || v.Kind == Map:
		return ""
	case v.written != "":
		return v.written
	}
	switch v.Kind {
	case Bool:
		return strconv.FormatBool(v.Bool())
	case Int:
		return strconv.FormatInt(v.Int(), 10)
	case Float:
		return yamlFloat(v.Float())
	case String:
		return v.Text()
	}
	return "null"
}

// yamlFloat writes a float so that it is one by YAML 1.1, which wants a point in it, and by the core schema of 1.2.
func yamlFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return ".inf"
	case math.IsInf(f, -1):
		return "-.inf"
	case math.IsNaN(f):
		return ".nan"
	}
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if digits, exponent, _ := strings.Cut(text, "e"); !strings.Contains(digits, ".") {
		text = digits + ".0"
		if exponent != "" {
			text += "e" + exponent
		}
	}
	return text
}

// plainNode makes the node of a scalar without quotes.
func plainNode(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

var (
	// plainText is text that no reader of YAML takes for something else, but for the words in yamlWords.
	plainText = lazyre.New(`^[A-Za-z_/][A-Za-z0-9_./]*(?:[ =@+-][A-Za-z0-9_./]+)*$`)
	yamlWords = lazyre.New(`^(?i:y|n|yes|no|on|off|true|false|null)$`)
	// block is text of several lines that can be read in a block.
	block = lazyre.New(`^[!-~][ -~\n]*\n[ -~\n]*$`)
)

// textNode makes the node of text. It is put in quotes where a reader of YAML 1.1 or 1.2 may take it for something
// else.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Style: yaml.DoubleQuotedStyle}
	switch {
	case block.MatchString(text):
		n.Style = yaml.LiteralStyle
	case plainText.MatchString(text) && !yamlWords.MatchString(text):
		n.Style = 0
	}
	return n
}
