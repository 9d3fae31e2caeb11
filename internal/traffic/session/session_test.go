package session

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// try calls body at n ranks, each with a session, and returns their errors.
func try(t testing.TB, n int, body func(w *spmd.World, s *Session) error) []error {
	t.Helper()
	open := make([]*Session, n)
	errs := traffictest.Worlds(t, n, func(w *spmd.World) error {
		s, err := Open(w, new(traffictest.Engine), nixl.AgentConfig{}, 1)
		if err != nil {
			return err
		}
		open[w.Rank()] = s
		return body(w, s)
	})
	for _, s := range open {
		if s != nil {
			s.Close()
		}
	}
	return errs
}

func fromRows(t testing.TB, rows ...[]int64) *matrix.Matrix {
	t.Helper()
	m, err := matrix.FromRows(rows)
	must.Do(t, err)
	return m
}

// Buffers that do not fit are refused, with the numbers, before any is taken.
func TestMemoryCheck(t *testing.T) {
	m := fromRows(t, []int64{0, 3000, 0}, []int64{0, 0, 0}, []int64{0, 0, 0})
	try := func(available int64, failing error) []error {
		return try(t, 3, func(w *spmd.World, s *Session) error {
			if w.Rank() == 0 {
				s.available = func() (int64, error) { return available, failing }
			}
			_, err := s.Reserve([]load.Load{load.Pattern{Matrix: m, Shards: 1}})
			if err != nil && s.lanes[0].arenas[nixl.DRAM].send != nil {
				return fmt.Errorf("memory was taken all the same: %w", err)
			}
			return err
		})
	}
	if errs := try(3000+2*Guard, nil); errs[0] != nil || errs[1] != nil {
		t.Errorf("enough memory: %v", errs)
	}
	if errs := try(0, errors.New("no such file")); errs[0] != nil || errs[1] != nil {
		t.Errorf("unknown memory: %v", errs)
	}
	errs := try(2999+2*Guard, nil)
	const want = "the buffers of the 1 ranks on memory0 need 11.2 kB (11192 bytes), but only 11.2 kB of memory are available (11191 bytes)"
	if errs[0] == nil || errs[0].Error() != want || fault.KindOf(errs[0]) != fault.Resource || fault.HintOf(errs[0]) == "" {
		t.Errorf("too little memory: got %v, want %s", errs[0], want)
	}
}

// Whether loads fit into hosts and GPUs all ranks know alike; a GPU that does not say what is left has none.
func TestFits(t *testing.T) {
	m := fromRows(t, []int64{0, 0}, []int64{3000, 0})
	const need = 3000 + 2*Guard // at the receiver
	for _, c := range []struct {
		host, gpu int64
		mem       nixl.Mem
		want      bool
	}{
		{1 << 20, 0, nixl.DRAM, true}, {3000, 0, nixl.DRAM, false}, {1 << 20, 0, nixl.VRAM, false},
		{0, need * 11 / 10, nixl.VRAM, true}, {1 << 20, need*11/10 - 1, nixl.VRAM, false},
	} {
		for i, err := range traffictest.Worlds(t, 2, func(w *spmd.World) error {
			s, err := Open(w, &traffictest.Engine{VRAM: c.gpu}, nixl.AgentConfig{}, 1)
			if err != nil {
				return err
			}
			defer s.Close()
			s.available = func() (int64, error) { return 1 << 20, nil }
			if w.Rank() == 1 {
				s.available = func() (int64, error) { return c.host, nil }
			}
			got, err := s.Fits([]load.Load{load.Pattern{Matrix: m, Shards: 1, Mem: c.mem}})
			if err == nil && got != c.want {
				err = fmt.Errorf("%+v: got %v", c, got)
			}
			return err
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	}
}

func TestMemoryCheckOfAbsurdMatrices(t *testing.T) {
	const huge = 1<<62 - 1
	m := fromRows(t, []int64{huge})
	errs := try(t, 1, func(w *spmd.World, s *Session) error {
		_, err := s.Reserve([]load.Load{load.Pattern{Matrix: m, Shards: 9}})
		return err
	})
	if fault.KindOf(errs[0]) != fault.Resource || !strings.Contains(errs[0].Error(), "9223372036854775807 bytes") {
		t.Errorf("got %v, want a refusal with the number of bytes", errs[0])
	}
	if got := satAdd(huge, huge+100); got != 1<<63-1 {
		t.Errorf("satAdd overflows to %d", got)
	}
}

// Ranks that hold different loads are told so, whatever differs; before, rank 0's figures went into the result.
func TestRanksMustAgree(t *testing.T) {
	one, other := fromRows(t, []int64{0, 500}, []int64{0, 0}), fromRows(t, []int64{0, 1000}, []int64{0, 0})
	good := load.Pattern{Name: "p", Matrix: one, Shards: 1}
	for name, c := range map[string]struct {
		change func(p *load.Pattern)
		want   string
	}{
		"matrix": {func(p *load.Pattern) { p.Matrix = other }, "prepare: p (number 1) differs between ranks: rank 0 has pattern, "},
		"op":     {func(p *load.Pattern) { p.Op = nixl.Read }, "rank 1 has pattern, "},
		"shards": {func(p *load.Pattern) { p.Shards = 2 }, "differs between ranks"},
		"lane":   {func(p *load.Pattern) { p.Lane = 3 }, "differs between ranks"},
		"files":  {func(p *load.Pattern) { p.Storage = map[int]load.StorageOp{0: {Path: "x", FileSize: 1, ReadSize: 1}} }, "differs between ranks"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range try(t, 2, func(w *spmd.World, s *Session) error {
				p := good
				if w.Rank() == 1 {
					c.change(&p)
				}
				_, err := s.Reserve([]load.Load{p})
				return err
			}) {
				must.Fail(t, err, fault.Script, c.want)
			}
		})
	}
	for rank, err := range try(t, 2, func(w *spmd.World, s *Session) error {
		_, err := s.Reserve([]load.Load{good, good}[w.Rank():])
		return err
	}) {
		if err == nil || err.Error() != "prepare: rank 0 has 2 loads, rank 1 has 1" {
			t.Errorf("rank %d: got %v", rank, err)
		}
	}
}

func TestOpenRefusesDifferentEngines(t *testing.T) {
	errs := traffictest.Worlds(t, 3, func(w *spmd.World) error {
		s, err := Open(w, &named{version: fmt.Sprint(w.Rank() / 2)}, nixl.AgentConfig{}, 0)
		if err == nil {
			return s.Close()
		}
		return err
	})
	for _, err := range errs {
		must.Fail(t, err, fault.Engine, "rank 0 test 0 , rank 2 on memory2 test 1")
	}
}

// named is an engine that is known by its version only.
type named struct {
	traffictest.Engine
	version string
}

func (n *named) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	a, err := n.Engine.NewAgent(cfg)
	return namedAgent{a, n.version}, err
}

