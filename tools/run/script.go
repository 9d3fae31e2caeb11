package run

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/value"
	"perigee/internal/result"
	"perigee/lua"
	"perigee/scenarios"
)

// script is the text of a scenario.
type script struct {
	Name   string // as it stands in messages
	Source string
	lua.Library
}

// readScript reads a scenario. It finds modules beside its file and in other folders.
func readScript(name string, libs ...string) (script, error) {
	if shipped, source, ok := scenarios.Source(name); ok {
		return script{shipped, source, lua.Library{Closed: true}}, nil
	}
	if _, open := file.Descriptor(name); !open && !strings.HasSuffix(name, ".lua") {
		shipped := strings.ReplaceAll(strings.Join(scenarios.Names(), ", "), "_", "-")
		meant := cmp.Or(value.Suggestion(name, strings.Split(shipped, ", ")), scriptHere(name))
		if _, err := os.Stat(name + ".lua"); err == nil {
			meant = fmt.Sprintf("; did you mean %q?", name+".lua")
		}
		return script{}, fault.New(fault.Usage, "there is no scenario %q%s", name, meant).
			WithHint("shipped are %s; a file of your own ends in .lua", shipped)
	}
	source, err := lua.ReadSource(name)
	if err != nil {
		return script{}, fault.Wrap(err, "scenario")
	}
	folders := []string{file.Folder(name)}
	if target, err := file.Target(name); err == nil && file.Folder(target) != folders[0] { // the script is a link
		folders = append(folders, file.Folder(target))
	}
	return script{name, source, lua.Library{Folders: append(folders, libs...)}}, nil
}

// scriptHere is "; did you mean ...?" with a script in the current folder that a name may mean.
func scriptHere(name string) string {
	files, _ := filepath.Glob("*.lua") // the pattern is a good one
	for _, file := range files {
		if value.Suggestion(name, []string{strings.TrimSuffix(file, ".lua")}) != "" {
			return fmt.Sprintf("; did you mean %q?", "./"+file)
		}
	}
	return ""
}

// load runs the top level of the scenario, which may print, and finds its modules.
func (s *script) load(out io.Writer) (*lua.Runtime, error) {
	return lua.LoadWith(&s.Library, s.Name, s.Source, out)
}

// complete adds the modules that the scenario requires as it loads to those that its text shows.
func (s *script) complete() error {
	if s.Closed = s.Closed || !strings.Contains(s.Source, "require"); s.Closed {
		return nil
	}
	r, err := s.load(io.Discard)
	if err != nil {
		return err
	}
	return r.Close()
}

// libs are the folders that the words name by --lib, as far as is known before the scenario, which may have an option
// of that name.
func (j Job) libs() []string {
	var own struct {
		Lib []string `sep:"none"`
	}
	if _, err := cli.Take(&own, j.Words); err != nil {
		return nil
	}
	return slices.Concat(j.Flags.Yielding.Lib, own.Lib)
}

// loadScenario reads a scenario, whose top level may print.
func loadScenario(name string, out io.Writer, libs ...string) (*lua.Runtime, error) {
	text, err := readScript(name, libs...)
	if err != nil {
		return nil, err
	}
	return text.load(out)
}

// record describes the script and its options in a result.
func (s script) record(sc lua.Scenario, options map[string]any) result.Scenario {
	return result.Scenario{
		Name: s.Name, SHA256: s.digest(), Source: s.Source, Options: options, Modules: s.Modules,
		Reads: sc.Keys("path"), Writes: sc.Keys("output"),
	}
}

func (s script) digest() string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s.Source))) }

// grammar is the whole command line of a job: the options of every job, and those that its scenario declares.
type grammar struct {
	Job      Flags `embed:""`
	Yielding any   `embed:""`
	Scenario any   `embed:""`
}

// Grammar returns a struct from which kong makes the command line of a job with
// this scenario, and the values that its options choose from.
func Grammar(name string) (g any, choices map[string][]string, err error) {
	r, err := loadScenario(name, io.Discard)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	choices = map[string][]string{}
	for _, o := range r.Options {
		if len(o.Choices) > 0 && o.Type != "bool" {
			choices["--"+o.Name] = o.Choices
		}
	}
	return &grammar{Yielding: Yielding{}.without(r.Scenario), Scenario: r.Grammar()}, choices, nil
}

// ErrHelp says that the user asked for help and got it.
var ErrHelp = errors.New("help was printed")

// options are those of a scenario, with its defaults, and which of them the command line gives.
type options struct{ values, named map[string]any }

// parseOptions reads the options of a scenario from the words that are left of a command line without the flags of the
// job. Those flags are part of the grammar all the same: help lists them, and an option cannot have the name of one.
func parseOptions(command string, sc lua.Scenario, words []string, streams cli.Streams) (o options, err error) {
	g := grammar{Yielding: Yielding{}.without(sc), Scenario: sc.Grammar()}
	helped := false
	k, err := cli.Parser(&g, kong.Name(command), kong.Description(sc.About),
		kong.Writers(plaintext.Writer(streams.Out), streams.Err), kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}))
	if err != nil {
		if _, flag, twice := strings.Cut(err.Error(), "duplicate flag "); twice {
			err = fault.New(fault.Script, "%s is an option of every job: give that of the scenario another name", flag)
		}
		return o, fault.New(fault.Script, "%s: options: %w", sc.Name, err)
	}
	_, err = k.Parse(words)
	if helped {
		return o, ErrHelp
	}
	if err != nil {
		return o, fault.New(fault.Usage, "%w", cli.Plain(err)).WithHint("%s --help", command)
	}
	if o.values, o.named, err = sc.Values(g.Scenario); err != nil {
		return o, fault.New(fault.KindOf(err), "%w", err).
			WithHint("%s", cmp.Or(fault.HintOf(err), command+" --help"))
	}
	return o, nil
}

// optionWords writes options of a scenario as the words that [parseOptions] reads them from.
func optionWords(sc lua.Scenario, options map[string]any) (words []string, err error) {
	arguments := []string{"--"}
	known := 0
	for _, o := range sc.Options {
		v, given := o.In(options)
		if given {
			known++
		}
		switch {
		case o.Arg && cmp.Or(v, o.Default) != nil:
			arguments = append(arguments, fmt.Sprint(cmp.Or(v, o.Default)))
		case v == nil:
		case v == true:
			words = append(words, "--"+o.Name)
		case v == false:
			words = append(words, "--no-"+o.Name)
		default:
			words = append(words, fmt.Sprintf("--%s=%v", o.Name, v))
		}
	}
	if known < len(options) {
		return nil, fault.New(fault.Internal, "%s: options %v: some are not the scenario's", sc.Name, options)
	}
	if len(arguments) > 1 {
		words = slices.Concat(words, arguments)
	}
	return words, nil
}

// access returns what the scenario may do to files.
func (j Job) access(flags Flags, text script, o options) lua.Access {
	a := lua.Access{AllowIO: flags.AllowIO, Named: o.named, Repeated: j.Repeats != "", Result: flags.Result}
	if _, _, shipped := scenarios.Source(j.Scenario); !shipped && j.Repeats == "" {
		a.Folder = file.Folder(text.Name)
	}
	return a
}
