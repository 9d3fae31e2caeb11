package figures

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"perigee/internal/figures/contention"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// Read computes the figures of the result file at path. A file that is no result is an error of the kind Input.
func Read(path string) (*Figures, error) {
	var b builder
	d, err := result.Scan(path, b.add)
	if err != nil {
		return nil, err
	}
	f, err := b.finish(d)
	if err != nil { // what Scan does not look at unless there are measurements
		return nil, fault.New(fault.Input, "result %s: %w", path, err).WithHint("is it a result of perigee?")
	}
	return f, nil
}

// Of computes the figures of a result in memory.
func Of(d *result.Document) (*Figures, error) {
	var b builder
	for i := range d.Measurements {
		if err := b.add(d, &d.Measurements[i]); err != nil {
			return nil, fmt.Errorf("measurements[%d]: %w", i, err)
		}
	}
	return b.finish(d)
}

// mean is a mean under way.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum += v; m.n++ }

// value is the mean, and NaN of nothing.
func (m mean) value() float64 { return m.sum / float64(m.n) }

// cellSums sums up one message over the runs of a pattern.
type cellSums struct{ alone, together mean }

// cells sum up the messages of a pattern's matrix over its runs, by its cells. Thousands of patterns may share
// a large matrix of which their runs have few messages, so memory grows with messages.
type cells struct {
	dense  []cellSums
	sparse map[int]*cellSums
}

// begin makes room for runs with so many messages, of a matrix with so many cells.
func (c *cells) begin(messages, all int) {
	const few = 4 // a map takes about as much for a quarter
	switch {
	case c.dense != nil || c.sparse != nil || messages == 0:
	case messages >= all/few:
		c.dense = make([]cellSums, all)
	default:
		c.sparse = map[int]*cellSums{}
	}
}

// at returns the sums of the message of a cell, after begin.
func (c *cells) at(i int) *cellSums {
	if c.dense != nil {
		return &c.dense[i]
	}
	s := c.sparse[i]
	if s == nil {
		s = &cellSums{}
		c.sparse[i] = s
	}
	return s
}

// each hands over what is known, in the order of the cells.
func (c *cells) each(f func(i int, s cellSums)) {
	for i, s := range c.dense {
		f(i, s)
	}
	for _, i := range slices.Sorted(maps.Keys(c.sparse)) {
		f(i, *c.sparse[i])
	}
}

// patternSums sums up the runs of a pattern.
type patternSums struct {
	cells      cells
	latencies  result.Latencies
	bandwidths []float64
	skews      []float64
	waits      []float64 // for starts
	uncertain  int64
	several    bool // a run has several initiators
}

// builder gathers the figures. The zero value is ready.
type builder struct {
	flows      result.Flows
	size       int
	hostOf     []int
	patterns   []patternSums
	tails      tails
	runs       int
	messages   int64
	bytes      int64
	timeline   Timeline
	contention contention.Collector
	starts     Starts
	later      bool // a result after the first is read
	// arrivals of the run at hand, by target.
	arrivals map[int]*Span
}

// begin checks what all else relies on.
func (b *builder) begin(d *result.Document) error {
	if b.hostOf != nil {
		return nil
	}
	hostOf, err := placeRanks(d.World)
	if err != nil {
		return err
	}
	for i, m := range d.Matrices {
		if err := checkMatrix(m, len(hostOf)); err != nil {
			return fmt.Errorf("matrices[%d]: %w", i, err)
		}
	}
	b.hostOf, b.size, b.arrivals = hostOf, len(hostOf), map[int]*Span{}
	b.patterns = make([]patternSums, len(d.Patterns))
	return nil
}

// placeRanks returns the host of each rank.
func placeRanks(w result.World) ([]int, error) {
	count := 0
	for _, h := range w.Hosts {
		count += len(h.Ranks)
	}
	if count != w.Size || count == 0 {
		return nil, fmt.Errorf("world: its size is %d, its hosts have %d ranks", w.Size, count)
	}
	hostOf := slices.Repeat([]int{-1}, count)
	for i, h := range w.Hosts {
		for _, r := range h.Ranks {
			if r < 0 || r >= count || hostOf[r] >= 0 {
				return nil, fmt.Errorf("world: rank %d on host %s is there twice, or beyond the %d ranks", r, h.Name,
					count)
			}
			hostOf[r] = i
		}
	}
	return hostOf, nil
}

