package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/model"
	"perigee/internal/serving/runs"
	"perigee/scenarios"
	"perigee/tools/compare"
	"perigee/tools/kvbench"
	"perigee/tools/run"
)

// completionCmd prints a script that asks perigee itself, by the hidden
// command complete, what could stand at the cursor.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

var completionScripts = map[string]string{
	// mapfile takes each line as it is: compgen -W would expand $(...) in it.
	"bash": `_perigee() {
  mapfile -t COMPREPLY < <(perigee complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _perigee perigee
`,
	"zsh": `#compdef perigee
_perigee() {
  local -a words_here
  words_here=(${(f)"$(perigee complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  (( $#words_here )) && compadd -a words_here || _files
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

// Run prints the words that may stand at the cursor, one a line, at most mostWords. It is called at each press of the
// tab key, so it may take completionTime and no longer: a scenario's own options are only known once its script has
// run.
func (c completeCmd) Run(streams cli.Streams, k *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return fault.New(fault.Usage, "nothing to complete")
	}
	// The shell offers what has been said before.
	time.AfterFunc(completionTime, func() { os.Exit(int(fault.Script)) })
	before, last, prefix := splitAtCursor(words)
	left, said := mostWords, map[string]bool{}
	say := func(words []string, last, prefix string, but []string) {
		for _, w := range words {
			if left > 0 && fits(w, last) && plainWord.MatchString(w) && !slices.Contains(but, w) && !said[w] {
				fmt.Fprintln(streams.Out, prefix+w)
				left, said[w] = left-1, true
			}
		}
	}
	// The flags of every job come first, should the scenario take too much.
	if n, scenario := descend(k.Model.Node, before); scenario != "" && runsScenarios(n) && strings.HasPrefix(last, "-") {
		say(slices.Sorted(slices.Values(flagOffer(n.Flags).words)), last, prefix, nil)
	}
	offered, list := candidates(k.Model.Node, before)
	var earlier []string // of a list with commas
	if i := strings.LastIndex(last, ","); list && i >= 0 {
		earlier = strings.Split(last[:i], ",")
		prefix, last = prefix+last[:i+1], last[i+1:]
	}
	say(offered, last, prefix, earlier)
	return nil
}

// splitAtCursor separates the word at the cursor from those before it. The value
// in --flag=value is a word by itself: bash passes the three parts separately,
// other shells pass one word, whose beginning prefix repeats.
func splitAtCursor(words []string) (before []string, last, prefix string) {
	before, last = words[:len(words)-1], words[len(words)-1]
	n := len(before)
	switch flag, value, found := strings.Cut(last, "="); {
	case last == "=":
		return before, "", ""
	case n > 1 && before[n-1] == "=":
		return before[:n-1], last, ""
	case found && strings.HasPrefix(flag, "--"):
		return append(slices.Clone(before), flag), value, flag + "="
	}
	return before, last, ""
}

// plainWord matches what a shell takes as it is. A scenario of someone else
// chooses the names and values of its options, and the user who accepts one of
// them must not run a command by it.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.,:/@%+=-]{1,100}$`)

// mostWords is how many words are offered. The shell keeps, sorts and shows them all.
const mostWords = 1000

// completionTime is how long a completion takes at most: it runs the top level of the scenario on the command line.
const completionTime = time.Second

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
	lists   map[string]bool     // flags that take several, with commas
}

// candidates are the words that could follow before, sorted. list reports that several may, with commas.
func candidates(n *kong.Node, before []string) (words []string, list bool) {
	o := follow(n, before)
	if len(before) > 0 {
		flag := before[len(before)-1]
		if choices, ok := o.choices[flag]; ok {
			return choices, o.lists[flag]
		}
	}
	slices.Sort(o.words)
	return slices.Compact(o.words), false
}

// descend walks down the command tree as far as the words lead: to a command, and to the scenario that it is to run.
func descend(n *kong.Node, words []string) (at *kong.Node, scenario string) {
	var flag string // the word before, if it was one
	for _, w := range words {
		switch i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == w }); {
		case i >= 0:
			n = n.Children[i]
		case strings.HasPrefix(w, "-"):
			flag = w
			continue
		case runsScenarios(n) && strings.HasPrefix(flag, "-") && takesValue(n, flag):
		case runsScenarios(n):
			return n, w
		}
		flag = ""
	}
	return n, n.Tag.Get("scenario")
}

// follow offers what may come behind words.
func follow(n *kong.Node, words []string) offer {
	n, scenario := descend(n, words)
	if scenario != "" {
		return scenarioOffer(scenario)
	}
	o := flagOffer(n.AllFlags(true)...)
	for _, c := range n.Children {
		if !c.Hidden {
			o.words = append(o.words, c.Name)
		}
	}
	for _, p := range n.Positional {
		o.words = append(o.words, enumOf(p)...)
	}
	if runsScenarios(n) {
		o.words = append(o.words, shipped()...)
	}
	return o
}

// runsScenarios reports whether a command is perigee run, and not perigee disagg run.
func runsScenarios(n *kong.Node) bool { return n.Name == "run" && n.Depth() == 0 }

// named are lists of words that a flag refers to by the tag completes.
var named = map[string]func() []string{
	"models": model.Names, "configs": kvbench.ConfigNames, "columns": runs.Names, "comparecolumns": compare.Columns,
}

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

func flagOffer(groups ...[]*kong.Flag) offer {
	o := offer{choices: map[string][]string{}, lists: map[string]bool{}}
	for _, group := range groups {
		for _, f := range group {
			for _, name := range append([]string{f.Name}, f.Aliases...) {
				o.words = append(o.words, "--"+name)
				if e := wordsOf(f); e != nil {
					o.choices["--"+name], o.lists["--"+name] = e, f.IsSlice() && f.Tag.Sep == ','
				}
			}
		}
	}
	return o
}

// scenarioOffer lists what may follow the name of a scenario: the flags of every
// job and its own options.
func scenarioOffer(name string) offer {
	grammar, choices, err := run.Grammar(name)
	if err != nil {
		return offer{} // no completion for a scenario that cannot be read
	}
	k, err := cli.Parser(grammar)
	if err != nil {
		return offer{}
	}
	o := flagOffer(k.Model.Node.AllFlags(true)...)
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
