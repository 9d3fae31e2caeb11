package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/nixl/shm"
	"perigee/spmd"
)

func TestRails(t *testing.T) {
	for in, want := range map[[2]string]int{
		{}: 2, {"1"}: 1, {"4", "MAX_RMA_RAILS=8"}: 4, {"", "A=1, MAX_RMA_RAILS=8"}: 8, {"many"}: 2, {"0"}: 2,
	} {
		if got := rails(in[0], in[1]); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}

func TestSlowest(t *testing.T) {
	of := func(speed float64, names ...string) map[string]float64 {
		all := map[string]float64{}
		for _, name := range names {
			all[name] = speed
		}
		return all
	}
	one := &reach{NICs: []string{"mlx5_0:1"}, Rate: 25e9, All: of(25e9, "mlx5_0:1", "mlx5_1:1"), Rails: 1}
	two := &reach{NICs: []string{"a", "b"}, Rate: 50e9, All: of(25e9, "a", "b", "c", "d"), Rails: 2}
	old := &reach{NICs: []string{"eth0"}, Rate: 1.25e9, All: of(1.25e9, "eth0"), Rails: 2}
	first := &reach{NICs: []string{"a"}, Rate: 25e9, All: of(25e9, "a"), Rails: 2}
	second := &reach{NICs: []string{"b"}, Rate: 25e9, All: of(25e9, "b"), Rails: 2}
	for _, c := range []struct {
		ranks []*reach
		want  result.Line
	}{
		{[]*reach{one, nil, one}, result.Line{Rate: 25e9, Host: 50e9, From: "mlx5_0:1, 200 Gb/s"}},
		{[]*reach{two, two}, result.Line{Rate: 50e9, Host: 100e9, From: "a + b, 400 Gb/s by at most 2 rails"}},
		// Ranks 0 and 4 share a host, and each has its own NIC; so have ranks 1 and 5.
		{[]*reach{first, first, nil, nil, second, second}, result.Line{Rate: 25e9, Host: 50e9, From: "a, 200 Gb/s"}},
		{[]*reach{two, old, one}, result.Line{Rate: 1.25e9, Host: 1.25e9, From: "eth0, 10 Gb/s at host1, the slowest of 3 hosts"}},
		{[]*reach{two, {Unknown: "no speed"}, one}, result.Line{From: "host1: no speed"}},
	} {
		got := slowest(c.ranks, func(rank int) int { return rank % 4 }, func(rank int) string { return fmt.Sprint("host", rank) })
		if *got != c.want {
			t.Errorf("got  %+v\nwant %+v", *got, c.want)
		}
	}
}

// What the user says is the line, whatever devices there are; thresholds against what will not be known are refused.
func TestFindLine(t *testing.T) {
	for _, c := range []struct {
		ranks     int
		given     float64
		ceiling   bool
		threshold string
		want      string // of the error
	}{
		{ranks: 2, given: 25e9, threshold: "pair_bw_gb_per_s.p50 > line"},
		{ranks: 1, given: 25e9, threshold: "pair_bw_gb_per_s.p50 > line", want: "the line is not known: all ranks are on one host"},
		{ranks: 1, given: 25e9, threshold: "pair_bw_gb_per_s.p50 > 3"},
		{ranks: 1, threshold: "pair_bw_gb_per_s.p50 > line", want: "the threshold pair_bw_gb_per_s.p50 > line: the line is not known: all ranks are on one host"},
		{ranks: 1, threshold: "pair_bw_gb_per_s.p50 > ceiling", want: "the ceiling is not measured"},
		{ranks: 1, ceiling: true, threshold: "pair_bw_gb_per_s.p50 > ceiling"},
		{ranks: 1, threshold: "pair_bw_gb_per_s.p50 > 3"},
	} {
		limit, err := metric.Parse(c.threshold)
		must.Do(t, err)
		errs := traffictest.Worlds(t, c.ranks, func(w *spmd.World) error {
			e := Begin(Config{World: w, Out: io.Discard, LineRate: c.given, Job: result.Invocation{Line: "200Gbit", Ceiling: c.ceiling}, Thresholds: []metric.Threshold{limit}})
			err := e.FindLine()
			l := &result.Line{Rate: 25e9, Host: 25e9, From: "--line 200Gbit", Given: true}
			if e.Doc != nil && c.given > 0 && c.ranks > 1 && *e.Doc.Line != *l {
				t.Errorf("%+v: got %+v", c, e.Doc.Line)
			}
			if c.given > 0 && c.ranks == 1 && (e.Doc.Line != nil || fmt.Sprint(e.Doc.Notes) != "[WARNING: --line 200Gbit is without effect: all ranks are on one host]") {
				t.Errorf("%+v: got %+v, %q", c, e.Doc.Line, e.Doc.Notes)
			}
			return err
		})
		if c.want == "" && errs[0] == nil {
			continue
		}
		if errs[0] == nil || c.want == "" || !strings.Contains(errs[0].Error(), c.want) || fault.KindOf(errs[0]) != fault.Usage || !strings.Contains(fault.HintOf(errs[0]), "--ceiling") {
			t.Errorf("%+v: %v", c, errs[0])
		}
	}
}

// Without a word of the user each host looks at its NICs: whatever they are, the result says so.
func TestLineOfThisMachine(t *testing.T) {
	for _, err := range traffictest.Worlds(t, 2, func(w *spmd.World) error {
		e := Begin(Config{World: w, Job: result.Invocation{NICMap: "none0:1"}})
		err := e.FindLine()
		if e.Doc != nil && !strings.HasSuffix(e.Doc.Line.From, "there is no NIC that is up and has an address") {
			t.Errorf("by --nic-map: %+v", e.Doc.Line)
		}
		e = Begin(Config{World: w})
		err = errors.Join(err, e.FindLine())
		if e.Doc != nil && (e.Doc.Line == nil || e.Doc.Line.From == "" || e.Doc.Line.Given || e.Doc.Line.Rate < 0) {
			t.Errorf("got %+v", e.Doc.Line)
		}
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
}

// broken is an engine whose transfers fail.
type brokenEngine struct{ traffictest.Engine }

type brokenAgent struct{ nixl.Agent }

type brokenBatch struct{ nixl.Batch }

func (e *brokenEngine) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	a, err := e.Engine.NewAgent(cfg)
	return brokenAgent{a}, err
}

func (a brokenAgent) NewBatch(list []nixl.Transfer) (nixl.Batch, error) {
	b, err := a.Agent.NewBatch(list)
	return brokenBatch{b}, err
}

func (brokenBatch) Run(nixl.Control, int, []nixl.Times) error { return errors.New("the cable is out") }

func descriptors(uses ...result.PathUse) (n int64) {
	for _, u := range uses {
		n += u.Count
	}
	return n
}

// What moves the ceiling is no part of the run's path and accounts.
func TestCeiling(t *testing.T) {
	for name, c := range map[string]struct {
		ranks int
		op    string // of the message of 1 MiB from rank 1 to 2; empty: nothing was moved by a pattern
		nixl.Engine
		want result.Ceiling
		note string
	}{
		"write":   {3, "WRITE", new(traffictest.Engine), result.Ceiling{Sender: 1, Receiver: 2, Op: "WRITE"}, ""},
		"read":    {3, "READ", new(traffictest.Engine), result.Ceiling{Sender: 1, Receiver: 2, Op: "READ"}, ""},
		"nothing": {2, "", new(traffictest.Engine), result.Ceiling{Sender: 0, Receiver: 1, Op: "WRITE"}, ""},
		"alone":   {1, "", new(traffictest.Engine), result.Ceiling{}, "there is one rank"},
		"broken":  {3, "READ", new(brokenEngine), result.Ceiling{}, "the ceiling is not known: "},
	} {
		t.Run(name, func(t *testing.T) {
			var d *result.Document
			var out bytes.Buffer
			var before int64 // what agents of this process have moved in other tests
			for r := range c.ranks {
				before += descriptors(gatherPaths([]*nixl.Path{new(new(shm.Engine).Path(session.AgentsOf(r)))}).Uses...)
			}
			errs := traffictest.Worlds(t, c.ranks, func(w *spmd.World) error {
				e := Begin(Config{World: w, Out: &out, Job: result.Invocation{Engine: "shm", Ceiling: true}, LineRate: 1e13, Command: []string{"perigee"},
					Scenario: result.Scenario{Name: "x", SHA256: strings.Repeat("0", 64), Options: map[string]any{}},
					Open:     func() (nixl.Engine, string, error) { return c.Engine, "", nil }, GPUs: func() ([]string, error) { return nil, nil }})
				if e.Doc != nil {
					d = e.Doc
					if c.op != "" {
						m := matrix.New(c.ranks)
						m.Set(1, 2, 1<<20)
						m.Set(0, 1, 1<<10)
						d.Patterns = []result.Pattern{{Matrix: d.AddMatrix(m, ""), Op: c.op, Mem: "dram", Shards: 1, Senders: 2}}
					}
				}
				if err := e.FindLine(); err != nil {
					return err
				}
				if _, err := e.Session(); err != nil {
					return err
				}
				return e.Observe()
			})
			must.Do(t, errors.Join(errs...))
			if c.note != "" {
				if d.Line.Ceiling != nil || len(d.Notes) == 0 || !strings.Contains(d.Notes[len(d.Notes)-1], c.note) {
					t.Errorf("got %+v, notes %q", d.Line.Ceiling, d.Notes)
				}
				return
			}
			got := *d.Line.Ceiling
			if got.Rate < 1e7 || got.Rate > 1e12 || got.Bytes < 64<<10 || got.Bytes > 64<<20 || got.Runs != ceilingRuns {
				t.Errorf("got %+v", got)
			}
			c.want.Mem, c.want.Bytes, c.want.Runs, c.want.Rate = "dram", got.Bytes, got.Runs, got.Rate
			if got != c.want || !strings.Contains(out.String(), "# ceiling: ") || !strings.Contains(out.String(), "% of the line)\n") {
				t.Errorf("got %+v\n%s", got, out.String())
			}
			if n := descriptors(d.Paths.Uses...); n != before || d.Accounts.Total.Plan != 0 {
				t.Errorf("the ceiling is in the path or the accounts of the run: %d descriptors, %v", n-before, d.Accounts)
			}
			if w := d.Network.Windows; w[len(w)-1].Phase != result.CeilingPhase {
				t.Errorf("windows %+v", w)
			}
			if err := resulttest.ValidateDocument(d); err != nil {
				t.Error(err)
			}
		})
	}
}
