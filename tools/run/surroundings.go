package run

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/result"
	"perigee/nixl/engines"
)

// Variable is a variable of the environment that NIXL obeys, and that a repetition finds otherwise than its run had it.
type Variable struct {
	Name   string
	Was    string           // at the run; empty: not set
	Is     string           // in this process; empty: not set
	ByRank []result.ValueAt // where ranks had different values, which Was words then
}

// settable reports whether a repetition, with as many ranks or others, gives them what the run had. What is set here
// counts, and a file does not decide which code is loaded.
func (v Variable) settable(sameRanks bool) bool {
	return v.Is == "" && !result.IsSource(v.Name) && (v.ByRank == nil || sameRanks)
}

// Variables lists what a repetition of a result with an engine (a value of --engine) finds otherwise, none where NIXL
// moves the bytes in only one of both. What the result does not keep is not known to be otherwise.
func Variables(d *result.Document, engine string) (list []Variable) {
	if !d.ObeysVariables() || engines.HostOnly(engine) {
		return nil
	}
	names := slices.Concat(d.Settings(), settingsHere())
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		v := Variable{Name: name, Was: d.Setting(name), Is: os.Getenv(name)}
		if d.Environment != nil {
			v.ByRank = d.Environment.ByRank[name]
		}
		if v.Was != v.Is && d.Keeps(name) {
			list = append(list, v)
		}
	}
	return list
}

// settingsHere are the names of the variables of this process that may change what is measured.
func settingsHere() []string {
	names := slices.Sorted(maps.Keys(result.VariablesOf(os.Environ())))
	return slices.DeleteFunc(names, func(name string) bool { return !result.IsSetting(name) })
}

// unknown are variables of this process of which the result of a run with NIXL does not say whether the run had them.
func unknown(d *result.Document, engine string) []string {
	if !d.ObeysVariables() || engines.HostOnly(engine) {
		return nil
	}
	return slices.DeleteFunc(settingsHere(), d.Keeps)
}

// Surroundings says what a repetition of the result in a file does about the variables of its run, and what it cannot
// repeat on so many hosts.
func Surroundings(path string, d *result.Document, flags Flags, hosts int) (notes []string) {
	if n := len(d.World.Hosts); n > hosts && hosts == 1 {
		line := ""
		if lineStays(d, hosts) {
			line = ", and its --line is left out"
		}
		notes = append(notes, fmt.Sprintf("the run of %s was on %s, this one is on one: nothing goes between hosts%s; "+
			"under a launcher on as many hosts perigee rerun repeats it there", path, cli.Count(n, "host"), line))
	}
	var set []string
	for _, v := range Variables(d, flags.Engine) {
		switch {
		case v.settable(flags.sameRanks(d)) && v.ByRank != nil:
			set = append(set, v.Name+" "+v.Was)
		case v.settable(flags.sameRanks(d)):
			set = append(set, v.Name+"="+v.Was)
		case v.Is != "":
			notes = append(notes, fmt.Sprintf("%s is %s here, which replaces that of the run of %s (%s)", v.Name, v.Is, path,
				cmp.Or(v.Was, "not set")))
		case v.ByRank != nil && !result.IsSource(v.Name):
			notes = append(notes, fmt.Sprintf("%s was %s in the run of %s, and is not set: there were %s", v.Name, v.Was, path,
				cli.Count(d.World.Size, "rank")))
		default:
			notes = append(notes, fmt.Sprintf("%s was %s in the run of %s, and is not set: a result does not choose where code and "+
				"settings come from; set it yourself", v.Name, v.Was, path))
		}
	}
	if names := unknown(d, flags.Engine); len(names) > 0 {
		notes = append(notes, fmt.Sprintf("%s, set here, may be new: %s does not say whether its run had it, as it was made by an "+
			"earlier perigee", strings.Join(names, " "), path))
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
		was := [2]string{docs[0].Setting(a.Name), docs[1].Setting(a.Name)}
		if a.settable(true) || was[0] == was[1] {
			continue
		}
		here, hint := "is "+a.Is+" here", "unset it: each side then gets what its run had"
		if a.Is == "" {
			here = "is not set here, and a result does not choose where code and settings come from"
		}
		if result.IsSource(a.Name) {
			hint = "repeat each on its own with perigee rerun --times and the variable of its run, then compare the folders"
		}
		return fault.New(fault.Usage, "%s %s, and would be the same for both sides: the run of %s had %s, that of %s %s", a.Name,
			here, paths[0], cmp.Or(was[0], "none"), paths[1], cmp.Or(was[1], "none")).WithHint("%s", hint)
	}
	return nil
}

// inherit sets the variables of the repeated run for a rank, this one, where its environment has none.
func (o order) inherit(rank int) error {
	all := maps.Clone(o.Variables)
	for name, list := range o.ByRank {
		for _, v := range list {
			if slices.Contains(v.Ranks, rank) {
				all[name] = v.Value
			}
		}
	}
	for name, value := range all {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fault.New(fault.Input, "set %s=%q as in the run that is repeated: %w", name, value, err)
		}
	}
	return nil
}
