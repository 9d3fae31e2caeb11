package experts

import (
	"math"
	"slices"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/stats"
)

// tally adds up at rank 0 what all ranks have measured piece by piece, so that the figures so far cost no more than the
// newest piece, however many iterations came before it. Times are in nanoseconds, lists in microseconds.
type tally struct {
	mode  Mode
	entry Entry

	n     int // iterations, without the first where there are two or more
	ranks []rankTally
	last  []*rankPiece // waits of all iterations

	least, median, most lists // by iteration, over ranks

	census  *moe.Census // once it is known
	between int64       // bytes of an iteration between hosts
}

// rankTally are sums over the iterations of one rank.
type rankTally struct {
	sum, least, most int64
	parts            [kinds]Part
}

// lists hold the same values as they came, and in order.
type lists struct{ came, sorted []float64 }

// add adds a piece of all ranks.
func (t *tally) add(pieces []*rankPiece) error {
	if t.ranks == nil {
		t.ranks = slices.Repeat([]rankTally{{least: math.MaxInt64}}, len(pieces))
	}
	n := len(pieces[0].times)
	for rank, p := range pieces {
		if len(p.times) != n {
			return fault.New(fault.Internal, "rank %d has measured %d iterations, and rank 0 %d", rank, len(p.times), n)
		}
		r := &t.ranks[rank]
		for _, ns := range p.times {
			r.sum, r.least, r.most = r.sum+ns, min(r.least, ns), max(r.most, ns)
		}
		for kind := range r.parts {
			r.parts[kind].add(p.parts[kind])
		}
	}
	t.n, t.last = t.n+n, pieces
	column := make([]float64, len(pieces))
	for i := range n {
		for rank, p := range pieces {
			column[rank] = microseconds(p.times[i])
		}
		slices.Sort(column)
		t.least.came = append(t.least.came, column[0])
		t.median.came = append(t.median.came, stats.Quantile(column, 0.5))
		t.most.came = append(t.most.came, column[len(column)-1])
	}
	for _, l := range []*lists{&t.least, &t.median, &t.most} {
		l.sort()
	}
	return nil
}

// sort puts what came since the last time among what is in order.
func (l *lists) sort() {
	fresh := slices.Sorted(slices.Values(l.came[len(l.sorted):]))
	i := len(l.sorted) - 1
	l.sorted = append(l.sorted, fresh...)
	for to, k := len(l.sorted)-1, len(fresh)-1; k >= 0; to-- {
		if i >= 0 && l.sorted[i] > fresh[k] {
			l.sorted[to], i = l.sorted[i], i-1
		} else {
			l.sorted[to], k = fresh[k], k-1
		}
	}
}

func (l *lists) tail() Tail {
	return Tail{stats.Quantile(l.sorted, 0.5), stats.Quantile(l.sorted, 0.9), stats.Quantile(l.sorted, 0.99)}
}

// figures works out all figures that need no bytes. The first iteration of each rank is left out, but not if it is the
// only one. Waits cover all that were played.
func (t *tally) figures(hosts []string, played int) *PlaneFigures {
	f := &PlaneFigures{
		Mode: t.mode.String(), Entry: t.entry.String(), Iterations: t.n, Waits: map[string][][]float64{},
		LeastUS: t.least.came, MedianUS: t.median.came, MostUS: t.most.came,
		Slowest: t.most.tail(), Typical: t.median.tail(), Fastest: t.least.tail(),
	}
	var sums [kinds]Part
	mean := func(ns int64) float64 { return microseconds(ns) / float64(t.n) }
	for rank, r := range t.ranks {
		both := r.parts[dispatching]
		both.add(r.parts[combining])
		f.Ranks = append(f.Ranks, RankFigures{
			Rank: rank, Host: hosts[rank],
			MeanUS: mean(r.sum), MinUS: microseconds(r.least), MaxUS: microseconds(r.most),
			SendUS: mean(both.Send), RecvUS: mean(both.Recv), WaitUS: mean(both.Wait),
		})
		for kind := range sums {
			sums[kind].add(r.parts[kind])
		}
	}
	f.Latency = summarize(f.Ranks, func(r RankFigures) float64 { return r.MeanUS })
	both := sums[dispatching]
	both.add(sums[combining])
	share := func(ns int64) float64 { return float64(ns) / float64(both.Total()) }
	f.Shares = Shares{
		Fill: share(both.Fill), Stage: share(both.Stage), Own: share(both.Own), Wait: share(both.Wait),
		Pack: share(sums[dispatching].Finish), Reduce: share(sums[combining].Finish),
	}
	f.wait(t.mode, t.last, played, hosts)
	return f
}