func checkMatrix(m result.Matrix, size int) error {
	if m.Ranks != size {
		return fmt.Errorf("it has %d rows for %d ranks", m.Ranks, size)
	}
	for i, c := range m.Cells {
		if c[0] < 0 || c[1] < 0 || c[0] >= int64(size) || c[1] >= int64(size) || c[2] < 0 {
			return fmt.Errorf("cell %v is not in a matrix of %d ranks", c, size)
		}
		if i > 0 && compareCells(m.Cells[i-1], c) >= 0 {
			return fmt.Errorf("cell %v does not stand in order", c)
		}
	}
	return nil
}

// compareCells orders cells by sender, then receiver.
func compareCells(a, b [3]int64) int { return slices.Compare(a[:2], b[:2]) }

// add takes one run of a pattern.
func (b *builder) add(d *result.Document, m *result.Measurement) error {
	if err := b.begin(d); err != nil {
		return err
	}
	p, matrix := &b.patterns[m.Pattern], d.Matrices[d.Patterns[m.Pattern].Matrix]
	messages := 0
	for i := range m.Ranks {
		messages += len(m.Ranks[i].Peers)
	}
	b.runs++
	b.contention.Add(d, m)
	b.flows.Add(d, m)
	if m.NotAlone() { // it is neither alone nor of the workload
		return nil
	}
	p.cells.begin(messages, len(matrix.Cells))
	b.tails.add("pattern", m.Phase, float64(m.LatencyNS))
	p.uncertain = max(p.uncertain, m.UncertaintyNS)
	p.several = p.several || len(m.Ranks) > 1
	alone := p.latencies.Add(m)
	if !alone {
		p.bandwidths = append(p.bandwidths, m.MeanBandwidth)
		p.skews = append(p.skews, startSkew(m.Ranks))
		p.waits = append(p.waits, float64(m.LatencyNS-m.LongestNS()))
	}
	if m.AgreedNS != nil {
		b.starts.add(m.Ranks)
	}
	read := d.Patterns[m.Pattern].Op == "READ"
	for i := range m.Ranks {
		r := &m.Ranks[i]
		if r.Rank < 0 || r.Rank >= b.size {
			return fmt.Errorf("there is no rank %d", r.Rank)
		}
		if !alone {
			b.bytes += r.Bytes
			b.span(Span{Rank: r.Rank, Pattern: m.Pattern, Iteration: m.Iteration, StartNS: r.StartNS, EndNS: r.EndNS,
				Bytes: r.Bytes})
		}
		if err := b.addMessages(p, matrix, m, r, read, alone); err != nil {
			return err
		}
	}
	b.addTargets()
	return nil
}

func (s *Starts) add(ranks []series.RankRun) {
	s.Of += len(ranks)
	for _, r := range ranks {
		if r.LateNS > 0 {
			s.Late, s.Latest = s.Late+1, max(s.Latest, r.LateNS)
		}
	}
}

// startSkew is how long after the first initiator the last one started.
func startSkew(ranks []series.RankRun) float64 {
	if len(ranks) == 0 {
		return 0
	}
	first, last := ranks[0].StartNS, ranks[0].StartNS
	for _, r := range ranks {
		first, last = min(first, r.StartNS), max(last, r.StartNS)
	}
	return float64(last - first)
}

// addMessages takes the messages of one initiator.
func (b *builder) addMessages(p *patternSums, matrix result.Matrix, m *result.Measurement, r *series.RankRun, read,
	alone bool) error {
	for _, peer := range r.Peers {
		from, to := int64(r.Rank), int64(peer.Peer)
		if read {
			from, to = to, from
		}
		i, found := slices.BinarySearchFunc(matrix.Cells, [3]int64{from, to}, compareCells)
		if !found {
			return fmt.Errorf("a message from rank %d to rank %d is not in the matrix", from, to)
		}
		latency := float64(max(peer.EndNS-r.StartNS, 0))
		b.messages++
		b.tails.add("message", m.Phase, latency)
		if alone {
			p.cells.at(i).alone.add(latency)
			continue
		}
		p.cells.at(i).together.add(latency)
		b.arrive(m, r, peer)
	}
	return nil
}

