package experiment

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/spmd"
)

// Counts of ranks are added up; a rank that lists a way twice is one rank. What some do not know is said with their number.
func TestGatherPaths(t *testing.T) {
	put := nixl.PathUse{Op: "WRITE", Local: "dram", Remote: "dram", Reach: "network", Transport: "rc_mlx5", Device: "mlx5_0:1",
		How: "zero-copy", Count: 10}
	get := put
	get.Op, get.Count, get.MaxBytes = "READ", 100, 8192
	lanes := []nixl.PathLanes{{Reach: "network", Lanes: "rma(rc_mlx5/mlx5_0:1)"}}
	one := &nixl.Path{Source: "UCX 1.23.0", Uses: []nixl.PathUse{put, get, put}, Lanes: append(lanes, lanes...)}
	two := &nixl.Path{Source: "UCX 1.23.0", Uses: []nixl.PathUse{put}, Lanes: lanes}
	lost := &nixl.Path{Source: "UCX", Unknown: "lost"}
	got := gatherPaths([]*nixl.Path{one, two, lost, nil})
	want := &result.Paths{Source: "UCX 1.23.0", Unknown: "at 1 of 4 ranks: lost", Uses: []result.PathUse{
		{Op: "READ", Local: "dram", Remote: "dram", Reach: "network", Transport: "rc_mlx5", Device: "mlx5_0:1",
			How: "zero-copy", MaxBytes: 8192, Count: 100, Ranks: 1},
		{Op: "WRITE", Local: "dram", Remote: "dram", Reach: "network", Transport: "rc_mlx5", Device: "mlx5_0:1",
			How: "zero-copy", Count: 30, Ranks: 2},
	}, Lanes: []result.PathLanes{{Reach: "network", Lanes: "rma(rc_mlx5/mlx5_0:1)", Ranks: 2}}}
	must.Equal(t, want, got)
	if got := gatherPaths([]*nixl.Path{nil, nil}); got != nil {
		t.Errorf("no rank says anything: %+v", got)
	}
	if got := gatherPaths([]*nixl.Path{lost, lost}); got.Unknown != "lost" || got.Source != "UCX" {
		t.Errorf("no rank knows: %+v", got)
	}
}

// ending is an engine whose agents say what a test wants of their path, and end as it wants.
type ending struct {
	nixl.Engine
	path nixl.Path
	end  func() error
}

type endingAgent struct {
	nixl.Agent
	of ending
}

func (e ending) Info() nixl.Info {
	return nixl.Info{Name: "nixl", Version: "1", Backend: "FAKE", Library: "fake.so"}
}
func (e ending) NewAgent(nixl.AgentConfig) (nixl.Agent, error) { return endingAgent{of: e}, nil }
func (a endingAgent) Info() nixl.Info                          { return a.of.Info() }
func (a endingAgent) Close() error                             { return a.of.end() }
func (e ending) Path(string) nixl.Path                         { return e.path }

// A library that crashes or hangs in its end costs nothing of what was measured: that is in the file by then. An error
// of the end is reported, and the result is complete all the same.
func TestSavedBeforeTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	e := measured(path)
	var out bytes.Buffer
	e.Out = &out
	e.saved.last = e.Doc.Started // a checkpoint of a moment ago
	saved := ""
	refused := errors.New("it does not end")
	engine := ending{path: nixl.Path{Source: "FAKE", Unknown: "a reason"}, end: func() error {
		d, err := result.Read(path)
		must.Do(t, err)
		saved = d.Status
		return refused
	}}
	e.Open = func() (nixl.Engine, string, error) { return engine, "", nil }
	if _, err := e.Session(); err != nil {
		t.Fatal(err)
	}
	if err := e.Observe(); !errors.Is(err, refused) || saved != result.Partial {
		t.Errorf("Observe: %v; there was a result of the status %q at the end of the library", err, saved)
	}
	must.Do(t, e.Finish())
	d, err := result.Read(path)
	if err != nil || d.Status != result.Complete || d.Paths == nil || d.Paths.Unknown != "a reason" {
		t.Errorf("%v, %+v", err, d)
	}
	if !strings.Contains(out.String(), "# path: unknown: a reason\n") {
		t.Errorf("printed %q", out.String())
	}
}

// A job that is ended keeps what rank 0 knows of its host and its bytes, and says how many ranks are missing.
func TestObservedEarly(t *testing.T) {
	worlds, _ := spmd.NewInMemory(2)
	sent := int64(100)
	path := filepath.Join(t.TempDir(), "r.json")
	e := Begin(Config{World: worlds[0], Out: &bytes.Buffer{}, File: path, Network: func() device.Counters { return port(sent, 0, 0) }})
	put := nixl.PathUse{Op: "WRITE", Local: "dram", Remote: "dram", Reach: "network", Transport: "rc", Count: 7}
	e.engine = ending{path: nixl.Path{Source: "FAKE", Uses: []nixl.PathUse{put}}}
	e.BeginPhase("workload")
	sent = 140
	e.Save(fault.New(fault.Interrupt, "ended by signal: interrupt"), &bytes.Buffer{})
	d, err := result.Read(path)
	if err != nil || d.Paths == nil || d.Network == nil || len(d.Network.Windows) != 2 || d.Accounts != nil {
		t.Fatalf("%v, %+v", err, d)
	}
	want := []string{"WRITE dram-dram rc  100 %", "unknown: at 1 of 2 ranks: the job ended before they said it"}
	must.Equal(t, want, d.Paths.Lines())
	here, there := d.Network.Windows[0], d.Network.Windows[1]
	if here.Host != 0 || here.Phase != "workload" || here.Note != "" || here.NICs[0].Sent != 40 {
		t.Errorf("the host of rank 0: %+v", here)
	}
	if there.Host != 1 || there.Phase != "workload" || there.Note != "not read: the job ended early" || there.NICs != nil {
		t.Errorf("the other host: %+v", there)
	}
}

// A threshold on the path is refused before anything runs where the engine cannot say it.
func TestPathThresholdRefused(t *testing.T) {
	limit, err := metric.ReadThreshold(`path == "rc"`, nil)
	must.Do(t, err)
	const hint = "unset UCX_LOG_LEVEL"
	for why, want := range map[string]fault.Kind{"": 0, "the plugin says nothing": fault.Usage} {
		worlds, _ := spmd.NewInMemory(1)
		e := Begin(Config{World: worlds[0], Out: &bytes.Buffer{}, Thresholds: []metric.Threshold{limit}})
		e.Open = func() (nixl.Engine, string, error) {
			return ending{path: nixl.Path{Source: "X", Unknown: why, Hint: hint}, end: func() error { return nil }}, "", nil
		}
		_, err := e.Session()
		if (err == nil) != (want == 0) || err != nil && (fault.KindOf(err) != want || !strings.Contains(err.Error(), why)) {
			t.Errorf("%q: got %v", why, err)
		}
		if err != nil && fault.HintOf(err) != hint {
			t.Errorf("the hint is %q", fault.HintOf(err))
		}
	}
}
