package replay

import (
	"cmp"
	"math"

	"perigee/internal/model"
	"perigee/internal/trace"
	"perigee/internal/trace/blockcache"
)

// worker is what routing knows of a worker.
type worker struct {
	cache *blockcache.Cache // or nil
	found int               // leading blocks that look has found
	free  float64           // when its prefills are done, in nanoseconds of the trace after From
	sent  int64             // tokens, of a decode worker
}

// side is the workers of a side.
type side struct {
	workers []worker
	bounded bool               // their caches drop blocks
	holders map[uint64][]int32 // workers that have, or had, a block; nil without look
}

func (m *maker) makeWorkers() {
	aware := m.Routing == PrefixAware
	m.prefill = newSide(m.Prefill.N, m.BlockTokens > 0, aware, m.CacheBlocks)
	m.decode = newSide(m.Decode.N, m.Moved == Missing || aware, aware, m.CacheBlocks)
	m.flops = cmp.Or(m.FLOPS, model.PrefillFLOPS) * float64(m.Prefill.TP)
}

func newSide(n int, keeps, aware bool, blocks int) side {
	s := side{workers: make([]worker, n), bounded: blocks > 0}
	for i := range s.workers {
		if keeps {
			s.workers[i].cache = blockcache.New(blocks)
		}
	}
	if aware {
		s.holders = map[uint64][]int32{}
	}
	return s
}

// look finds how many leading blocks of a prompt each worker has. Few have more than the first ones, so it asks who has
// a block instead of each worker for all.
func (s *side) look(ids []uint64) {
	for i := range s.workers {
		s.workers[i].found = 0
	}
	for k, id := range ids {
		any := false
		for _, i := range s.holders[id] {
			w := &s.workers[i]
			if w.found == k && (!s.bounded || w.cache.Prefix(ids[k:k+1]) == 1) {
				w.found, any = k+1, true
			}
		}
		if !any {
			return
		}
	}
}

// touch puts a prompt into the cache of a worker, and returns how many leading blocks have been there.
func (s *side) touch(i int, ids []uint64) (found int) {
	cache := s.workers[i].cache
	if cache == nil || len(ids) == 0 {
		return 0
	}
	found = cache.Prefix(ids)
	if s.holders != nil {
		for _, id := range ids[found:] {
			s.holders[id] = append(s.holders[id], int32(i))
		}
	}
	cache.Touch(ids)
	return found
}

// tokens are those of the first blocks of a prompt, of which the last one need not be full.
func (m *maker) tokens(blocks int, r *trace.Request) int64 {
	return min(int64(blocks)*m.BlockTokens, r.Input)
}

// prefillNS is how long the prefill of a prompt takes, of which so many tokens are cached.
func (m *maker) prefillNS(r *trace.Request, cached int64) float64 {
	return m.Model.Model.PrefillOperations(cached, r.Input) / m.flops * 1e9
}

// choose returns the worker with the lowest cost, of equals that with the lowest second one, of those the first.
func (s *side) choose(costs func(*worker) (cost, second float64)) int {
	best, lowest, second := 0, math.Inf(1), math.Inf(1)
	for i := range s.workers {
		if c, s := costs(&s.workers[i]); c < lowest || c == lowest && s < second {
			best, lowest, second = i, c, s
		}
	}
	return best
}

// route chooses the workers of the k-th request, which comes at a time.
func (m *maker) route(k int, r *trace.Request, at float64) (prefill, decode int) {
	switch m.Routing {
	case LeastLoaded:
		return m.prefill.choose(func(w *worker) (float64, float64) { return w.free, 0 }),
			m.decode.choose(func(w *worker) (float64, float64) { return float64(w.sent), 0 })
	case PrefixAware:
		m.prefill.look(r.HashIDs)
		m.decode.look(r.HashIDs)
		end := func(w *worker) (float64, float64) {
			return max(w.free, at) + m.prefillNS(r, m.tokens(w.found, r)), w.free
		}
		sent := func(w *worker) (float64, float64) {
			return float64(w.sent + r.Input - m.tokens(w.found, r)), float64(w.sent)
		}
		return m.prefill.choose(end), m.decode.choose(sent)
	}
	return inTurn(k, m.Prefill.N, m.Decode.N)
}

// inTurn takes the workers of either side in turn. Both sides begin again together after a lap of as many requests as
// the least common multiple of their numbers: then the decode side is shifted by one, or some pairs would never meet.
func inTurn(k, prefill, decode int) (p, d int) {
	common, rest := prefill, decode
	for rest > 0 {
		common, rest = rest, common%rest
	}
	lap := k / (prefill / common * decode)
	return k % prefill, (k + lap%common) % decode
}
