package replay

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
	"perigee/internal/model"
	"perigee/internal/trace"
	"perigee/internal/trace/blockcache"
	"perigee/internal/traffic/load"
	"perigee/tools/matgen"
)

// tps are the tensor parallelisms that are tried.
var tps = []int{1, 2, 4, 8, 16}

// workersOf are the workers of a cache that can be cut so, or false.
func workersOf(c *model.Cache, a, b int) (prefill, decode model.Workers, ok bool) {
	prefill, decode = model.Workers{N: 2, TP: a}, model.Workers{N: 3, TP: b}
	o := Options{Model: c, Prefill: prefill, Decode: decode}
	return prefill, decode, o.checkWorkers() == nil
}

// sums adds up the parts of all transfers by request, and counts their descriptors.
func sums(t *testing.T, s *Schedule) (bytes, descriptors map[int]int64) {
	t.Helper()
	bytes, descriptors = map[int]int64{}, map[int]int64{}
	for i, x := range s.Transfers {
		r := s.Requests[x.Request]
		seen := map[[2]int]bool{}
		for _, p := range s.Parts(nil, i) {
			from, to := p.From-r.Prefill*s.Prefill.TP, p.To-s.Prefill.Ranks()-r.Decode*s.Decode.TP
			if from < 0 || from >= s.Prefill.TP || to < 0 || to >= s.Decode.TP || seen[[2]int{from, to}] ||
				from/max(1, s.Prefill.TP/s.Decode.TP) != to/max(1, s.Decode.TP/s.Prefill.TP) {
				t.Fatalf("%s of %s to %s: part from %d to %d", s.Model.Model.Name, s.Prefill, s.Decode, p.From, p.To)
			}
			seen[[2]int{from, to}] = true
			for _, run := range p.Runs {
				if run.Count < 1 || run.Bytes < 1 {
					t.Fatalf("got a run %+v", run)
				}
				descriptors[x.Request] += run.Count
			}
			bytes[x.Request] += p.Bytes()
		}
	}
	return bytes, descriptors
}

// Every byte of a cache moves once, or as often as ranks hold it: of all shipped models, for all pairs of tensor
// parallelisms, whole or in runs of layers. Scaled, the sum is right within a byte a descriptor, and the descriptors stay.
func TestEveryByteOnce(t *testing.T) {
	tr := traceOf(t, line(0, 5001), line(1, 1), line(2, 131), line(3, 20000))
	for _, name := range model.Names() {
		c := cacheOf(t, name, "bf16")
		for _, a := range tps {
			for _, b := range tps {
				o := options(c)
				var ok bool
				if o.Prefill, o.Decode, ok = workersOf(c, a, b); ok {
					checkEveryByte(t, tr, o)
					o.Replicas = model.ReplicasSplit
					checkEveryByte(t, tr, o)
				}
			}
		}
	}
}

func checkEveryByte(t *testing.T, tr *trace.Trace, o Options) {
	t.Helper()
	whole := mustMake(t, tr, o)
	bytes, descriptors := sums(t, whole)
	for i, r := range whole.Requests {
		kv, state, err := o.Model.Bytes(r.Input)
		want := kv + state
		if o.Replicas != model.ReplicasSplit {
			rank, held := o.Model.Rank(int64(o.Decode.TP)), int64(0) // what a rank holds, of heads that divide
			kv, held, err = rank.Bytes(r.Input)
			want = (kv + held) * int64(o.Decode.TP)
		}
		if err != nil || r.Bytes != want || bytes[i] != r.Bytes {
			t.Fatalf("%s of %s to %s, %s: %d tokens are %d bytes, their parts %d, want %d", o.Model.Model.Name, o.Prefill, o.Decode,
				o.Replicas, r.Input, r.Bytes, bytes[i], want)
		}
	}
	o.Scale = 0.001
	scaled := mustMake(t, tr, o)
	small, same := sums(t, scaled)
	for i, r := range scaled.Requests {
		want := float64(whole.Requests[i].Bytes) * o.Scale
		if small[i] != r.Bytes || float64(r.Bytes) < want-float64(same[i]) || float64(r.Bytes) > want+float64(same[i]) ||
			same[i] != descriptors[i] {
			t.Fatalf("%s of %s to %s, scaled: %d descriptors of %d bytes, parts %d, want %d of %v", o.Model.Model.Name,
				o.Prefill, o.Decode, same[i], r.Bytes, small[i], descriptors[i], want)
		}
	}
	o.Scale, o.FLOPS, o.LayerRuns = 1, 1e15, int(min(o.Model.Model.Layers, 7))
	runs := mustMake(t, tr, o)
	if bytes, _ = sums(t, runs); runs.Bytes != whole.Bytes || len(bytes) != len(whole.Requests) {
		t.Fatalf("%s in %d runs of layers: %d bytes of %d requests, want %d of %d", o.Model.Model.Name, o.LayerRuns, runs.Bytes,
			len(bytes), whole.Bytes, len(whole.Requests))
	}
	for i, r := range whole.Requests {
		if bytes[i] != r.Bytes {
			t.Fatalf("%s in %d runs of layers: request %d has %d bytes, want %d", o.Model.Model.Name, o.LayerRuns, i, bytes[i],
				r.Bytes)
		}
	}
}

