package run

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/lua"
)

// Check is the command perigee check.
type Check struct {
	Scenarios []string `arg:"" name:"scenario" help:".lua files, or names of shipped scenarios."`
	Lib       []string `sep:"none" placeholder:"DIR" help:"A folder with modules for require, besides that of the scenario's file (may be repeated)."`
}

// Run loads scenarios without ranks, and lists what is wrong with them.
func (c *Check) Run(streams cli.Streams) error {
	if err := checkFolders(c.Lib); err != nil {
		return err
	}
	faults := 0
	for _, name := range c.Scenarios {
		text, err := readScript(name, c.Lib...)
		if err != nil {
			return err
		}
		faults += text.check(streams.Out)
	}
	if faults > 0 {
		return fault.New(fault.Input, "%s in %s", cli.Count(faults, "fault"), strings.Join(c.Scenarios, ", "))
	}
	return nil
}

// check lists what is wrong with a scenario, and says what it has if nothing is.
func (s *script) check(out io.Writer) (faults int) {
	r, found := lua.Check(&s.Library, s.Name, s.Source)
	defer r.Close()
	nowhere := cli.Streams{Out: io.Discard, Err: io.Discard}
	if _, err := parseOptions("perigee run", r.Scenario, []string{"--help"}, nowhere); !errors.Is(err, ErrHelp) {
		found = append(found, lua.NewFinding(err))
	}
	for _, f := range found {
		fmt.Fprint(out, plaintext.Text(f.Text+"\n"))
		if !f.Warning {
			faults++
		}
	}
	if faults > 0 {
		return faults
	}
	has := []string{cli.Count(len(r.Options), "option"), cli.Count(r.Hooks(), "hook")}
	if n := len(s.Modules); n > 0 {
		has = append(has, cli.Count(n, "module"))
	}
	faulty := "no faults"
	if len(found) > 0 {
		faulty += ", " + cli.Count(len(found), "warning")
	}
	fmt.Fprint(out, plaintext.Text(fmt.Sprintf("%s: %s; %s\n", s.Name, strings.Join(has, ", "), faulty)))
	return 0
}

// checkFolders refuses folders of modules that are not there.
func checkFolders(list []string) error {
	for _, folder := range list {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return fault.New(fault.Usage, "--lib %s: there is no such folder", cmp.Or(folder, `""`))
		}
	}
	return nil
}
