package cli

import (
	"strings"

	"github.com/alecthomas/kong"
)

// Vars are what tags of all grammars may name: a package that knows a list of choices adds it here.
var Vars = kong.Vars{}

// Parser is kong.New with the habits of all of perigee's command lines: both spellings of flags, and decimal numbers.
func Parser(grammar any, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(grammar, append(options, Vars, bothSpellings(), numbers())...)
}

// bothSpellings is an option for kong under which every flag may be written
// with underscores in place of hyphens, too, as the tools that perigee stands
// beside spell theirs: --op_type is --op-type.
func bothSpellings() kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
			if f, ok := node.(*kong.Flag); ok {
				f.Aliases = append(f.Aliases, otherSpellings(f)...)
			}
			return next(nil)
		})
	})
}

func otherSpellings(f *kong.Flag) (others []string) {
	for _, name := range append([]string{f.Name}, f.Aliases...) {
		for _, other := range []string{strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "_", "-")} {
			if other != name {
				others = append(others, other)
			}
		}
	}
	return others
}