// arrive widens the span of a message's target.
func (b *builder) arrive(m *result.Measurement, r *series.RankRun, peer series.PeerRun) {
	if peer.Peer == r.Rank {
		return
	}
	s := b.arrivals[peer.Peer]
	if s == nil {
		b.arrivals[peer.Peer] = &Span{
			Rank: peer.Peer, Pattern: m.Pattern, Iteration: m.Iteration, Target: true,
			StartNS: r.StartNS, EndNS: peer.EndNS, Bytes: peer.Bytes,
		}
		return
	}
	s.StartNS, s.EndNS, s.Bytes = min(s.StartNS, r.StartNS), max(s.EndNS, peer.EndNS), s.Bytes+peer.Bytes
}

func (b *builder) addTargets() {
	for _, rank := range slices.Sorted(maps.Keys(b.arrivals)) {
		b.span(*b.arrivals[rank])
	}
	clear(b.arrivals)
}

func (b *builder) span(s Span) {
	if b.later { // its clock is another one
		return
	}
	if len(b.timeline.Spans) >= MostSpans {
		b.timeline.Dropped++
		return
	}
	b.timeline.Spans = append(b.timeline.Spans, s)
}

// finish computes the figures from the sums.
func (b *builder) finish(d *result.Document) (*Figures, error) {
	if err := b.begin(d); err != nil {
		return nil, err
	}
	b.takeTotals(d)
	f := &Figures{
		Document: d, Runs: b.runs, Starts: b.starts, Messages: b.messages, Bytes: b.bytes, Timeline: b.timeline,
		Findings: []Finding{}, LeftOut: []string{}, Patterns: make([]PatternFigures, len(d.Patterns)),
	}
	receivers := receiversOf(d.Matrices)
	for i, p := range d.Patterns {
		f.Patterns[i] = b.pattern(d, i, receivers[p.Matrix])
		f.runs = append(f.runs, b.patterns[i].latencies)
	}
	f.Share(0)
	b.addPairs(f)
	f.Latencies, f.LeftOut = b.tails.list(), append(f.LeftOut, b.tails.leftOut()...)
	if slow := b.slowdowns(); slow.Count > 0 {
		f.Latencies = append(f.Latencies, slow)
	}
	b.placeTimeline(f)
	f.Blocks = blocksOf(d)
	f.Contention = contentionOf(b.contention.Report(), b.contention.Waits(), len(d.World.Hosts))
	f.Link = linkOf(d, &b.flows)
	f.Link.beside(f)
	f.Contention.Slower, f.Contention.Open = b.contention.Slower()
	f.Contention.Unsteady = b.contention.Unsteady()
	f.judgeContention()
	f.Moved = movedOf(f, &b.flows)
	f.Replay = replayOf(d)
	f.Findings = findings(f)
	f.Answer = answerOf(f)
	return f, nil
}

// takeTotals counts the runs that the result does not keep.
func (b *builder) takeTotals(d *result.Document) {
	if len(d.Totals) == 0 {
		return
	}
	b.runs, b.messages, b.bytes = 0, 0, 0
	for _, t := range d.Totals {
		b.runs, b.messages = b.runs+t.Runs, b.messages+t.Messages.Count()
		for _, k := range t.Ranks {
			if t.Phase != result.IsolatedPhase {
				b.bytes += k.Bytes
			}
		}
		b.tails.take("pattern", t.Phase, t.Latencies)
		b.tails.take("message", t.Phase, t.Messages)
	}
	for i := range b.patterns {
		b.patterns[i].latencies.Whole(d, i)
	}
}

// receiversOf counts the receivers of each matrix.
func receiversOf(matrices []result.Matrix) []int {
	counts := make([]int, len(matrices))
	for i, m := range matrices {
		receivers := map[int64]bool{}
		for _, c := range m.Cells {
			receivers[c[1]] = true
		}
		counts[i] = len(receivers)
	}
	return counts
}

