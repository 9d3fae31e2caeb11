package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/job"
	"perigee/internal/model"
	"perigee/scenarios"
	"perigee/tools/kvbench"
)

// completionCmd prints a script that asks perigee itself, by the hidden
// command complete, what could stand at the cursor.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

var completionScripts = map[string]string{
	"bash": `_perigee() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _perigee perigee
`,
	"zsh": `#compdef perigee
_perigee() {
  local -a words_here
  words_here=("${(@f)$(perigee complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -a words_here
  _files
}
compdef _perigee perigee
`,
	"fish": `complete -c perigee -a '(perigee complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

func (c completionCmd) Run(streams cli.Streams) error {
	_, err := fmt.Fprint(streams.Out, completionScripts[c.Shell])
	return err
}

// completeCmd prints what could stand in place of the last word.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:"all"`
}

func (c completeCmd) Run(streams cli.Streams, k *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return fault.New(fault.Usage, "nothing to complete")
	}
	last := words[len(words)-1]
	for _, w := range candidates(k.Model.Node, words[:len(words)-1]) {
		if fits(w, last) {
			fmt.Fprintln(streams.Out, w)
		}
	}
	return nil
}

// fits reports whether a word may be what the user has begun to write.
func fits(word, begun string) bool {
	flag := strings.HasPrefix(word, "-")
	switch {
	case !strings.HasPrefix(word, begun):
		return false
	case begun == "":
		return !flag // so that the shell offers files instead
	case flag && strings.Contains(word, "_"):
		return strings.Contains(begun, "_") // one spelling of a flag is enough
	}
	return true
}

// offer is a set of words that could come next.
type offer struct {
	words   []string
	choices map[string][]string // flag -> its values, where they are known
}

// candidates are the words that could follow before, sorted.
func candidates(n *kong.Node, before []string) []string {
	o := follow(n, before)
	if len(before) > 0 {
		if choices, ok := o.choices[before[len(before)-1]]; ok {
			return choices
		}
	}
	slices.Sort(o.words)
	return slices.Compact(o.words)
}

// follow walks down the command tree as far as the words lead.
func follow(n *kong.Node, words []string) offer {
	var flag string // the word before, if it was one
	for _, w := range words {
		switch i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == w }); {
		case i >= 0:
			n = n.Children[i]
		case strings.HasPrefix(w, "-"):
			flag = w
			continue
		case n.Name == "run" && strings.HasPrefix(flag, "-") && takesValue(n, flag):
		case n.Name == "run":
			return scenarioOffer(w)
		}
		flag = ""
	}
	if slices.Contains(wellKnown, n.Name) {
		return scenarioOffer(n.Name)
	}
	o := flagOffer(n)
	for _, c := range n.Children {
		if !c.Hidden {
			o.words = append(o.words, c.Name)
		}
	}
	for _, p := range n.Positional {
		o.words = append(o.words, enumOf(p)...)
	}
	if n.Name == "run" {
		o.words = append(o.words, shipped()...)
	}
	return o
}

// named are lists of words that a flag refers to by the tag completes.
var named = map[string]func() []string{"models": model.Names, "configs": kvbench.ConfigNames}

// wordsOf returns the words that a flag may be followed by, where they are
// known.
func wordsOf(f *kong.Flag) []string {
	if list := named[f.Tag.Get("completes")]; list != nil {
		return list()
	}
	return enumOf(f.Value)
}

func enumOf(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return v.EnumSlice()
}

// takesValue reports whether a word is a flag of a command and the next word its value.
func takesValue(n *kong.Node, word string) bool {
	for _, group := range n.AllFlags(false) {
		for _, f := range group {
			if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
				return !f.IsBool()
			}
		}
	}
	return false
}

func flagOffer(n *kong.Node) offer {
	o := offer{choices: map[string][]string{}}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			for _, name := range append([]string{f.Name}, f.Aliases...) {
				o.words = append(o.words, "--"+name)
				if e := wordsOf(f); e != nil {
					o.choices["--"+name] = e
				}
			}
		}
	}
	return o
}

// scenarioOffer is what may follow the name of a scenario: the flags of every
// job and its own options.
func scenarioOffer(name string) offer {
	grammar, choices, err := job.Grammar(name)
	if err != nil {
		return offer{} // no completion for a scenario that cannot be read
	}
	k, err := kong.New(grammar, cli.BothSpellings())
	if err != nil {
		return offer{}
	}
	o := flagOffer(k.Model.Node)
	maps.Copy(o.choices, choices)
	return o
}

func shipped() []string {
	names := scenarios.Names()
	for i := range names {
		names[i] = strings.ReplaceAll(names[i], "_", "-")
	}
	return names
}
