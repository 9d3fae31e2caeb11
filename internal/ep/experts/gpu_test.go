package experts

import (
	"slices"
	"testing"
	"time"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// playOnGPU is play with both halves in the memory of a GPU.
func playOnGPU(t *testing.T, engine *traffictest.Damaged, s Spec, body func(p *Plane) error) []error {
	t.Helper()
	s.Mem = nixl.VRAM
	return traffictest.Worlds(t, s.Selection.Ranks, func(w *spmd.World) error {
		w.SetTimeout(5 * time.Minute)
		p, err := Open(w, engine, nixl.AgentConfig{Progress: "auto"}, s)
		if err != nil {
			return err
		}
		defer p.Close()
		return body(p)
	})
}

// What every rank sends arrives in the memory of the others' GPUs, and in its own, with each message in a descriptor
// or staged.
func TestGPUMemoryArrives(t *testing.T) {
	for i, s := range []Spec{
		spec(t, moe.Shape{Ranks: 4, Tokens: 12, Hidden: 256, Experts: 2, TopK: 3}, moe.FP8, moe.Routing{Family: "uniform"}, 0),
		spec(t, moe.Shape{Ranks: 3, Tokens: 24, Hidden: 384, Experts: 4, TopK: 4}, moe.BF16, moe.Routing{Family: "zipf", Exponent: 1.2, Masked: 9}, 2),
		shared(spec(t, moe.Shape{Ranks: 2, Tokens: 8, Hidden: 128, Experts: 2, TopK: 2}, moe.FP8, moe.Routing{Family: "uniform"}, 0), 1),
		spec(t, moe.Shape{Ranks: 1, Tokens: 5, Hidden: 128, Experts: 4, TopK: 4}, moe.FP8, moe.Routing{Family: "distinct"}, 0),
	} {
		for _, s.Direct = range []bool{true, false} {
			engine := traffictest.NewGPU()
			must.Do(t, playOnGPU(t, engine, s, playPairs(i))...)
			if engine.Copied() == 0 {
				t.Error("nothing was copied to or from GPU memory")
			}
		}
	}
}

// Iterations are transfers alone: however many there are, nothing is copied between the GPU and the host, and nothing
// is made, packed or summed.
func TestGPUIterationsAreTransfers(t *testing.T) {
	s := spec(t, moe.Shape{Ranks: 2, Tokens: 8, Hidden: 128, Experts: 2, TopK: 2}, moe.FP8, moe.Routing{Family: "uniform"}, 0)
	copies := func(n int, entry Entry) int64 {
		engine := traffictest.NewGPU()
		must.Do(t, playOnGPU(t, engine, s, func(p *Plane) error {
			if err := p.First(); err != nil {
				return err
			}
			f, err := p.Measure(EndToEnd, 0, n, entry, nil)
			if f != nil {
				sh := f.Shares
				if sh.Fill != 0 || sh.Stage != 0 || sh.Own != 0 || sh.Pack != 0 || sh.Reduce != 0 || !(sh.Wait > 0) || !(f.Bandwidth.Min > 0) {
					t.Errorf("%v: %+v, %+v", entry, f.Shares, f.Bandwidth)
				}
				if f.Bytes.Assignment != 2*8*(128+4+16+256) {
					t.Errorf("%v bytes by assignment", f.Bytes.Assignment)
				}
			}
			return err
		})...)
		return engine.Copied()
	}
	for _, entry := range []Entry{Steady, Fresh, Moving} {
		if few, many := copies(3, entry), copies(30, entry); few != many {
			t.Errorf("%v: %d copies for 3 iterations, %d for 30", entry, few, many)
		}
	}
}

// A byte that is damaged in a GPU's memory is found, and each sabotage.
func TestGPUDamage(t *testing.T) {
	s := spec(t, moe.Shape{Ranks: 3, Tokens: 16, Hidden: 256, Experts: 4, TopK: 3}, moe.FP8, moe.Routing{Family: "distinct", Seed: 4}, 0)
	var inDispatch, inCombine int64 // where rank 1 receives messages and rows of the first iterations
	must.Do(t, play(t, s, func(p *Plane) error {
		if p.me == 1 {
			inDispatch, inCombine = p.areas.slots[1], p.areas.places[1]
		}
		return nil
	})...)
	for at, want := range map[int64]string{inDispatch + 16 + 5: "dispatch to rank 1", inCombine + 5: "combine at rank 1"} {
		engine := traffictest.NewGPU()
		engine.Rank, engine.Buffer, engine.Flips = 1, 1, map[int64]byte{load.Guard + at: 0x40}
		errs := playOnGPU(t, engine, s, func(p *Plane) error {
			_, err := p.Verify(Options{})
			return err
		})
		must.Fail(t, errs[1], fault.Corrupt, want)
	}
	for _, name := range Sabotages() {
		errs := playOnGPU(t, traffictest.NewGPU(), s, func(p *Plane) error {
			_, err := p.Verify(Options{Sabotage: Sabotage(name), SkipArrived: true})
			return err
		})
		if fault.KindOf(errs[2]) != fault.Corrupt {
			t.Errorf("%s: %v", name, errs[2])
		}
	}
}

// Agents of the control plane register GPU memory, and a plan in which ranks die is played there.
func TestGPUMemoryOfOtherPlanes(t *testing.T) {
	engine := traffictest.NewGPU()
	c := Control{Test: Cycle, Rounds: 2, Ranks: 2, Send: 4096, Recv: 4096, Mem: nixl.VRAM}
	must.Do(t, traffictest.Worlds(t, 2, func(w *spmd.World) error {
		f, err := c.Play(w, engine, nixl.AgentConfig{Progress: "auto"})
		if w.Rank() == 0 && len(f) != int(phases) {
			t.Errorf("%d phases", len(f))
		}
		return err
	})...)
	e := Elastic{Warmup: 1, Iterations: 4, Patience: patience}
	var err error
	if e.Plan, err = ParsePlan("0-1; 0-3; 0-1,-2@combine,3; 0,3"); err != nil {
		t.Fatal(err)
	}
	e.Spec = spec(t, moe.Shape{Ranks: 4, Tokens: 8, Hidden: 128, Experts: 2, TopK: 4}, moe.FP8, moe.Routing{Family: "distinct"}, 0)
	e.Spec.Mem = nixl.VRAM
	must.Do(t, traffictest.Worlds(t, 4, func(w *spmd.World) error {
		w.SetTimeout(5 * time.Minute)
		list, err := e.Play(w, engine, nixl.AgentConfig{Progress: "auto"})
		for i, o := range list {
			if joined := []int{1, 2, 0, 0}[i]; o.Episodes[0].Joined != joined || o.Episodes[0].Messages == 0 {
				t.Errorf("phase %d: %+v, want %d joined", i+1, o.Episodes[0], joined)
			}
			if i >= 2 && !slices.Equal(o.Masked, []int{2}) {
				t.Errorf("phase %d: masked %v", i+1, o.Masked)
			}
		}
		return err
	})...)
	if engine.Copied() == 0 {
		t.Error("nothing was copied to or from GPU memory")
	}
}
