package run

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/result"
	"perigee/lua"
	"perigee/nixl"
	"perigee/nixl/engines"
)

// order says what to run, as rank 0 sends it to the others.
type order struct {
	Script script
	// Flags and Options are there where the command line does not say them: in a
	// repetition.
	Flags   *Flags
	Options map[string]any
	// Variables of the environment are those of the run that is repeated.
	Variables map[string]string
	ByRank    map[string][]result.ValueAt // those that its ranks had differently

	old   *result.Document // the repeated result, at rank 0 and in the launcher
	notes []string         // about its surroundings, likewise
}

// read finds out what is to be run, on so many hosts. Only rank 0 and the launcher can: the files need
// not be elsewhere.
func (j Job) read(hosts int) (order, error) {
	if j.Repeats == "" {
		text, err := readScript(j.Scenario, j.libs()...)
		return order{Script: text}, err
	}
	d, err := result.Read(j.Repeats)
	if err != nil {
		return order{}, err
	}
	if len(d.Command) > 1 && d.Command[1] == "disagg" {
		return order{}, fault.New(fault.Input, "result %s is that of a case of perigee disagg, and has no scenario",
			j.Repeats).
			WithHint("perigee disagg run effective.yaml, in the folder of the case, runs it again")
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(d.Scenario.Source)))
	if sum != d.Scenario.SHA256 || !result.Intact(d.Scenario.Modules) {
		return order{}, fault.New(fault.Input, "result %s: the scenario's text does not go with its SHA-256",
			j.Repeats).
			WithHint("the file has been changed since perigee wrote it")
	}
	if j.Flags.Yielding.Lib != nil {
		return order{}, fault.New(fault.Usage, "--lib has no effect: the modules are those of result %s", j.Repeats)
	}
	flags := j.Flags
	if d.Job != nil && d.Job.AllowIO && !flags.AllowIO {
		return order{}, fault.New(fault.Usage,
			"the run of %s had --allow-io, this one has not: its scenario may write any file", j.Repeats).
			WithHint("read it (perigee result cat -r %s .scenario.source), then repeat it with --allow-io",
				cli.Quote(j.Repeats))
	}
	flags.asIn(d, hosts)
	modules := lua.Library{Modules: d.Scenario.Modules, Closed: true}
	o := order{Script: script{d.Scenario.Name, d.Scenario.Source, modules}, Flags: &flags, Options: d.Scenario.Options,
		Variables: map[string]string{}, ByRank: map[string][]result.ValueAt{}, old: d,
		notes: Surroundings(j.Repeats, d, flags, hosts)}
	for _, v := range Variables(d, flags.Engine) {
		switch {
		case !v.settable(flags.sameRanks(d)):
		case v.ByRank != nil:
			o.ByRank[v.Name] = v.ByRank
		default:
			o.Variables[v.Name] = v.Was
		}
	}
	return o, nil
}

// CheckRepeatable refuses a result that is a pipe, or what this process has open: the launcher would leave nothing of
// it to rank 0, which reads it, too. What else is wrong with the file its reader says.
func CheckRepeatable(path string) error {
	info, err := os.Stat(path)
	_, open := file.Descriptor(path)
	if open || err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return fault.New(fault.Input, "result %s: wanted a regular file, got a device, a pipe or a socket", path).
			WithHint("it is read several times: write it to a file, and name that")
	}
	return nil
}

// checkStart refuses to start more ranks on this machine than it has any use for: the run was one of a cluster. A
// number that the user gives is taken, and under a launcher the number is the launcher's.
func (j Job) checkStart(d *result.Document, cpus int) error {
	n, most := d.World.Size, max(64, 8*cpus)
	if j.Flags.Ranks != nil || n <= most {
		return nil
	}
	return fault.New(fault.Usage, "the run of %s had %d ranks on %s: without -n this machine (%s) starts %d at most",
		j.Repeats, n, cli.Count(len(d.World.Hosts), "host"), cli.Count(cpus, "CPU"), most).
		WithHint("-n %d starts as many here, -n N another number, if the scenario allows it; or repeat it under a launcher: srun -n %d perigee rerun ...",
			n, n)
}

