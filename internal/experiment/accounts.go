package experiment

import (
	"errors"
	"io"
	"os"
	"slices"
	"strconv"

	"perigee/internal/kit/cli"
	"perigee/internal/result"
	"perigee/nixl/capi"
	"perigee/spmd"
)

// rankCount is what a rank, or the first one of its host, knows of the bytes of a run.
type rankCount struct {
	Rank     int
	PID      string
	Phases   []moved
	Control  int64
	Engine   string       // its name
	Counts   bool         // it could count
	Asked    bool         // the library counts
	Exporter string       // of the library, where perigee can read it
	Agents   []string     // that have moved bytes and must be in the exporter
	Requests libraryCount // what the library says of each request
	Exported []agentCount // of all agents of the host, read by its first rank
	Trouble  string       // why Exported is not known
}

type agentCount = capi.AgentCount

// countBytes takes all counts at this rank before they end. Where the user has NIXL export its counters,
// it waits for the exporter, and so does each agent that ends.
func (e *Experiment) countBytes() rankCount {
	w := e.World
	c := rankCount{Rank: w.Rank(), PID: strconv.Itoa(os.Getpid()), Phases: e.tally.phases(), Control: w.Wire().Bytes,
		Engine: e.engine.Info().Name, Counts: e.engine.Info().Can.Counts}
	t := capi.TelemetryOf(os.Getenv)
	if c.Asked = t.On && c.Counts; !c.Asked {
		return c
	}
	c.Requests = e.tally.settle()
	if t.Address == "" {
		return c
	}
	c.Exporter, c.Agents, e.tally.closing = t.Exporter, e.tally.exported(), nil
	t.Flush()
	if w.LeadsHost() {
		var err error
		if c.Exported, err = t.Counts(w.Context()); err != nil {
			c.Trouble = err.Error()
		}
	}
	return c
}

// gatherCounts returns the counts of all ranks at rank 0. All ranks call it; none ends its agents before the
// exporters have been read.
func (e *Experiment) gatherCounts() ([]rankCount, error) {
	all, err := spmd.GatherValue(e.World.All(), 0, e.countBytes())
	return all, errors.Join(err, e.World.All().Barrier())
}

// account puts the three accounts of the bytes into the result and prints them where they say something, at rank 0.
func (e *Experiment) account(all []rankCount) {
	if e.Doc == nil || len(all) == 0 {
		return
	}
	a := accountsOf(all, e.World.HostOf, e.Doc)
	e.Doc.Accounts = a
	if a.Speaks() {
		io.WriteString(e.Out, Comment("accounts: "+a.String()))
	}
}

// accountsOf compares the counts of ranks with those of the hosts' NICs in the result.
func accountsOf(all []rankCount, hostOf func(rank int) int, d *result.Document) *result.Accounts {
	a := &result.Accounts{}
	var phases []moved
	for _, c := range all {
		a.Control += c.Control
		for _, m := range c.Phases {
			phases = addPhase(phases, m)
			a.Total.Plan += m.Bytes
			a.Total.Between += m.Between
			a.Total.Messages += m.Requests
		}
	}
	libraryAccount(a, all, hostOf)
	nics := nicSums{hosts: d.World.Hosts}
	if d.Network != nil {
		nics.windows = d.Network.Windows
	}
	a.NICs = nics.words()
	nics.sum(&a.Total, func(string) bool { return true })
	for _, m := range phases {
		p := result.Account{Phase: m.Phase, Plan: m.Bytes, Between: m.Between, Messages: m.Requests}
		switch want, watched := nics.of(m.Phase); {
		case nics.shared(len(phases)):
		case watched:
			nics.sum(&p, want)
		default:
			p.Unwatched = m.Between
			a.Total.Unwatched += m.Between
		}
		a.Phases = append(a.Phases, p)
	}
	a.Judge()
	return a
}

// libraryAccount fills in what the library counts of all ranks.
func libraryAccount(a *result.Accounts, all []rankCount, hostOf func(rank int) int) {
	asked, exported := true, true
	var bytes int64
	unknown := false
	for _, c := range all {
		asked, exported = asked && c.Asked, exported && c.Exporter != ""
		bytes += c.Requests.Bytes
		unknown = unknown || c.Requests.Unknown
	}
	switch {
	case !all[0].Counts:
		a.Library = all[0].Engine + " has no counters"
	case !asked:
		a.Library = "not asked: NIXL_TELEMETRY_ENABLE=y makes NIXL count, which costs time in each transfer"
	case exported:
		exporterAccount(a, all, hostOf)
	case unknown:
		a.Library = "NIXL does not say the bytes of every request"
	default:
		a.Library = "NIXL, for each request: the bytes of its last run, times its runs"
		a.Total.Library = &bytes
	}
}

