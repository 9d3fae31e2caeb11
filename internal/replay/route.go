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
	free  float64           // when its prefills are done, in nanoseconds of the trace after From
	sent  int64             // tokens, of a decode worker
}

func (m *maker) makeWorkers() {
	m.prefill = makeSide(m.Prefill.N, m.BlockTokens > 0, m.CacheBlocks)
	m.decode = makeSide(m.Decode.N, m.Moved == Missing || m.Routing == PrefixAware, m.CacheBlocks)
	m.flops = cmp.Or(m.FLOPS, model.PrefillFLOPS) * float64(m.Prefill.TP)
}

func makeSide(n int, keeps bool, blocks int) []worker {
	side := make([]worker, n)
	for i := range side {
		if keeps {
			side[i].cache = blockcache.New(blocks)
		}
	}
	return side
}

// touch puts a prompt into the cache of a worker, and returns how many of its leading tokens have been there.
func (m *maker) touch(w *worker, r *trace.Request) (found int64) {
	if w.cache == nil {
		return 0
	}
	found = m.found(w, r)
	w.cache.Touch(r.HashIDs)
	return found
}

// found are the leading tokens of a prompt that a worker has, of which the last block need not be full.
func (m *maker) found(w *worker, r *trace.Request) int64 {
	return min(int64(w.cache.Prefix(r.HashIDs))*m.BlockTokens, r.Input)
}

// kept is how many of the tokens that a decode worker has of a prompt need not move: whole pages, where pages count.
func (m *maker) kept(cached, input int64) int64 {
	c := m.geometry.cache
	if cached == input || !m.geometry.paged && c.Serving == model.Exact {
		return cached
	}
	return cached / c.Page * c.Page
}

// prefillNS is how long the prefill of a prompt takes, of which so many tokens are cached.
func (m *maker) prefillNS(r *trace.Request, cached int64) float64 {
	return m.Model.Model.PrefillOperations(cached, r.Input) / m.flops * 1e9
}

// choose returns the worker with the lowest cost, of equals that with the lowest second one, of those the first.
func choose(side []worker, costs func(*worker) (cost, second float64)) int {
	best, lowest, second := 0, math.Inf(1), math.Inf(1)
	for i := range side {
		if c, s := costs(&side[i]); c < lowest || c == lowest && s < second {
			best, lowest, second = i, c, s
		}
	}
	return best
}

// route chooses the workers of the k-th request, which comes at a time.
func (m *maker) route(k int, r *trace.Request, at float64) (prefill, decode int) {
	switch m.Routing {
	case LeastLoaded:
		return choose(m.prefill, func(w *worker) (float64, float64) { return w.free, 0 }),
			choose(m.decode, func(w *worker) (float64, float64) { return float64(w.sent), 0 })
	case PrefixAware:
		end := func(w *worker) (float64, float64) {
			return max(w.free, at) + m.prefillNS(r, m.found(w, r)), w.free
		}
		sent := func(w *worker) (float64, float64) {
			return float64(w.sent + r.Input - m.found(w, r)), float64(w.sent)
		}
		return choose(m.prefill, end), choose(m.decode, sent)
	}
	return k % m.Prefill.N, k % m.Decode.N
}
