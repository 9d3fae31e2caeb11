package replay

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/trace"
	"perigee/internal/trace/grid"
	"perigee/internal/traffic/load"
)

// maker makes a schedule.
type maker struct {
	*Schedule
	trace           *trace.Trace
	grid            grid.Grid
	prefill, decode side
	flops           float64 // of a prefill worker
	busy            float64 // nanoseconds of prefill, of all workers
}

// Make derives the schedule of a trace. It has no side effects, and the same arguments give the same schedule. Options
// that make no sense, or not with this trace, are an error of the kind Usage that names their flags; hash ids that do
// not fit the tokens of their prompt are one of the kind Input that names the line.
func Make(t *trace.Trace, o Options) (*Schedule, error) {
	if err := cmp.Or(o.check(), o.checkIDs(t)); err != nil {
		return nil, err
	}
	m := &maker{Schedule: &Schedule{Options: o}, trace: t}
	m.geometry = newGeometry(&o)
	requests, err := m.window()
	if err != nil {
		return nil, err
	}
	times := t.Times()
	var found bool
	if m.grid, found = grid.Find(times); found {
		m.Grid = m.grid.Period
	}
	if o.Spread {
		if !found {
			return nil, usage("--spread: the timestamps of the trace stand on no grid, so there are no ticks to spread").
				WithHint("leave --spread out: the trace is replayed at its own times")
		}
		m.spread(times)
	}
	m.makeWorkers()
	if err := m.fill(requests, times); err != nil {
		return nil, err
	}
	m.notes()
	return m.Schedule, nil
}

// window returns the first request from From on, and the end of those up to To.
func (m *maker) window() (w [2]int, err error) {
	all := m.trace.Requests
	w[0] = sort.Search(len(all), func(i int) bool { return all[i].At >= m.From })
	w[1] = sort.Search(len(all), func(i int) bool { return m.To > 0 && all[i].At > m.To })
	if w[0] >= w[1] {
		last := all[len(all)-1].At
		return w, usage("no request comes from --from %v to --to %v", m.From, cmp.Or(m.To, last)).
			WithHint("the requests of the trace come from 0s to %v", last)
	}
	m.Outside = len(all) - (w[1] - w[0])
	longest := slices.MaxFunc(all[w[0]:w[1]], func(a, b trace.Request) int { return cmp.Compare(a.Input, b.Input) })
	if _, ok := m.geometry.move.Bytes(m.Model, 0, longest.Input+m.Model.Block); !ok { // so that no product overflows
		err = fault.New(fault.Input, "%s:%d: the cache that %s keeps of %d tokens does not fit 63 bits with its copies",
			m.trace.Name, longest.Line, m.Model.Model.Name, longest.Input)
	}
	return w, err
}

// spread draws times uniformly between a tick and the next one, and gives them to the tick's requests in their order.
// Each tick has a generator, so that a request's time does not depend on the window.
func (m *maker) spread(times []time.Duration) {
	var draws []time.Duration
	for first := 0; first < len(times); first += len(draws) {
		tick, n := m.grid.Tick(times[first]), 1
		for first+n < len(times) && m.grid.Tick(times[first+n]) == tick {
			n++
		}
		rng := rand.New(rand.NewPCG(m.Seed, uint64(tick)))
		draws = draws[:0]
		for range n {
			draw := m.grid.Phase + time.Duration(tick)*m.grid.Period + time.Duration(rng.Int64N(int64(m.grid.Period)))
			draws = append(draws, max(draw, 0))
		}
		slices.Sort(draws)
		copy(times[first:], draws)
	}
}