// exporterAccount adds up what the exporters of all hosts say of this job's agents. What an exporter says twice of an
// agent, as of an earlier job's in another container, counts as missing.
func exporterAccount(a *result.Accounts, all []rankCount, hostOf func(rank int) int) {
	type agent struct {
		host      int
		pid, name string
	}
	said := map[agent][]agentCount{}
	var trouble []string
	for _, c := range all {
		for _, x := range c.Exported {
			key := agent{hostOf(c.Rank), x.PID, x.Agent}
			said[key] = append(said[key], x)
		}
		if c.Trouble != "" {
			trouble = append(trouble, c.Trouble)
		}
	}
	var bytes, lost int64
	found := 0
	for _, c := range all {
		for _, name := range c.Agents {
			x := said[agent{hostOf(c.Rank), c.PID, name}]
			if len(x) != 1 {
				a.Missing++
				continue
			}
			found++
			bytes, lost = bytes+x[0].Bytes, lost+x[0].Lost
		}
	}
	a.Library = "NIXL's exporter " + all[0].Exporter
	if len(trouble) > 0 {
		a.Library += ": " + trouble[0]
	}
	if found > 0 {
		a.Total.Library, a.Total.Lost = &bytes, &lost
	} else if a.Missing > 0 && len(trouble) == 0 {
		a.Library += " says nothing of this job's agents"
	}
}

// nicSums adds up the NICs' counters in the result.
type nicSums struct {
	hosts   []result.Host
	windows []result.NetworkWindow
}

// sum fills in what the NICs of all hosts have sent and received in the windows that it wants, and what TCP has sent
// again; nothing where a host counts nothing in them.
func (n nicSums) sum(a *result.Account, want func(phase string) bool) {
	var out, in, again int64
	counting := map[int]bool{}
	for _, w := range n.windows {
		if !want(w.Phase) {
			continue
		}
		again += w.TCP["retransmits"]
		for _, nic := range w.NICs {
			out, in, counting[w.Host] = out+nic.Sent, in+nic.Received, true
		}
	}
	if len(counting) == len(n.hosts) {
		a.Sent, a.Received, a.Resent = &out, &in, again
	}
}

// of returns what is wanted of a phase of the plan, and whether there are windows of it. A run without phases has one
// window; where a run has phases, what comes before them has none.
func (n nicSums) of(phase string) (want func(phase string) bool, watched bool) {
	want = func(window string) bool { return window == phase || n.whole() }
	return want, slices.ContainsFunc(n.windows, func(w result.NetworkWindow) bool { return want(w.Phase) })
}

// whole reports whether a run has no phases, so that one window of each host has all of it.
func (n nicSums) whole() bool {
	return !slices.ContainsFunc(n.windows, func(w result.NetworkWindow) bool { return w.Phase != result.FirstPhase })
}

// shared reports whether so many phases have a window in common: that of a whole run whose phases had none,
// or the last one where there were too many.
func (n nicSums) shared(phases int) bool {
	later := func(w result.NetworkWindow) bool { return w.Phase == laterPhases }
	return slices.ContainsFunc(n.windows, later) || n.windows != nil && n.whole() && phases > 1
}

// words say who counts for the NICs, or which host does not, and what the counters lack.
func (n nicSums) words() string {
	if n.windows == nil {
		return "not read"
	}
	text := "counters of " + cli.Count(len(n.hosts), "host") + ": all traffic, of other processes too"
	for h, host := range n.hosts {
		counts := func(w result.NetworkWindow) bool { return w.Host == h && len(w.NICs) > 0 }
		if !slices.ContainsFunc(n.windows, counts) {
			return host.Name + " has no NIC that counts"
		}
	}
	for _, w := range n.windows {
		if w.Note != "" {
			return text + "; " + n.hosts[w.Host].Name + ": " + w.Note
		}
	}
	return text
}
