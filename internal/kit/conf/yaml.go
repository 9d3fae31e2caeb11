package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/plaintext"
)

// maxAliased bounds the values that aliases (*name) add to a document by repeating what their anchors (&name) hold. A
// few nested lines could otherwise ask for billions.
const maxAliased = 1 << 18

// yamlReader fills values from the nodes of a YAML document.
type yamlReader struct {
	top     *Value
	root    *yaml.Node
	open    []*yaml.Node // anchors whose aliases are being followed
	aliased int          // values made while following one
}

func readYAML(top *Value, text []byte) error {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return yamlError(top, err)
	}
	var document yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return nil // Parse says what is wanted
	} else if err != nil {
		return yamlError(top, err)
	}
	var second yaml.Node
	if err := loader.Load(&second); err == nil {
		return syntaxError(top, second.Line, "one YAML document", "a second one begins here")
	} else if !errors.Is(err, io.EOF) {
		return yamlError(top, err)
	}
	if len(document.Content) == 0 {
		return nil
	}
	root := document.Content[0]
	top.Line = max(1, root.Line)
	r := yamlReader{top: top, root: root}
	return r.fill(top, root)
}

// yamlError says what the YAML library found, with its line.
func yamlError(top *Value, err error) error {
	load, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return syntaxError(top, 0, "YAML", plaintext.Cut(err.Error(), mostQuoted))
	}
	what := load.Message
	if load.ContextMsg != "" {
		what += " " + load.ContextMsg
		if load.ContextMark.Line > 0 && load.ContextMark.Line != load.Mark.Line {
			what += fmt.Sprintf(" of line %d", load.ContextMark.Line)
		}
	}
	if strings.HasPrefix(what, "unknown anchor ") { // it may be a password that begins with a star
		what = "an anchor that is not there; in quotes, a value that begins with * would be text"
	}
	return syntaxError(top, load.Mark.Line, "YAML", plaintext.Cut(what, mostQuoted))
}

// mostQuoted keeps a word of a million letters, which the library quotes, out of a message.
const mostQuoted = 400

// fill makes v the value of a node.
func (r *yamlReader) fill(v *Value, n *yaml.Node) error {
	switch n.Kind {
	case yaml.AliasNode:
		return r.follow(v, n, func() error { return r.fill(v, n.Alias) })
	case yaml.MappingNode:
		return r.fillMap(v, n)
	case yaml.SequenceNode:
		return r.fillList(v, n)
	}
	var err error
	if v.Kind, v.scalar, err = yamlScalar(n); err != nil {
		return v.Errorf("%w", err)
	}
	if isPlain(n) {
		v.written = n.Value
	}
	if v.Kind == Null && n.Anchor != "" && n.Value == "" && !hasAlias(r.root, n) { // a password may begin with &
		return v.Errorf("an anchor without a value, of which there is no alias; " +
			"in quotes, a value that begins with & would be text")
	}
	return nil
}

// hasAlias reports whether an alias below a node stands for another one.
func hasAlias(below, n *yaml.Node) bool {
	return below.Alias == n ||
		slices.ContainsFunc(below.Content, func(child *yaml.Node) bool { return hasAlias(child, n) })
}

// follow calls use for the node an alias stands for, unless that node contains
// the alias.
func (r *yamlReader) follow(v *Value, alias *yaml.Node, use func() error) error {
	if slices.Contains(r.open, alias.Alias) {
		return v.Errorf("the anchor %s contains itself", quote(alias.Value))
	}
	if len(r.open) == maxDepth {
		return v.Errorf("wanted at most %d anchors that refer to each other in a chain, got more", maxDepth)
	}
	r.open = append(r.open, alias.Alias)
	err := use()
	r.open = r.open[:len(r.open)-1]
	return err
}

// count bounds what aliases add, before so many values of a node are read.
func (r *yamlReader) count(n *yaml.Node, values int) error {
	if len(r.open) == 0 {
		return nil
	}
	if r.aliased += values; r.aliased > maxAliased {
		return syntaxError(r.top, n.Line, "YAML of a sane size",
			fmt.Sprintf("its aliases repeat more than %d values", maxAliased))
	}
	return nil
}