// fill makes the requests of a window and their transfers.
func (m *maker) fill(window [2]int, times []time.Duration) error {
	n, runs := window[1]-window[0], len(m.geometry.layers)
	if n > maxTransfers/runs {
		return usage("--layer-runs %d of %d requests are too many transfers: wanted at most %d", runs, n, maxTransfers).
			WithHint("replay fewer requests, with --from and --to")
	}
	m.Requests, m.Transfers = make([]DueRequest, 0, n), make([]Transfer, 0, n*runs)
	for k := range n {
		i := window[0] + k
		if err := m.add(k, i, max(0, float64(times[i]-m.From))); err != nil {
			return err
		}
	}
	if len(m.Requests) == 0 {
		return usage("nothing moves of any of the %d requests: their prompts are empty, or cached", n)
	}
	byDue := func(a, b Transfer) int { return cmp.Compare(a.DueNS, b.DueNS) }
	if !slices.IsSortedFunc(m.Transfers, byDue) {
		slices.SortStableFunc(m.Transfers, byDue)
	}
	m.SpanNS = m.Transfers[len(m.Transfers)-1].DueNS
	return nil
}

// add takes the k-th request of the window, which is the i-th of the trace.
func (m *maker) add(k, i int, at float64) error {
	r := &m.trace.Requests[i]
	p, d := m.route(k, r, at)
	from, to := &m.prefill.workers[p], &m.decode.workers[d]
	q := DueRequest{Index: i, Input: r.Input, Prefill: p, Decode: d, Moved: r.Input}
	q.Cached = m.tokens(m.prefill.touch(p, r.HashIDs), r)
	prefill, begin := m.prefillNS(r, q.Cached), max(at, from.free)
	from.free = begin + prefill
	m.busy += prefill
	if from.free/m.SpeedUp > math.MaxInt64/2 {
		return usage("--speed-up %v, --flops %v: the schedule would last for more than a century", m.SpeedUp, m.FLOPS)
	}
	q.ArrivalNS, q.PrefillNS = int64(at/m.SpeedUp), int64(prefill/m.SpeedUp)
	if found := m.tokens(m.decode.touch(d, r.HashIDs), r); m.Moved == Missing {
		q.Moved -= m.Model.Kept(found, r.Input)
	}
	to.sent += q.Moved
	if m.FLOPS == 0 {
		begin, prefill = at, 0
	}
	m.Requests = append(m.Requests, q)
	return m.addTransfers(begin, prefill)
}

// addTransfers takes the transfers of the last request, whose prefill begins at a time and takes so long.
func (m *maker) addTransfers(begin, prefill float64) error {
	last, runs := len(m.Requests)-1, len(m.geometry.layers)
	r := &m.Requests[last]
	for run := range runs {
		bytes, pieces := m.geometry.count(run, r.Input-r.Moved, r.Input)
		whole := bytes
		if r.Moved < r.Input {
			whole, _ = m.geometry.count(run, 0, r.Input)
		}
		if err := m.checkTransfer(pieces, whole); err != nil {
			return fault.Wrap(err, "%s:%d", m.trace.Name, m.trace.Requests[r.Index].Line)
		}
		m.Whole += whole
		if bytes == 0 {
			continue
		}
		due := int64((begin + prefill*float64(run+1)/float64(runs)) / m.SpeedUp)
		if r.Bytes == 0 {
			r.DueNS = due
		}
		r.Bytes += bytes
		m.Bytes += bytes
		m.Transfers = append(m.Transfers, Transfer{Request: last, Run: run, DueNS: due})
	}
	if r.Bytes == 0 {
		m.Empty++
		m.Requests = m.Requests[:last]
	}
	return nil
}

// checkTransfer refuses too many descriptors, and bytes that do not fit those of all requests.
func (m *maker) checkTransfer(pieces, whole int64) error {
	switch {
	case pieces > load.MaxPieces:
		return usage("%d descriptors from one rank to another: wanted at most %d", pieces, load.MaxPieces).
			WithHint("choose a larger --page-size, a --run-length of contiguous pages, more --layer-runs, or a higher TP")
	case whole > math.MaxInt64-m.Whole:
		return usage("the bytes of all requests do not fit 63 bits").WithHint("--scale shrinks them")
	}
	return nil
}
