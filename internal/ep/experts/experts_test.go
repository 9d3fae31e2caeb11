package experts

import (
	"fmt"
	"testing"
	"time"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// spec makes a data plane's description.
func spec(t testing.TB, shape moe.Shape, payload moe.Payload, r moe.Routing, redundant int) Spec {
	t.Helper()
	shape.Experts *= shape.Ranks // given for each rank
	s, err := moe.Route(shape, r)
	must.Do(t, err)
	p := moe.Contiguous(shape)
	if redundant > 0 {
		loads := make([]float64, shape.Experts)
		for i, n := range s.ExpertLoads() {
			loads[i] = float64(n)
		}
		perRank := shape.ExpertsPerRank() + redundant
		b, err := moe.Balance(loads, moe.Balancing{Replicas: shape.Ranks * perRank, Groups: 1, Nodes: 1, GPUs: shape.Ranks})
		must.Do(t, err)
		p = moe.NewPlacement(b.Logical, shape.Experts, perRank)
	}
	return Spec{Selection: s, Placement: p, Payload: payload, Seed: 3}
}

// play opens the data plane at all ranks of a world in this process.
func play(t *testing.T, s Spec, body func(p *Plane) error) []error {
	t.Helper()
	engine := &traffictest.Engine{}
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

// Whatever the routing, payload and placement, every message and every sum is right: before, and in what the
// free-running iterations leave behind.
func TestEveryRoutingArrives(t *testing.T) {
	m, err := moe.DistanceMatrix(4, 1<<20, 1)
	must.Do(t, err)
	shape := func(ranks, tokens, hidden, perRank, topk int) moe.Shape {
		return moe.Shape{Ranks: ranks, Tokens: tokens, Hidden: hidden, Experts: perRank, TopK: topk}
	}
	for i, test := range []struct {
		name string
		s    Spec
	}{
		{"uniform fp8", spec(t, shape(4, 12, 256, 2, 3), moe.FP8, moe.Routing{Family: "uniform"}, 0)},
		{"uniform bf16", spec(t, shape(4, 12, 256, 2, 3), moe.BF16, moe.Routing{Family: "uniform", Masked: 9}, 0)},
		{"all masked", spec(t, shape(3, 4, 128, 1, 2), moe.FP8, moe.Routing{Family: "distinct", Masked: 8}, 0)},
		{"one token", spec(t, shape(3, 1, 128, 2, 1), moe.FP8, moe.Routing{Family: "keyed", Seed: 67}, 0)},
		{"one rank", spec(t, shape(1, 5, 128, 4, 4), moe.FP8, moe.Routing{Family: "distinct"}, 0)},
		{"all to one", spec(t, shape(4, 16, 128, 4, 4), moe.FP8, moe.Routing{Family: "khot", Hot: 1, HotExperts: 4}, 0)},
		{"matrix", spec(t, shape(4, 24, 128, 8, 4), moe.FP8, moe.Routing{Family: "matrix", Matrix: m}, 0)},
		{"shared", shared(spec(t, shape(4, 12, 256, 2, 3), moe.FP8, moe.Routing{Family: "uniform", Masked: 9}, 0), 2)},
		{"balanced and shared", shared(spec(t, shape(3, 24, 128, 4, 4), moe.BF16, moe.Routing{Family: "zipf", Exponent: 1.2}, 2), 1)},
		{"balanced", spec(t, shape(4, 24, 384, 4, 4), moe.FP8, moe.Routing{Family: "zipf", Exponent: 1.2}, 2)},
	} {
		t.Run(test.name, func(t *testing.T) {
			must.Do(t, play(t, test.s, playPairs(i))...)
			test.s.Direct = true
			must.Do(t, play(t, test.s, playPairs(i+1))...)
		})
	}
}

func shared(s Spec, n int) Spec {
	s.Selection, s.Placement = moe.Share(s.Selection, s.Placement, n)
	s.Shared = n
	return s
}

// Shared experts count as no bytes.
func TestBytesOfSharedExperts(t *testing.T) {
	s := spec(t, moe.Shape{Ranks: 2, Tokens: 8, Hidden: 128, Experts: 2, TopK: 2}, moe.FP8, moe.Routing{Family: "uniform"}, 0)
	var bytes []Bases
	for _, s := range []Spec{s, shared(s, 2)} {
		must.Do(t, play(t, s, func(p *Plane) error {
			f, err := p.Measure(EndToEnd, 1, 3, Moving, nil)
			if f != nil {
				bytes = append(bytes, f.Bytes)
				if f.Bandwidth.Min <= 0 || f.Shares.Wait < 0 || f.Shares.Pack != 0 || f.Shares.Stage != 0 || f.Entry != "moving" {
					t.Errorf("%+v", f)
				}
			}
			return err
		})...)
	}
	bytes[0].Wire, bytes[1].Wire = 0, 0 // notices also have the counts of shared experts
	if bytes[0] != bytes[1] || bytes[0].Assignment != float64(2*8*(128+4+16+256)) {
		t.Errorf("%+v", bytes)
	}
}

// playPairs plays each mode once, and each way to enter an iteration once. Three turns one after the other have all pairs
// of the two.
func playPairs(turn int) func(p *Plane) error {
	return func(p *Plane) error {
		if _, err := p.Verify(Options{}); err != nil {
			return err
		}
		if err := p.First(); err != nil {
			return err
		}
		for i, mode := range []Mode{Dispatch, Combine, EndToEnd} {
			entry := []Entry{Steady, Fresh, Moving}[(i+turn)%3]
			log, err := p.Play(mode, 5, entry, true)
			if err != nil {
				return err
			}
			if len(log.Iterations) != 5 {
				return fmt.Errorf("%d iterations", len(log.Iterations))
			}
			if _, err := p.CheckState(mode); err != nil {
				return fmt.Errorf("%v, %v: %w", mode, entry, err)
			}
		}
		_, err := p.Verify(Options{})
		return err
	}
}

// Each sabotage is found by the check of what arrived and, on its own, by that of the result.
func TestSabotage(t *testing.T) {
	for _, payload := range []moe.Payload{moe.FP8, moe.BF16} {
		s := spec(t, moe.Shape{Ranks: 3, Tokens: 16, Hidden: 256, Experts: 4, TopK: 3}, payload, moe.Routing{Family: "distinct", Seed: 4}, 0)
		for _, name := range Sabotages() {
			for _, skip := range []bool{false, true} {
				errs := play(t, s, func(p *Plane) error {
					_, err := p.Verify(Options{Sabotage: Sabotage(name), SkipArrived: skip})
					return err
				})
				for rank, err := range errs {
					if err == nil {
						t.Errorf("%v, %s, skip %v: rank %d found nothing", payload, name, skip, rank)
					}
				}
				t.Logf("%v, %s, skip %v: %v", payload, name, skip, errs[2])
			}
		}
	}
}