func (r *yamlReader) fillList(v *Value, n *yaml.Node) error {
	if err := checkTag(n, "!!seq"); err != nil {
		return v.Errorf("%w", err)
	}
	if err := r.count(n, len(n.Content)); err != nil {
		return err
	}
	v.Kind = List
	for _, element := range n.Content {
		value, err := v.item(element.Line)
		if err == nil {
			err = r.fill(value, element)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *yamlReader) fillMap(v *Value, n *yaml.Node) error {
	if err := checkTag(n, "!!map"); err != nil {
		return v.Errorf("%w", err)
	}
	v.Kind = Map
	return r.addPairs(v, n)
}

// addPairs adds the keys of a mapping node to v, and then those of the maps that its merge key (<<) refers to, a legacy
// of YAML 1.1 that configuration files rely on. Keys that v has already stay as they are.
func (r *yamlReader) addPairs(v *Value, n *yaml.Node) error {
	if err := r.count(n, len(n.Content)/2); err != nil {
		return err
	}
	var merged []*yaml.Node
	lines := map[string]int{} // of the keys of this node
	merges := 0               // the line of its merge key
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, node := n.Content[i], n.Content[i+1]
		if isMergeKey(key) { // in quotes it is another key
			if merges > 0 {
				return v.newEntry(key.Value, key.Line).givenTwice(merges)
			}
			merges, merged = key.Line, []*yaml.Node{node}
			if node.Kind == yaml.SequenceNode {
				merged = node.Content
			}
			continue
		}
		name, err := r.keyName(v, key)
		if err != nil {
			return err
		}
		if first, ok := lines[name]; ok {
			return v.newEntry(name, key.Line).givenTwice(first)
		}
		if lines[name] = key.Line; v.Has(name) {
			continue
		}
		value, err := v.entry(name, key.Line)
		if err != nil {
			return err
		}
		value.keyPlain = key.Kind == yaml.ScalarNode && isPlain(key)
		if err := r.fill(value, node); err != nil {
			return err
		}
	}
	for _, source := range merged {
		if err := r.merge(v, source); err != nil {
			return err
		}
	}
	return nil
}

// merge adds the keys of one source of a merge key, a mapping or an alias of
// one.
func (r *yamlReader) merge(v *Value, source *yaml.Node) error {
	switch source.Kind {
	case yaml.AliasNode:
		return r.follow(v, source, func() error { return r.merge(v, source.Alias) })
	case yaml.MappingNode:
		return r.addPairs(v, source)
	}
	return syntaxError(r.top, source.Line, "YAML",
		"the merge key << needs a map, an alias of a map, or a list of these")
}

func isMergeKey(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && (isPlain(key) || explicitTag(key) == "!!merge")
}

// keyName returns a key of v as it is written: 0 and "0" are the same key.
func (r *yamlReader) keyName(v *Value, key *yaml.Node) (name string, err error) {
	switch key.Kind {
	case yaml.AliasNode:
		err = r.follow(v, key, func() error {
			name, err = r.keyName(v, key.Alias)
			return err
		})
		return name, err
	case yaml.ScalarNode:
		return key.Value, nil
	}
	return "", fault.New(fault.Input, "%s: wanted a key that is text or a number, got a list or a map", place(v.File, key.Line))
}

// isPlain reports whether a scalar has neither quotes nor a tag.
func isPlain(n *yaml.Node) bool {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle |
		yaml.FoldedStyle | yaml.TaggedStyle
	return n.Style&quoted == 0 && n.Tag != "!"
}

// explicitTag returns the tag that the document gives a node, or "".
func explicitTag(n *yaml.Node) string {
	if n.Style&yaml.TaggedStyle == 0 {
		return ""
	}
	return n.Tag
}

// checkTag refuses tags other than the node's own.
func checkTag(n *yaml.Node, own string) error {
	if tag := explicitTag(n); tag != "" && tag != own {
		return fmt.Errorf("the tag %s is not known here", quote(tag))
	}
	return nil
}

// The numbers of the core schema of YAML 1.2 (specification 1.2.2, section
// 10.3.2), but for what is another number in version 1.1. Words such as yes, no,
// on and off are text.
var (
	yamlOctal   = lazyre.New(`^0o[0-7]+$`)
	yamlHex     = lazyre.New(`^0x[0-9a-fA-F]+$`)
	yamlOld     = lazyre.New(`^[-+]?0+[1-7][0-7]+$`)
	yamlDecimal = lazyre.New(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
)

// yamlScalar finds the kind and value of a scalar node.
func yamlScalar(n *yaml.Node) (Kind, any, error) {
	tag := explicitTag(n)
	if tag == "!!str" || tag == "" && !isPlain(n) {
		return String, n.Value, nil
	}
	kind, scalar, err := resolve(n.Value)
	if err != nil || tag == "" {
		return kind, scalar, err
	}
	switch {
	case tag == "!!float" && kind == Int:
		return Float, float64(scalar.(int64)), nil
	case kind != String && tag == tagOf[kind]:
		return kind, scalar, nil
	}
	return Null, nil, fmt.Errorf("the tag %s does not fit %s", quote(tag), quote(n.Value))
}

var tagOf = map[Kind]string{Null: "!!null", Bool: "!!bool", Int: "!!int", Float: "!!float"}

// resolve finds what a plain scalar stands for.
func resolve(text string) (Kind, any, error) {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return Null, nil, nil
	case "true", "True", "TRUE":
		return Bool, true, nil
	case "false", "False", "FALSE":
		return Bool, false, nil
	case ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF":
		return Float, math.Inf(1), nil
	case "-.inf", "-.Inf", "-.INF":
		return Float, math.Inf(-1), nil
	case ".nan", ".NaN", ".NAN":
		return Float, math.NaN(), nil
	}
	switch { // most texts are told from numbers by their first letter
	case !strings.ContainsRune("+-.0123456789", rune(text[0])):
	case yamlOld.MatchString(text):
		digits := strings.TrimLeft(text, "-+0")
		return Null, nil, fmt.Errorf("%s is octal for YAML 1.1, which other programs read, and decimal for YAML 1.2; write 0o%s or %s, or use quotes if it is text",
			text, digits, digits)
	case yamlDecimal.MatchString(text):
		return parseNumber(text)
	case yamlOctal.MatchString(text):
		i, err := parseInt(text[2:], 8)
		return Int, i, err
	case yamlHex.MatchString(text):
		i, err := parseInt(text[2:], 16)
		return Int, i, err
	}
	return String, text, nil
}
