package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/scenarios"
)

// completionCmd prints a script that asks perigee itself, by the hidden
// command complete, what could stand at the cursor.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

var completionScripts = map[string]string{
	"bash": `_perigee() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$(perigee complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
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
		if strings.HasPrefix(w, last) {
			fmt.Fprintln(streams.Out, w)
		}
	}
	return nil
}

// candidates are the words that could follow before.
func candidates(n *kong.Node, before []string) []string {
	inScenario := false
	for _, w := range before {
		if i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == w }); i >= 0 {
			n = n.Children[i]
		} else if !strings.HasPrefix(w, "-") {
			inScenario = n.Name == "run"
		}
	}
	var words []string
	for _, c := range n.Children {
		if !c.Hidden {
			words = append(words, c.Name)
		}
	}
	for _, f := range n.AllFlags(true) {
		for _, flag := range f {
			words = append(words, "--"+flag.Name)
		}
	}
	if n.Name == "run" && !inScenario {
		for _, s := range scenarios.Names() {
			words = append(words, strings.ReplaceAll(s, "_", "-"))
		}
	}
	slices.Sort(words)
	return words
}