type namedAgent struct {
	nixl.Agent
	version string
}

func (a namedAgent) Info() nixl.Info { return nixl.Info{Name: "test", Version: a.version} }

// gpuEngine has agents that take host memory for that of a GPU, and notes for which agents that is.
type gpuEngine struct {
	traffictest.Engine
	vram *[]bool
}

type gpuAgent struct{ nixl.Agent }

func (e *gpuEngine) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	*e.vram = append(*e.vram, cfg.VRAM)
	a, err := e.Engine.NewAgent(cfg)
	return gpuAgent{a}, err
}

func (a gpuAgent) Alloc(_ nixl.Mem, size int64) (nixl.Buffer, error) {
	return a.Agent.Alloc(nixl.DRAM, size)
}

// Patterns in GPU memory have agents apart from those in host memory, which take turns with them on one lane and not on
// another.
func TestLanesOfGPUs(t *testing.T) {
	m := fromRows(t, []int64{0, 3000}, []int64{0, 0})
	for i, err := range traffictest.Worlds(t, 2, func(w *spmd.World) error {
		var vram []bool
		s, err := Open(w, &gpuEngine{vram: &vram}, nixl.AgentConfig{}, 1)
		if err != nil {
			return err
		}
		defer s.Close()
		var loads []load.Load
		for _, mem := range memories {
			for lane := range load.Lane(2) {
				loads = append(loads, load.Pattern{Matrix: m, Shards: 1, Mem: mem, Lane: lane})
			}
		}
		list, err := s.Reserve(loads)
		if err != nil {
			return err
		}
		var lanes []*Bound
		for _, r := range list {
			lanes = append(lanes, r.Lanes...)
		}
		if got := fmt.Sprint(vram); got != "[false false true true]" {
			return fmt.Errorf("agents for GPU memory: %s", got)
		}
		for k, b := range lanes {
			if want := load.Lane(k % 2); b.Number.Given() != want || b.Number.GPU() != (k > 1) {
				return fmt.Errorf("load %d is on lane %d", k, b.Number)
			}
			for l, other := range lanes {
				if (b.using == other.using) != (k%2 == l%2) || (b.agent == other.agent) != (k == l) {
					return fmt.Errorf("loads %d and %d: taking turns is %v, one agent is %v", k, l, b.using == other.using,
						b.agent == other.agent)
				}
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// slowly is an engine that takes long for large buffers, at one rank longer than at others, and gives small ones.
type slowly struct {
	traffictest.Engine
	takes time.Duration
}

func (e *slowly) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	a, err := e.Engine.NewAgent(cfg)
	return slowAgent{a, e.takes}, err
}

type slowAgent struct {
	nixl.Agent
	takes time.Duration
}

func (a slowAgent) Alloc(mem nixl.Mem, bytes int64) (nixl.Buffer, error) {
	const small = 1 << 20
	if bytes > small {
		time.Sleep(a.takes)
	}
	return a.Agent.Alloc(mem, min(bytes, small))
}

// A rank that takes longer to allocate than the others may wait does not fail the job. Their limit is the old one then.
func TestAllocatingIsNoWait(t *testing.T) {
	const limit = time.Second
	m := fromRows(t, []int64{0, 4 << 30}, []int64{0, 0})
	for r, err := range traffictest.Worlds(t, 2, func(w *spmd.World) error {
		s, err := Open(w, &slowly{takes: time.Duration(w.Rank()) * 3 * limit / 2}, nixl.AgentConfig{}, 1)
		if err != nil {
			return err
		}
		defer s.Close()
		s.available = func() (int64, error) { return math.MaxInt64, nil }
		w.SetTimeout(limit)
		if _, err = s.Reserve([]load.Load{load.Pattern{Matrix: m, Shards: 1}}); err == nil && w.Timeout() != limit {
			return fmt.Errorf("the limit is %v", w.Timeout())
		}
		return err
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