// Pages are as many and as large as the model says.
func TestEveryPageOnce(t *testing.T) {
	tr := traceOf(t, line(0, 5001), line(1, 1), line(2, 131))
	for _, name := range model.Names() {
		for _, page := range []int64{16, 256} {
			o := options(pagedOf(t, name, page))
			o.Replicas = model.ReplicasSplit
			paged := o.Model
			var want []int64
			for _, r := range tr.Requests {
				var sum int64
				for i, g := range paged.Model.Groups {
					count, bytes := paged.Blocks(i, r.Input)
					sum += count * bytes * int64(len(g.Layers))
				}
				want = append(want, sum)
			}
			for _, tp := range tps {
				o.Prefill.TP, o.Decode.TP = tp, tp
				if o.checkWorkers() != nil {
					continue
				}
				s := mustMake(t, tr, o)
				bytes, _ := sums(t, s)
				for i, r := range s.Requests {
					if r.Bytes != want[r.Index] || bytes[i] != r.Bytes {
						t.Errorf("%s, pages of %d at TP %d: %d tokens are %d bytes, parts %d, want %d", name, page, tp, r.Input, r.Bytes,
							bytes[i], want[r.Index])
					}
				}
			}
		}
	}
}

// Runs of contiguous pages carry the same bytes in as many descriptors as there are runs in each layer, also of what the
// decode worker lacks, scaled, and where the engine is given them.
func TestRunsOfPages(t *testing.T) {
	tr := traceOf(t, line(0, 5001), line(1, 1), line(2, 131), line(3, 512))
	for _, name := range model.Names() {
		o := options(pagedOf(t, name, 16))
		o.Prefill.TP, o.Decode.TP = 1, 1
		single := mustMake(t, tr, o)
		for _, run := range []int64{2, 7, 1000} {
			o.RunLength = run
			s := mustMake(t, tr, o)
			bytes, descriptors := sums(t, s)
			for i, r := range s.Requests {
				var want int64
				for group, g := range o.Model.Model.Groups {
					pages, each := o.Model.Blocks(group, r.Input)
					for _, l := range s.geometry.move.Lots(g.Keep, each, 1) {
						if pages > 0 && l.Bytes > 0 {
							want += (pages + run - 1) / run * int64(len(g.Layers))
						}
					}
				}
				if descriptors[i] != want || r.Bytes != single.Requests[i].Bytes || bytes[i] != r.Bytes {
					t.Errorf("%s, runs of %d, %d tokens: %d descriptors of %d bytes, want %d of %d", name, run, r.Input, descriptors[i],
						r.Bytes, want, single.Requests[i].Bytes)
				}
			}
			posted, err := load.NewSchedule(s.Load(), s.Prefill.Ranks()+s.Decode.Ranks())
			must.Do(t, err)
			var all int64
			for rank := range s.Prefill.Ranks() + s.Decode.Ranks() {
				for _, x := range posted.Transfers(rank, 0) {
					all += int64(len(x.LocalAt))
				}
			}
			for i := range s.Requests {
				all -= descriptors[i]
			}
			if all != 0 {
				t.Errorf("%s, runs of %d: the engine gets %d descriptors more", name, run, all)
			}
		}
	}
}

