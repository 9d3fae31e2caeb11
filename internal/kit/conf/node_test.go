package conf

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// aliasesOfAliases repeats the anchor a eight times, and that eight times, and so on.
func aliasesOfAliases(levels int) string {
	var text strings.Builder
	for i := range levels {
		fmt.Fprintf(&text, "%c: &%c [%s*%c]\n", 'b'+i, 'b'+i, strings.Repeat(fmt.Sprintf("*%c, ", 'a'+i), 7), 'a'+i)
	}
	return text.String()
}

// sameAsNode compares a value with the node of the library that it stands for, whose scalars the library itself reads.
func sameAsNode(n *yaml.Node, v *Value) error {
	switch n.Kind {
	case yaml.AliasNode:
		return sameAsNode(n.Alias, v)
	case yaml.SequenceNode:
		if v.Kind != List || v.Len() != len(n.Content) {
			return fmt.Errorf("%s: %v, want a list of %d", v.Path(), v.Plain(), len(n.Content))
		}
		for i, element := range v.List() {
			if err := sameAsNode(n.Content[i], element); err != nil {
				return err
			}
		}
		return nil
	case yaml.MappingNode:
		want := map[string]*yaml.Node{}
		if err := keysOf(n, want); err != nil {
			return err
		}
		if v.Kind != Map || v.Len() != len(want) {
			return fmt.Errorf("%s: %v, want a map of %d", v.Path(), v.Plain(), len(want))
		}
		for name, node := range want {
			if !v.Has(name) {
				return fmt.Errorf("%s: the key %q is missing", v.Path(), name)
			}
			if err := sameAsNode(node, v.Get(name)); err != nil {
				return err
			}
		}
		return nil
	}
	return sameScalar(n, v.Plain())
}

// keysOf lists the keys of a map and of what it merges: its own first, then those of earlier sources.
func keysOf(n *yaml.Node, keys map[string]*yaml.Node) error {
	var merged []*yaml.Node
	own, merges := map[string]bool{}, false
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Value == "<<" && n.Content[i].Kind == yaml.ScalarNode && (key.Style == 0 && key.Tag != "!" || key.Tag == "!!merge") {
			if value.Kind == yaml.SequenceNode {
				merged = append(merged, value.Content...)
			} else {
				merged = append(merged, value)
			}
			if merges {
				return fmt.Errorf("the key << was taken twice")
			}
			merges = true
			continue
		}
		if own[key.Value] || key.Kind != yaml.ScalarNode {
			return fmt.Errorf("the key %q was taken", key.Value)
		}
		if own[key.Value] = true; keys[key.Value] == nil {
			keys[key.Value] = value
		}
	}
	for _, source := range merged {
		for source.Kind == yaml.AliasNode {
			source = source.Alias
		}
		if source.Kind != yaml.MappingNode {
			return fmt.Errorf("line %d was merged", source.Line)
		}
		if err := keysOf(source, keys); err != nil {
			return err
		}
	}
	return nil
}

// digits are texts that YAML 1.1, which the library reads, and 1.2 see as different numbers, or of which one is none.
var digits = regexp.MustCompile(`^[-+]?[0-9.][0-9_.:a-zA-Z+-]*$`)

func sameScalar(n *yaml.Node, got any) error {
	var want any
	if err := n.Decode(&want); err != nil {
		return nil // a tag that does not fit, and that is no error here
	}
	switch x := want.(type) {
	case int:
		want = int64(x)
	case uint64:
		want = float64(x)
	case time.Time:
		want = n.Value
	}
	switch x, isText := got.(string); {
	case cmp.Equal(want, got, sameNumbers):
	case isText && x == n.Value && (digits.MatchString(x) || n.Value == "<<"):
	case !isText && n.Style == 0 && digits.MatchString(n.Value) && numberOf(n.Value, got):
	default:
		return fmt.Errorf("line %d: %q is %v, want %v", n.Line, n.Value, got, want)
	}
	return nil
}

// numberOf reports whether a text is a number in the core schema of YAML 1.2.
func numberOf(text string, got any) bool {
	if octal, ok := strings.CutPrefix(text, "0o"); ok {
		i, err := strconv.ParseInt(octal, 8, 64)
		return err == nil && got == i
	}
	if strings.ContainsAny(text, "_xXpPnN") {
		return false
	}
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && isNumber(got) && f == toFloat(got)
}
