package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/play"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// selfCounting is an engine that counts bytes itself, as NIXL does on demand.
type selfCounting struct{ traffictest.Engine }

func (e *selfCounting) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	a, err := e.Engine.NewAgent(cfg)
	return countingAgent{a}, err
}

type countingAgent struct{ nixl.Agent }

func (a countingAgent) NewBatch(list []nixl.Transfer) (nixl.Batch, error) {
	b, err := a.Agent.NewBatch(list)
	return measuredBatch{b}, err
}

func (a countingAgent) PickBatch(list []nixl.Pick) (nixl.Batch, error) {
	b, err := a.Agent.PickBatch(list)
	return measuredBatch{b}, err
}

type measuredBatch struct{ nixl.Batch }

func (b measuredBatch) Measured() (int64, bool) { return b.Bytes(), true }

// Every way to play moves bytes, recorded or not: runs, warm-up, verification, posting, and lanes that are measured.
func TestTally(t *testing.T) {
	m, err := matrix.FromRows([][]int64{{7, 1000, 0}, {0, 0, 200}, {30, 0, 0}}) // 7 bytes to itself
	must.Do(t, err)
	want := [][]moved{ // of ranks; a host each
		{{"start", 1007, 1000, 2}, {"many", 6 * 1007, 6 * 1000, 12}, {"lanes", 14 * 64, 14 * 64, 14}},
		{{"start", 200, 200, 1}, {"many", 6 * 200, 6 * 200, 6}},
		{{"start", 30, 30, 1}, {"many", 6 * 30, 6 * 30, 6}},
	}
	engine := new(selfCounting)
	for rank, err := range traffictest.Worlds(t, 3, func(w *spmd.World) error {
		c := &tally{world: w}
		s, err := session.Open(w, c.counting(engine), nixl.AgentConfig{}, 1)
		if err != nil {
			return err
		}
		blocks := load.Blocks{Peers: [][]int{{1}, nil, nil}, Threads: 1, Block: 64, Batch: 1}
		plans, err := play.Prepare(s, []load.Load{load.Pattern{Matrix: m, Shards: 1}, blocks})
		if err != nil {
			return err
		}
		p := plans[0]
		if err := play.Verify(p); err != nil {
			return err
		}
		w.Phase("many")
		if err := errors.Join(p.Run(3, true), p.Run(2, false), p.Post(), p.Wait(true), w.All().Barrier()); err != nil {
			return err
		}
		w.Phase("lanes")
		for _, r := range []play.Repeat{
			{Iterations: 4, Warmup: 1}, {Iterations: 3, Depth: 2}, {Iterations: 2, Prepared: true}, {Iterations: 4, Recreate: true},
		} {
			if _, err := play.Measure(plans[1], r); err != nil {
				return err
			}
		}
		got, sum := c.phases(), int64(0)
		for _, m := range want[w.Rank()] {
			sum += m.Bytes
		}
		if diff := cmp.Diff(want[w.Rank()], got); diff != "" {
			return errors.New(diff)
		}
		// The library's count is that of batches which are prepared and of those which are gone.
		if l := c.settle(); l != (libraryCount{Bytes: sum}) || c.settle() != l {
			return fmt.Errorf("the library counts %+v, want %d", l, sum)
		}
		return errors.Join(w.All().Barrier(), s.Close())
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// A script may name any number of phases.
func TestTallyOfManyPhases(t *testing.T) {
	worlds, _ := spmd.NewInMemory(1)
	c := &tally{world: worlds[0]}
	a := &countedAgent{tally: c}
	c.agents = append(c.agents, a)
	for i := range 3 * mostWindows {
		worlds[0].Phase(fmt.Sprint(i))
		a.add(1, moved{Bytes: 1, Requests: 1})
	}
	list := c.phases()
	if last := list[len(list)-1]; len(list) != mostWindows+1 || last != (moved{laterPhases, 2 * mostWindows, 0, 2 * mostWindows}) {
		t.Errorf("%d phases, the last %+v", len(list), last)
	}
}

func said(pid, agent string, bytes, lost int64) agentCount {
	return agentCount{PID: pid, Agent: agent, Bytes: bytes, Lost: lost}
}

func countOf(n int64) *int64 { return &n }

func hostsOf(n int) *result.Document {
	d := &result.Document{}
	for i := range n {
		d.World.Hosts = append(d.World.Hosts, result.Host{Name: fmt.Sprint("host", i)})
	}
	return d
}

func TestAccountsOfExporters(t *testing.T) {
	ranks := func(exported ...agentCount) []rankCount {
		all := []rankCount{
			{Rank: 0, PID: "10", Agents: []string{"a"}, Exported: exported},
			{Rank: 1, PID: "11", Agents: []string{"a"}},
			{Rank: 2, PID: "10", Agents: []string{"c"}, Exported: []agentCount{said("10", "c", 5, 0)}}, // on the other host
		}
		for i := range all {
			all[i].Asked, all[i].Exporter, all[i].Engine, all[i].Counts = true, "prometheus_mp", "nixl", true
			all[i].Phases = []moved{{"start", 10, 0, 1}}
		}
		return all
	}
	host := func(rank int) int { return rank / 2 }
	const name = "NIXL's exporter prometheus_mp"
	refused := ranks()
	for i := range refused {
		refused[i].Exported = nil
	}
	silent := accountsOf(refused, host, hostsOf(2))
	if silent.Library != name+" says nothing of this job's agents" || silent.Total.Library != nil || silent.Missing != 3 {
		t.Errorf("%+v", silent)
	}
	refused[0].Trouble = "connection refused"
	off := ranks()
	off[1].Asked = false
	shm := ranks()
	shm[0].Engine, shm[0].Counts = "shm", false
	request := ranks()
	for i := range request {
		request[i].Exporter, request[i].Requests.Bytes = "", 10
	}
	unknown := append([]rankCount{}, request...)
	unknown[1].Requests.Unknown = true
	for i, c := range []struct {
		all         []rankCount
		library     string
		bytes, lost *int64
		missing     int
	}{
		{ranks(said("10", "a", 10, 0), said("11", "a", 7, 4), said("10", "c", 99, 0)), name, countOf(22), countOf(4), 0},
		// Another job's agents have other numbers of processes; what is there twice cannot be told apart.
		{ranks(said("10", "a", 10, 0), said("12", "a", 7, 4)), name, countOf(15), countOf(0), 1},
		{ranks(said("10", "a", 10, 0), said("10", "a", 7, 4)), name, countOf(5), countOf(0), 2},
		{refused, name + ": connection refused", nil, nil, 3},
		{off, "not asked: NIXL_TELEMETRY_ENABLE=y makes NIXL count, which costs time in each transfer", nil, nil, 0},
		{shm, "shm has no counters", nil, nil, 0},
		{request, "NIXL, for each request: the bytes of its last run, times its runs", countOf(30), nil, 0},
		{unknown, "NIXL does not say the bytes of every request", nil, nil, 0},
	} {
		a := accountsOf(c.all, host, hostsOf(2))
		got := []any{a.Library, a.Total.Library, a.Total.Lost, a.Missing, a.Total.Plan}
		if diff := cmp.Diff([]any{c.library, c.bytes, c.lost, c.missing, int64(30)}, got); diff != "" {
			t.Errorf("case %d: %s", i, diff)
		}
	}
}

func TestAccountsOfNICs(t *testing.T) {
	window := func(host int, phase string, nics ...result.NICWindow) result.NetworkWindow {
		return result.NetworkWindow{Host: host, Phase: phase, NICs: nics}
	}
	nic := func(name string, sent int64) result.NICWindow {
		return result.NICWindow{Name: name, Sent: sent, Received: 2 * sent}
	}
	for i, c := range []struct {
		doc            *result.Document
		windows        []result.NetworkWindow
		sent, received *int64
		words          string
	}{
		{hostsOf(2), nil, nil, nil, "not read"},
		{hostsOf(2), []result.NetworkWindow{window(0, "start", nic("eth0", 5)), window(1, "start", nic("eth0", 6)),
			window(0, "next", nic("eth0", 100)), window(1, "next", nic("eth0", 100))}, countOf(211), countOf(422),
			"counters of 2 hosts: all traffic, of other processes too"},
		{hostsOf(2), []result.NetworkWindow{window(0, "start", nic("eth0", 5)), window(1, "start")}, nil, nil,
			"host1 has no NIC that counts"},
		// RoCE: the port counts RDMA, the interface on it the rest.
		{hostsOf(1), []result.NetworkWindow{window(0, "start", nic("eth0", 5), nic("mlx5_0:1", 70))}, countOf(75), countOf(150),
			"counters of 1 host: all traffic, of other processes too"},
		{hostsOf(1), []result.NetworkWindow{{Phase: "start", NICs: []result.NICWindow{nic("eth0", 5)}, Note: "ib0 has gone"}},
			countOf(5), countOf(10), "counters of 1 host: all traffic, of other processes too; host0: ib0 has gone"},
	} {
		if c.windows != nil {
			c.doc.Network = &result.Network{Windows: c.windows}
		}
		a := accountsOf([]rankCount{{Engine: "shm", Phases: []moved{{"start", 10, 10, 1}}}}, func(int) int { return 0 }, c.doc)
		if diff := cmp.Diff([]any{c.sent, c.received, c.words}, []any{a.Total.Sent, a.Total.Received, a.NICs}); diff != "" {
			t.Errorf("case %d: %s", i, diff)
		}
		if c.sent != nil && i == 1 && *a.Phases[0].Sent != 11 {
			t.Errorf("the phase has %d bytes, want 11", *a.Phases[0].Sent)
		}
	}
}

// What is played before the first phase, and in a run without phases, is compared with what was watched of it.
func TestAccountsOfPhases(t *testing.T) {
	window := func(phase string, sent int64) result.NetworkWindow {
		return result.NetworkWindow{Phase: phase, NICs: []result.NICWindow{{Name: "eth0", Sent: sent}},
			TCP: map[string]int64{"retransmits": sent % 10}}
	}
	all := []rankCount{{Engine: "shm", Phases: []moved{{"start", 10, 10, 1}, {"run", 20, 20, 2}}}}
	for i, c := range []struct {
		windows    []result.NetworkWindow
		start, run *int64
		unwatched  int64
		again      [2]int64 // in all, in the phase run
	}{
		{[]result.NetworkWindow{window("start", 33)}, nil, nil, 0, [2]int64{3, 0}},
		{[]result.NetworkWindow{window("run", 21)}, nil, countOf(21), 10, [2]int64{1, 1}},
		{[]result.NetworkWindow{window("run", 21), window("idle", 0), window("run", 2)}, nil, countOf(23), 10, [2]int64{3, 3}},
		{[]result.NetworkWindow{window("run", 21), window(laterPhases, 5)}, nil, nil, 0, [2]int64{6, 0}},
	} {
		d := hostsOf(1)
		d.Network = &result.Network{Windows: c.windows}
		a := accountsOf(all, func(int) int { return 0 }, d)
		got := []any{a.Phases[0].Sent, a.Phases[1].Sent, a.Total.Unwatched, a.Total.Between, a.Total.Messages, a.Phases[1].Messages,
			[2]int64{a.Total.Resent, a.Phases[1].Resent}}
		if diff := cmp.Diff([]any{c.start, c.run, c.unwatched, int64(30), int64(3), int64(2), c.again}, got); diff != "" {
			t.Errorf("case %d: %s", i, diff)
		}
	}
}

// The line is printed where it says something, and the result has all in any case.
func TestAccountIsPrinted(t *testing.T) {
	for _, between := range []int64{0, 10} {
		var out bytes.Buffer
		e := measured("")
		e.Out = &out
		e.account([]rankCount{{Engine: "shm", Phases: []moved{{"start", 10, between, 1}}}})
		if want := between > 0; strings.HasPrefix(out.String(), "# accounts: plan 10 B") != want || e.Doc.Accounts.Total.Plan != 10 {
			t.Errorf("%d bytes between hosts: %q, %+v", between, out.String(), e.Doc.Accounts)
		}
	}
}