// Pages of a miss and those before it are all pages.
func TestPagesOfMiss(t *testing.T) {
	for _, name := range model.Names() {
		c := pagedOf(t, name, 64)
		for i, g := range c.Model.Groups {
			all, _ := c.Blocks(i, 5001)
			for from := int64(0); from < 5001; from += c.Block {
				n, _ := c.BlocksFrom(i, from, 5001)
				early, _ := c.Blocks(i, from)
				switch {
				case g.State.Any() || g.Fixed > 0:
					early = 0
				case g.Last > 0: // what a window has kept is not known of the pages before it
					if n > all || n < all-early {
						t.Errorf("%s, %s: from %d %d pages of %d", name, g.Kind, from, n, all)
					}
					continue
				}
				if n+early != all {
					t.Errorf("%s, %s: from %d %d pages, before %d, of all %d", name, g.Kind, from, n, early, all)
				}
			}
		}
	}
}

// The messages of a request are those of matgen's matrix, scaled or not, to a byte a group of layers: matgen scales all
// that is shared out alike together. Of states it makes a matrix apart, whose rounding is its own.
func TestAgreesWithMatgen(t *testing.T) {
	const tokens = 12347
	for _, name := range model.Names() {
		c := cacheOf(t, name, "bf16")
		for _, a := range []int{1, 4, 16} {
			for _, b := range []int{1, 4, 16} {
				prefill, decode, ok := workersOf(c, a, b)
				if !ok {
					continue
				}
				for _, scale := range []float64{1, 0.3} {
					o := Options{Model: c, Prefill: prefill, Decode: decode, SpeedUp: 1, Scale: scale}
					want, matrices := cells(t, o, name, tokens)
					s := mustMake(t, traceOf(t, line(0, tokens)), o)
					parts := s.Parts(nil, 0)
					for _, p := range parts {
						if off := p.Bytes() - want[[2]int{p.From, p.To}]; max(off, -off) >= matrices+int64(len(c.Model.Groups)) {
							t.Fatalf("%s of %s to %s, scale %v: from %d to %d %d bytes, %d more than matgen", name, prefill, decode, scale,
								p.From, p.To, p.Bytes(), off)
						}
					}
					if len(parts) != len(want) {
						t.Fatalf("%s of %s to %s: %d messages, matgen has %d", name, prefill, decode, len(parts), len(want))
					}
				}
			}
		}
	}
}

// cells are the messages of matgen's matrices of a request, by their ranks, and how many matrices there are.
func cells(t *testing.T, o Options, name string, tokens int) (bytes map[[2]int]int64, matrices int64) {
	t.Helper()
	m := matgen.DefaultOptions()
	m.Model, m.KVCacheDType, m.Scale, m.MinISL, m.MaxISL, m.PPN = name, "bf16", o.Scale, new(int64(1)), new(int64(1<<30)), 1
	m.PrefillTP, m.DecodeTP, m.NumPrefillNodes, m.NumDecodeNodes = o.Prefill.TP, o.Decode.TP, o.Prefill.Ranks(), o.Decode.Ranks()
	w, err := matgen.Plan(m, matgen.Inputs{Draws: []matgen.Draw{{Tokens: float64(tokens)}}})
	must.Do(t, err)
	bytes = map[[2]int]int64{}
	for _, p := range w.Patterns {
		for _, c := range w.Cells(p) {
			bytes[[2]int{c.From, c.To}] += c.Bytes
		}
	}
	return bytes, int64(len(w.Patterns))
}

// What an index finds in the caches of all workers is what each cache finds.
func TestLook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.SampledFrom([]int{0, 3, 8}).Draw(t, "capacity")
		s := newSide(4, true, true, capacity)
		caches := make([]*blockcache.Cache, len(s.workers))
		for i := range caches {
			caches[i] = blockcache.New(capacity)
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 40 {
			var ids []uint64
			for k := range rng.IntN(6) {
				ids = append(ids, uint64(10*k+rng.IntN(2)))
			}
			s.look(ids)
			for i, c := range caches {
				if got, want := s.workers[i].found, c.Prefix(ids); got != want {
					t.Fatalf("worker %d: %v: got %d, want %d", i, ids, got, want)
				}
			}
			i := rng.IntN(len(caches))
			if got, want := s.touch(i, ids), caches[i].Prefix(ids); got != want {
				t.Fatalf("worker %d: %v: found %d, want %d", i, ids, got, want)
			}
			caches[i].Touch(ids)
		}
	})
}
