package figures

import (
	"cmp"
	"math"
	"slices"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/model"
	"perigee/internal/trace"
	"perigee/internal/trace/grid"
)

// Options say what of a trace is described, and for which model.
type Options struct {
	Name  string         // of the trace
	From  time.Duration  // after the first request; earlier requests are left out
	To    *time.Duration // requests after it are left out; nil: none
	Cache *model.Cache   // of the model whose load is asked for; nil: none
	Move  model.Move     // between which ranks it moves
	Link  *Link          // over which; nil: none is given
	Model string         // what the model is called; empty: as its file has it
}

// Of describes a trace. What is left out counts for nothing, as if the file had not got it: times count from the first
// request that is left, and caches are empty then. Only the grid is that of all timestamps. No request left is an error
// of the kind Input, as are bytes that do not fit 63 bits. Where the trace has hash ids, [trace.Trace.CheckBlocks]
// comes before.
func Of(t *trace.Trace, o Options) (*Figures, error) {
	requests, err := within(t.Requests, o)
	if err != nil {
		return nil, err
	}
	n := len(requests)
	f := &Figures{Name: o.Name, Format: t.Format, Unit: t.Unit, UnitAssumed: !t.UnitFound, Notes: t.Notes,
		Requests: n, Outside: len(t.Requests) - n, SpanS: seconds(requests[n-1].At)}
	if f.Unit == "" {
		f.Unit = "date"
	}
	if o.From > 0 {
		f.FromS = new(seconds(o.From))
	}
	if o.To != nil {
		f.ToS = new(seconds(*o.To))
	}
	f.Input = lengths(requests, input)
	if output := lengths(requests, func(r trace.Request) int64 { return r.Output }); output.Max > 0 {
		f.Output = &output
	}
	f.Arrivals = arrivals(requests)
	ticks, found := grid.Find(t.Times())
	if found {
		ticks.Phase -= t.Requests[slices.IndexFunc(t.Requests, func(r trace.Request) bool { return r.At >= o.From })].At
		f.Arrivals.Grid = describe(requests, ticks)
	}
	f.Arrivals.Bins = series(requests, ticks)
	f.Windows = windows(requests)
	var hits []int64
	if t.BlockTokens > 0 && slices.ContainsFunc(requests, hasIDs) {
		f.Blocks, f.Hits, hits = blocksAndHits(requests, t.BlockTokens)
	}
	if o.Cache != nil {
		if f.Load, err = offered(requests, hits, ticks, o); err != nil {
			return nil, fault.Wrap(err, "%s", o.Name)
		}
		f.Load.Model = cmp.Or(o.Model, o.Cache.Model.Name)
	}
	return f, nil
}

func hasIDs(r trace.Request) bool { return len(r.HashIDs) > 0 }

func seconds(d time.Duration) float64 { return float64(d) / 1e9 } // Seconds would round twice

// within returns the requests that count, with times from the first of them.
func within(all []trace.Request, o Options) ([]trace.Request, error) {
	var list []trace.Request
	for _, r := range all {
		if r.At >= o.From && (o.To == nil || r.At <= *o.To) {
			list = append(list, r)
		}
	}
	if list == nil {
		return nil, fault.New(fault.Input, "%s: none of %d requests is within --from and --to: the last one comes after %v",
			o.Name, len(all), all[len(all)-1].At)
	}
	first, tokens := list[0].At, int64(0)
	for i, r := range list {
		list[i].At -= first
		if tokens > math.MaxInt64-r.Input-r.Output {
			return nil, fault.New(fault.Input, "%s:%d: the tokens up to here do not fit 63 bits", o.Name, r.Line)
		}
		tokens += r.Input + r.Output
	}
	return list, nil
}

// arrivals are those of figures, without grid and bins.
func arrivals(requests []trace.Request) Arrivals {
	n := len(requests)
	a := Arrivals{Distinct: 1}
	for i := range n - 1 {
		if requests[i+1].At == requests[i].At {
			a.Equal++
		} else {
			a.Distinct++
		}
	}
	span := seconds(requests[n-1].At)
	if span == 0 {
		return a
	}
	a.RatePerS = new(float64(n-1) / span)
	mean, squares := span/float64(n-1), 0.0
	for i := range n - 1 {
		d := seconds(requests[i+1].At-requests[i].At) - mean
		squares += d * d
	}
	a.GapCV = new(math.Sqrt(squares/float64(n-1)) / mean)
	full := int(requests[n-1].At / time.Minute)
	if full == 0 {
		return a
	}
	minute := func(at time.Duration) int64 { return int64(at / time.Minute) }
	counts := sums(requests, minute, one)
	m := &Minutes{Full: full, Rest: int(counts[len(counts)-1])}
	counts = counts[:len(counts)-1] // the last request is in the rest
	slices.Sort(counts)
	empty := full - len(counts)
	m.Mean = float64(n-m.Rest) / float64(full)
	m.Min, m.Max = nearestRank(empty, counts, 0), nearestRank(empty, counts, 100)
	m.P50, m.P99 = nearestRank(empty, counts, 50), nearestRank(empty, counts, 99)
	a.Minutes = m
	return a
}

func one(trace.Request) int64     { return 1 }
func input(r trace.Request) int64 { return r.Input }

