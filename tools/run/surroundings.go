package run

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/nixl"
	"perigee/nixl/engines"
)

// Variable is a variable of the environment that NIXL obeys, and that a repetition finds otherwise than its run had it.
type Variable struct {
	Name string
	Was  string // at the run; empty: not set
	Is   string // in this process; empty: not set
}

// settable reports whether a repetition gives its ranks what the run had. What is set here counts, and a file does not
// decide which code is loaded.
func (v Variable) settable() bool { return v.Is == "" && v.Name != nixl.PluginDir }

// Variables lists what a repetition of a result with an engine (a value of --engine) finds otherwise, none where NIXL
// moves the bytes in only one of both.
func Variables(d *result.Document, engine string) (list []Variable) {
	if d.Engine == nil || d.Engine.Name != engines.NIXL || engine == engines.SHM {
		return nil
	}
	for _, name := range nixl.Variables {
		if v := (Variable{name, d.Engine.Params[name], os.Getenv(name)}); v.Was != v.Is {
			list = append(list, v)
		}
	}
	return list
}

// Surroundings says what a repetition of the result in a file does about the variables of its run, and what it cannot
// repeat on so many hosts.
func Surroundings(path string, d *result.Document, engine string, hosts int) (notes []string) {
	if n := len(d.World.Hosts); n > hosts && hosts == 1 {
		line := ""
		if lineStays(d, hosts) {
			line = ", and its --line is left out"
		}
		notes = append(notes, fmt.Sprintf("the run of %s was on %s, this one is on one: nothing goes between hosts%s; "+
			"under a launcher on as many hosts perigee rerun repeats it there", path, cli.Count(n, "host"), line))
	}
	var set []string
	for _, v := range Variables(d, engine) {
		switch {
		case v.settable():
			set = append(set, v.Name+"="+v.Was)
		case v.Is != "":
			notes = append(notes, fmt.Sprintf("%s is %s here, which replaces that of the run of %s (%s)", v.Name, v.Is, path,
				cmp.Or(v.Was, "not set")))
		default:
			notes = append(notes, fmt.Sprintf("%s was %s in the run of %s, and is not set: a result does not choose a folder of code; "+
				"set it yourself", v.Name, v.Was, path))
		}
	}
	if set != nil {
		notes = append(notes, fmt.Sprintf("the ranks have %s, as in the run of %s", strings.Join(set, " "), path))
	}
	return notes
}

// lineStays reports whether --line of a result is that of links which a repetition on so many hosts does not use.
func lineStays(d *result.Document, hosts int) bool {
	return d.Job != nil && d.Job.Line != "" && len(d.World.Hosts) > 1 && hosts == 1
}

// CheckSides refuses to repeat two results in turns where a variable that only one of them had, or another value, would
// be the same for both.
func CheckSides(paths [2]string, docs [2]*result.Document, engine string) error {
	if docs[0].Engine == nil || docs[1].Engine == nil || docs[0].Engine.Name != docs[1].Engine.Name {
		return nil
	}
	for _, a := range slices.Concat(Variables(docs[0], engine), Variables(docs[1], engine)) {
		was := [2]string{docs[0].Engine.Params[a.Name], docs[1].Engine.Params[a.Name]}
		if a.settable() || was[0] == was[1] {
			continue
		}
		here, hint := "is "+a.Is+" here", "unset it: each side then gets what its run had"
		if a.Is == "" {
			here = "is not set here, and a result does not choose a folder of code"
		}
		if a.Name == nixl.PluginDir {
			hint = "repeat each on its own with perigee rerun --times and the variable of its run, then compare the folders"
		}
		return fault.New(fault.Usage, "%s %s, and would be the same for both sides: the run of %s had %s, that of %s %s", a.Name,
			here, paths[0], cmp.Or(was[0], "none"), paths[1], cmp.Or(was[1], "none")).WithHint("%s", hint)
	}
	return nil
}

// inherit sets the variables of the repeated run for this rank, where its environment has none.
func (o order) inherit() error {
	for name, value := range o.Variables {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fault.New(fault.Input, "set %s=%q as in the run that is repeated: %w", name, value, err)
		}
	}
	return nil
}