// pattern sums up the runs of a pattern. What is unknown, such as the slowdown of one that never ran alone, is NaN.
func (b *builder) pattern(d *result.Document, i, receivers int) PatternFigures {
	p, sums := d.Patterns[i], &b.patterns[i]
	request := p.Request()
	m := d.Matrices[p.Matrix]
	out := PatternFigures{
		Index: i, Name: p.Name, Op: p.Op, Mem: p.Mem, Bytes: m.Bytes, Senders: p.Senders, Receivers: receivers,
		Request: request.Name, Tokens: request.Tokens, KVBytes: request.Bytes, Messages: len(m.Cells),
		SleepBeforeNS: Num(p.SleepBefore * 1e9), SleepAfterNS: Num(p.SleepAfter * 1e9),
		IsolatedRuns: len(sums.latencies.Alone), IsolatedNS: Num(sums.latencies.Isolated()),
		Runs: sums.latencies.Runs(), LatencyNS: Num(sums.latencies.Latency()),
		Slowdown: Num(sums.latencies.Slowdown()), UncertaintyNS: sums.uncertain,
		MeanBandwidth: median(sums.bandwidths), StartSkewNS: median(sums.skews), StartWaitNS: median(sums.waits),
		FastestNS: None, SlowestNS: None, WorstStartSkewNS: None, IsolatedFastestNS: None, IsolatedSlowestNS: None,
	}
	out.Drifts = !math.IsNaN(sums.latencies.PerRun())
	out.TotalBandwidth = ratio(float64(m.Bytes)*1e9, float64(out.LatencyNS))
	if !sums.several && out.TotalBandwidth.Known() { // the median of rates would be another mean of the same runs
		out.MeanBandwidth = out.TotalBandwidth
	}
	if runs := sums.latencies.Alone; len(runs) > 0 {
		out.IsolatedFastestNS, out.IsolatedSlowestNS = Num(slices.Min(runs)), Num(slices.Max(runs))
	}
	if len(sums.latencies.Workload) > 0 {
		out.P10NS, out.P90NS = Num(sums.latencies.Quantile(0.1)), Num(sums.latencies.Quantile(0.9))
	} else {
		sorted := slices.Sorted(slices.Values(sums.latencies.Alone))
		out.P10NS, out.P90NS = Num(stats.Quantile(sorted, 0.1)), Num(stats.Quantile(sorted, 0.9))
	}
	if out.Drifts {
		out.P10NS, out.P90NS = None, None
	}
	if len(sums.latencies.Workload) > 0 {
		if !out.Drifts {
			out.FastestNS, out.SlowestNS = Num(sums.latencies.Quantile(0)), Num(sums.latencies.Quantile(1))
		}
		out.WorstStartSkewNS = Num(slices.Max(sums.skews))
		out.SkewRuns = len(sums.skews)
		for _, skew := range sums.skews {
			if Num(skew) > apart(out) {
				out.ApartRuns++
			}
		}
	}
	return out
}

// median of values in any order; None of nothing.
func median(values []float64) Num { return Num(stats.Median(values)) }

// ratio is None where there is nothing to compare with.
func ratio(a, b float64) Num {
	if !(b > 0) || !(a >= 0) {
		return None
	}
	return Num(a / b)
}

// placeTimeline makes the spans count from the first of them.
func (b *builder) placeTimeline(f *Figures) {
	t := &f.Timeline
	if len(t.Spans) == 0 {
		return
	}
	t.OriginNS = math.MaxInt64
	for _, s := range t.Spans {
		t.OriginNS = min(t.OriginNS, s.StartNS)
	}
	for i := range t.Spans {
		t.Spans[i].StartNS -= t.OriginNS
		t.Spans[i].EndNS -= t.OriginNS
	}
	if t.Dropped > 0 {
		last := t.Spans[len(t.Spans)-1]
		f.LeftOut = append(f.LeftOut, fmt.Sprintf("the timeline holds the first %d of %d spans, up to pattern %d of iteration %d",
			len(t.Spans), len(t.Spans)+t.Dropped, last.Pattern, last.Iteration))
	}
}
