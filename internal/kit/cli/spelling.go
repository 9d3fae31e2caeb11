package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/fault"
)

// Vars are what tags of all grammars may name: a package that knows a list of choices adds it here.
var Vars = kong.Vars{}

// Parser is kong.New with the habits of all of perigee's command lines: both spellings of flags, and decimal numbers.
func Parser(grammar any, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(grammar, append(options, Vars, bothSpellings(), numbers())...)
}

// Into fills a command with the words of a command line: where a command does the work of another one.
func Into(command any, words ...string) error {
	k, err := Parser(command, kong.NoDefaultHelp())
	if err == nil {
		_, err = k.Parse(words)
	}
	if err != nil {
		return fault.New(fault.Usage, "%w", err)
	}
	return nil
}

// bothSpellings is an option for kong under which every flag may be written
// with underscores in place of hyphens, too, as the tools that perigee stands
// beside spell theirs: --op_type is --op-type. Help has hyphens.
func bothSpellings() kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
			switch f := node.(type) {
			case *kong.Node:
				slices.SortStableFunc(f.Flags, originalsLast)
			case *kong.Flag:
				f.Name = strings.ReplaceAll(f.Name, "_", "-")
				f.Aliases = append(f.Aliases, otherSpellings(f)...)
			}
			return next(nil)
		})
	})
}

// Originals is the heading of those options that keep the name which a tool that perigee stands beside has for them. It
// is the last one in help.
const Originals = "Names of the originals"

func originalsLast(a, b *kong.Flag) int {
	last := func(f *kong.Flag) int {
		if f.Group != nil && f.Group.Key == Originals {
			return 1
		}
		return 0
	}
	return last(a) - last(b)
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
