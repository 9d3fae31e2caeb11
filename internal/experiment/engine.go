package experiment

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/result"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/engines"
	"perigee/spmd"
)

// Choice holds the options of a rank's command line in which all ranks must agree.
type Choice struct{ What, Value string }

// OpenEngine opens the engine that the command lines of all ranks ask for. All ranks call it. note is a remark
// on the choice for the user, or empty.
func (e *Experiment) OpenEngine() (_ nixl.Engine, note string, err error) {
	// No rank has made an agent yet, so that all see the same room.
	type wish struct {
		Tight, Lacking string
		Alike          []Choice
		Variables      string // their digest
	}
	variables := result.VariablesOf(os.Environ())
	own := wish{Alike: append(slices.Clip(e.Alike), Choice{"engines", e.Job.Engine}), Lacking: device.LackingHere(),
		Variables: digestOf(variables)}
	if e.World.OneHost() {
		own.Tight = engines.Tight(e.World.Size())
	}
	wishes, err := spmd.AllGatherValue(e.World.All(), own)
	if err != nil {
		return nil, "", err
	}
	tight := ""
	for _, w := range wishes {
		tight = cmp.Or(tight, w.Tight)
	}
	for i, c := range own.Alike { // the same at all ranks but for the values: all have rank 0's script
		values := make([]string, len(wishes))
		for r, w := range wishes {
			if i < len(w.Alike) { // else it runs another version of perigee
				values[r] = w.Alike[i].Value
			}
		}
		if err := oneChoice(c.What, values, e.World.HostName); err != nil {
			return nil, "", err
		}
	}
	digests := make([]string, len(wishes))
	for r, w := range wishes {
		digests[r] = w.Variables
	}
	if err := e.keepVariables(variables, digests); err != nil {
		return nil, "", err
	}
	engine, note, err := engines.Open(e.Job.Engine, e.NixlLib, e.World.OneHost(), tight,
		nixl.Backend{Name: e.Job.Backend, Params: e.Job.BackendParams})
	if err == nil {
		engine = engines.OnDevices(engine, e.netDevices)
		info := engine.Info()
		e.World.Log().Info("engine chosen", "asked", e.Job.Engine, "engine", info.Name, "version", info.Version,
			"library", info.Library, "reason", cmp.Or(note, why(e.Job.Engine, info.Name)))
		for r, w := range wishes {
			if strings.HasPrefix(info.Backend, "UCX") && w.Lacking != "" && note == "" {
				note = e.World.HostName(r) + ": " + w.Lacking
			}
		}
		if info.Library != "" && e.World.LocalRank() == 0 {
			if removed, err := engines.SweepOld(); err != nil || len(removed) > 0 {
				e.World.Log().Info("looked for shared memory that earlier jobs have left", "files", removed, "reason", err)
			}
		}
	}
	return engine, note, err
}

// digestOf is the digest of a rank's variables: most jobs have the same at all ranks.
func digestOf(variables map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		fmt.Fprintf(h, "%q=%q\n", name, variables[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// keepVariables puts the variables of all ranks into the result. Those with the digest of rank 0 do not send them, and
// none does where all have it. All ranks call it, with the same digests.
func (e *Experiment) keepVariables(own map[string]string, digests []string) error {
	all := make([]map[string]string, len(digests))
	if slices.ContainsFunc(digests, func(d string) bool { return d != digests[0] }) {
		var mine map[string]string
		if r := e.World.Rank(); r == 0 || digests[r] != digests[0] {
			mine = own
		}
		var err error
		if all, err = spmd.GatherValue(e.World.All(), 0, mine); err != nil {
			return err
		}
	}
	if e.Doc != nil {
		all[0] = own
		e.Doc.Environment = result.EnvironmentOf(all)
	}
	return nil
}

// why says what has led to an engine, where nothing is to be remarked.
func why(choice, engine string) string {
	if choice == engine {
		return "asked for"
	}
	return "its library loads"
}

// oneChoice checks that all ranks ask for the same: each may have been started with another command line. The error
// names the ranks of each choice.
func oneChoice(what string, choices []string, hostOf func(rank int) string) error {
	var order []string
	ranks := map[string][]int{}
	for r, c := range choices {
		if ranks[c] == nil {
			order = append(order, c)
		}
		ranks[c] = append(ranks[c], r)
	}
	if len(order) < 2 {
		return nil
	}
	var parties []string
	for _, c := range order {
		var names []string
		for _, r := range ranks[c] {
			names = append(names, fmt.Sprintf("rank %d on %s", r, hostOf(r)))
		}
		parties = append(parties, fmt.Sprintf("%.80s (%s)", c, strings.Join(plaintext.First(names, 4, "%d more"), ", ")))
	}
	return fault.New(fault.Usage, "ranks ask for different %s: %s", what, strings.Join(parties, "; ")).
		WithHint("start all ranks with the same command line")
}