// otherSize is the error of a job for which a launcher has started another number of ranks than it wants.
func (j Job) otherSize(want, got int, launcher string) error {
	if j.Repeats != "" && j.Flags.Ranks == nil {
		return fault.New(fault.Usage, "the run of %s had %s, but the %s launcher has started %s", j.Repeats,
			cli.Count(want, "rank"), launcher, cli.Count(got, "rank")).
			WithHint("let it start %d; or say -n %d to repeat the run with %d all the same, if the scenario allows it",
				want, got, got)
	}
	return fault.New(fault.Usage, "--ranks is %d, but the %s launcher has started %s", want, launcher,
		cli.Count(got, "rank")).
		WithHint("leave --ranks to the launcher, or start them here with --launcher local")
}

// leftOut says which options of a result name files to write, which a repetition does not write without --allow-io: the
// user of this run has not named them.
func (o order) leftOut(sc lua.Scenario, flags Flags) (notes []string) {
	if flags.AllowIO {
		return nil
	}
	for _, option := range sc.Keys("output") {
		if path, ok := o.Options[option].(string); ok && path != "" {
			notes = append(notes, fmt.Sprintf("%s of the result is left out: it names a file to write, %s; --allow-io writes it", option, path))
		}
	}
	return notes
}

// asIn fills in what the user does not say from a result, for a run on so many hosts. What a script may do to files
// only the user can say.
func (f *Flags) asIn(d *result.Document, hosts int) {
	if f.Ranks == nil {
		f.Ranks = &d.World.Size
	}
	if f.Seed == nil {
		f.Seed = &d.Seed
	}
	if f.Engine == Same {
		f.Engine = "auto"
		if d.Engine != nil {
			f.Engine = d.Engine.Name
		} else if d.Job != nil {
			f.Engine = d.Job.Engine
		}
	}
	if d.Job != nil && f.Yielding.Backend == "" && f.Yielding.BackendParam == nil &&
		engines.CheckBackend(f.Engine, nixl.Backend{Name: d.Job.Backend, Params: d.Job.BackendParams}) == nil {
		f.Yielding.Backend = d.Job.Backend // but not where --engine shm has no such one
		for _, key := range slices.Sorted(maps.Keys(d.Job.BackendParams)) {
			f.Yielding.BackendParam = append(f.Yielding.BackendParam, key+"="+d.Job.BackendParams[key])
		}
	}
	f.Yielding.Title = cmp.Or(f.Yielding.Title, d.Title)
	if d.Job != nil && f.Yielding.Line == "" && !lineStays(d, hosts) {
		f.Yielding.Line = d.Job.Line
	}
	f.Yielding.Ceiling = f.Yielding.Ceiling || d.Job != nil && d.Job.Ceiling
	if y := f.Yielding; d.Job != nil {
		y.GPUMap, y.NICMap = cmp.Or(y.GPUMap, d.Job.GPUMap), cmp.Or(y.NICMap, d.Job.NICMap)
		if y.checkMaps(f.Engine) == nil { // else the engine is another one, without GPUs or UCX
			f.Yielding = y
		}
	}
	if d.Job != nil && f.Timeout == 0 {
		f.Timeout = Duration(d.Job.TimeoutNS)
	}
	for _, t := range d.Thresholds {
		if t.From == thresholdFlag { // the others are in the script
			f.Threshold = append(f.Threshold, t.Threshold)
		}
	}
}

// sameRanks reports whether a repetition has as many ranks as the run.
func (f Flags) sameRanks(d *result.Document) bool { return f.Ranks == nil || *f.Ranks == d.World.Size }

// Same is the engine of the run that is repeated.
const Same = "same"

const thresholdFlag = "--threshold"

// limitsOf returns the thresholds of a scenario and of the command line. It refuses
// those that nothing could be held against.
func limitsOf(r *lua.Runtime, options map[string]any, flags Flags) ([]metric.Threshold, error) {
	list, err := r.Limits(options)
	if err != nil {
		return nil, err
	}
	for _, text := range flags.Threshold {
		t, err := metric.ReadThreshold(text, r.Metrics)
		if err != nil {
			return nil, fault.New(fault.Usage, "%s: %w", thresholdFlag, err)
		}
		t.From = thresholdFlag
		list = append(list, t)
	}
	return list, nil
}