// nearestRank is a percentile of so many zeros and then sorted values: the one of rank percent / 100 x their number,
// rounded up.
func nearestRank(zeros int, sorted []int64, percent int) int64 {
	rank := max(1, ((zeros+len(sorted))*percent+99)/100)
	if rank <= zeros {
		return 0
	}
	return sorted[rank-zeros-1]
}

// series cuts the time into at most about 400 bins of 1, 2 or 5 x 10^k s, or of so many ticks.
func series(requests []trace.Request, g grid.Grid) Series {
	const most = 400
	span := requests[len(requests)-1].At
	unit := max(g.Period, time.Millisecond)
	width := unit
	for i := 0; span/width >= most; i++ {
		width = unit * time.Duration([]int64{1, 2, 5}[i%3]) * time.Duration(math.Pow10(i/3))
	}
	begin := time.Duration(0)
	if g.Period > 0 { // no tick is on an edge
		begin = g.Phase + time.Duration(g.Tick(0))*g.Period - g.Period/2
	}
	s := Series{BeginS: seconds(begin), WidthS: seconds(width)}
	for _, r := range requests {
		for int(max(0, r.At-begin)/width) >= len(s.Requests) {
			s.Requests, s.Tokens = append(s.Requests, 0), append(s.Tokens, 0)
		}
		last := int(max(0, r.At-begin) / width)
		s.Requests[last]++
		s.Tokens[last] += r.Input
	}
	return s
}

// describe counts what stands on the ticks of a grid.
func describe(requests []trace.Request, g grid.Grid) *Grid {
	counts, tokens := sums(requests, g.Tick, one), sums(requests, g.Tick, input)
	d := &Grid{PeriodMS: float64(g.Period) / 1e6, Max: slices.Max(counts),
		Ticks: int(g.Tick(requests[len(requests)-1].At)-g.Tick(0)) + 1}
	d.Empty = d.Ticks - len(counts)
	d.Mean = float64(len(requests)) / float64(d.Ticks)
	squares := d.Mean * d.Mean * float64(d.Empty)
	for i, c := range counts {
		squares += (float64(c) - d.Mean) * (float64(c) - d.Mean)
		d.MeanTokens += float64(tokens[i]) / float64(d.Ticks)
	}
	for _, r := range requests {
		d.OffMS = max(d.OffMS, float64(g.Off(r.At))/1e6)
	}
	d.Dispersion = squares / float64(d.Ticks) / d.Mean
	slices.Sort(tokens)
	d.P99Tokens, d.MaxTokens = nearestRank(d.Empty, tokens, 99), nearestRank(d.Empty, tokens, 100)
	return d
}

// sums adds up what requests have in each period that has any; period numbers those.
func sums(requests []trace.Request, period func(time.Duration) int64, of func(trace.Request) int64) (list []int64) {
	for i, r := range requests {
		if i == 0 || period(r.At) != period(requests[i-1].At) {
			list = append(list, 0)
		}
		list[len(list)-1] += of(r)
	}
	return list
}

// lengths describe the tokens of requests.
func lengths(requests []trace.Request, of func(trace.Request) int64) Lengths {
	sorted := make([]int64, len(requests))
	var l Lengths
	for i, r := range requests {
		sorted[i] = of(r)
		l.Sum += sorted[i]
	}
	slices.Sort(sorted)
	l.Mean = float64(l.Sum) / float64(len(sorted))
	l.P50, l.P90, l.P99 = nearestRank(0, sorted, 50), nearestRank(0, sorted, 90), nearestRank(0, sorted, 99)
	l.Max = sorted[len(sorted)-1]
	for half, i := 0, 0; i < len(sorted); half++ { // half octaves
		b := Bin{From: edge(half), To: edge(half + 1)}
		for ; i < len(sorted) && sorted[i] < b.To; i++ {
			b.Requests++
		}
		if b.To > b.From && (b.Requests > 0 || l.Bins != nil) {
			l.Bins = append(l.Bins, b)
		}
	}
	return l
}

// edge is where a bin of lengths begins: 0, 1, 2, 3, 4, 6, 8, 12, 16 and so on, at every half of an octave.
func edge(half int) int64 {
	if half == 0 {
		return 0
	}
	octave := int64(1) << ((half - 1) / 2)
	return octave + octave/2*int64((half-1)%2)
}

// windowLengths are those of [Figures.Windows], of which a trace has those that are not longer than its span.
var windowLengths = []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute}

// window is the busiest of a length, with what each one has that has anything.
type window struct {
	Window
	sums []int64
}

// windowsOf adds up windows of those lengths that the trace has.
func windowsOf(requests []trace.Request) (list []window) {
	span := requests[len(requests)-1].At
	for _, length := range windowLengths {
		if span < length {
			break
		}
		w := window{Window: Window{LengthS: seconds(length)}}
		var all, sum int64
		at := time.Duration(-1)
		for _, r := range requests {
			if i := r.At / length; i != at {
				at, sum, w.sums = i, 0, append(w.sums, 0)
			}
			sum += r.Input
			all += r.Input
			w.sums[len(w.sums)-1] = sum
			if sum > w.Tokens {
				w.Tokens, w.StartS = sum, seconds(at*length)
			}
		}
		if all > 0 {
			w.PeakToMean = float64(w.Tokens) / (float64(all) / seconds(span) * w.LengthS)
		}
		list = append(list, w)
	}
	return list
}

// windows are the busiest ones.
func windows(requests []trace.Request) (list []Window) {
	for _, w := range windowsOf(requests) {
		list = append(list, w.Window)
	}
	return list
}
