package figures

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/size"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// Replay are the figures of a trace that was replayed: those of the result, with the number of the requests in place of
// their columns.
type Replay struct {
	*result.Replay
	Requests int `json:"requests"` // of the schedule
}

// replayOf are the figures of a replay; nil where there was none.
func replayOf(d *result.Document) *Replay {
	if d.Replay == nil || len(d.Replay.Requests.Index) == 0 {
		return nil
	}
	return &Replay{Replay: d.Replay, Requests: len(d.Replay.Requests.Index)}
}

// tone is how good the news of an answer is.
func (r *Replay) tone(answer string) string {
	over := slices.ContainsFunc(r.Scales, func(s result.ReplayScale) bool { return s.Over > 0 })
	switch {
	case !r.Lateness.Valid, strings.Contains(answer, ": saturated"):
		return "bad"
	case strings.Contains(answer, ": not saturated, ") && !over && int(r.Done) == r.Requests:
		return "good"
	}
	return "note"
}

// sayReplay says what the result says of itself: the finding, then whether it counts where it does not, then the rest.
// How it came about is what the run has noted.
func sayReplay(f *Figures, list *[]Finding) {
	r := f.Replay
	if r == nil {
		return
	}
	lines := r.Answer()
	first, tone := sentence(lines[0]), r.tone(lines[0])
	if lines = lines[1:]; !r.Lateness.Valid && len(lines) > 0 {
		invalid, advice, _ := strings.Cut(lines[0], ". ")
		first += " " + sentence(invalid)
		lines[0] = advice
	}
	why := ""
	for _, line := range append(lines, r.what()...) {
		why += " " + sentence(line)
	}
	why = strings.TrimSpace(why)
	*list = append(*list, Finding{tone, first + " " + why, why})
	l, judged := r.Lateness, []string{}
	if l.Posts > 0 {
		judged = []string{fmt.Sprintf("Lateness is posted - due on the clock that all ranks share (posted - admitted, with --in-flight), "+
			"over %d posts: p50 %s, p99 %s, at most %s; %s beyond the limit of %s, in %s; "+
			"the p99 is %.3g of the mean time between posts of a rank, which is not judged.", l.Posts, Duration(Num(l.P50NS)), Duration(Num(l.P99NS)), Duration(Num(l.MaxNS)),
			cli.Count(l.Late, "post"), Duration(Num(l.LimitNS)), cli.Count(l.Stalls, "stall"), l.OfGap)}
	}
	for _, text := range append(judged, f.Document.Notes...) {
		*list = append(*list, Finding{Level: "note", Text: text})
	}
}

// sentence makes a text one.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// what says what was replayed, and what is left.
func (r *Replay) what() []string {
	span := max(r.SpanNS, slices.Max(r.Replay.Requests.Due)) // of the whole schedule
	list := []string{fmt.Sprintf("%s of %s, %s from %dxTP%d to %dxTP%d, in %s at %g times the speed",
		cli.Count(r.Requests, "request"), size.Decimal(r.Bytes), r.cache(), r.Prefill.N, r.Prefill.TP, r.Decode.N,
		r.Decode.TP, Duration(Num(span)), r.SpeedUp)}
	if r.Lateness.Posts > 0 {
		list[0] += "; lateness p99 " + Duration(Num(r.Lateness.P99NS))
	}
	if text := r.served(); text != "" {
		list = append(list, text)
	}
	if r.DrainNS > 0 {
		list = append(list, fmt.Sprintf("after the last was due it took %s until all were done, which counts apart",
			Duration(Num(r.DrainNS))))
	}
	if missing := r.Requests - int(r.Done); missing > 0 {
		list = append(list, cli.Count(missing, "request")+" not complete")
	}
	return list
}

// cache names the model and the precision in which its caches are counted.
func (r *Replay) cache() string {
	text := r.Model + " in " + r.DType
	if r.DTypeBy != "" { // results of earlier versions do not say it
		text += " (" + r.DTypeBy + ")"
	}
	if r.State != "" {
		text += ", states in " + r.State + ","
	}
	return text
}

// served says in which pages the caches moved, and who received copies; empty where each byte crossed once, exactly.
func (r *Replay) served() string {
	var parts []string
	if r.Block > 0 {
		parts = append(parts, fmt.Sprintf("pages of %s (%s)", cli.Count(r.Block, "token"), r.BlockBy))
	}
	if r.RunLength > 1 {
		parts = append(parts, fmt.Sprintf("runs of %d contiguous pages a descriptor", r.RunLength))
	}
	if r.Serving != "" {
		parts = append(parts, "as with "+r.Serving)
	}
	if r.Copied != "" {
		parts = append(parts, r.Copied)
	}
	return strings.Join(parts, ", ")
}

// mostBins is how many bins a picture over the time of a replay has.
const mostBins = 150

// bins divide the time of a replay. Where it is long enough they are whole steps of the grid of its trace: others would
// have more steps in some bins than in others.
type bins struct {
	width, end int64 // nanoseconds
	played     int64 // until when it is known what was played: of a run that was cut off, not to the end
	n          int
}

func (r *Replay) bins(most int) bins {
	q, b := &r.Replay.Requests, bins{end: max(r.SpanNS, 1)}
	for i := range q.Due {
		b.played = max(b.played, q.Done[i], q.Posted[i])
		b.end = max(b.end, q.Due[i], b.played)
	}
	if int(r.Done) == r.Requests {
		b.played = b.end
	}
	step := 1.0
	if grid := float64(r.Trace.GridNS) / max(r.SpeedUp, 1e-9); grid >= 1 && !r.Spread && float64(b.end) >= 20*grid {
		step = grid
	}
	k := 1.0
	for i := 0; math.Ceil((float64(b.end)+1)/(k*step)) > float64(most); i++ {
		k *= []float64{2, 2.5, 2}[i%3] // 1, 2, 5, 10
	}
	b.width = max(int64(math.Round(k*step)), 1)
	b.n = int(b.end/b.width) + 1
	return b
}

// at is the bin of a time.
func (b bins) at(ns int64) int { return int(min(max(ns, 0), b.end) / b.width) }

// axis is that of the bins.
func (b bins) axis() Axis {
	return Axis{Label: fmt.Sprintf("time of the replay, in bins of %s", Duration(Num(b.width))), Unit: "ns"}
}

// series makes a series of a value for each bin until a time; None is no point.
func (b bins) series(name string, until int64, of func(i int) Num) Series {
	s := Series{Name: name}
	for i := range b.at(until) + 1 {
		if v := of(i); v.Known() {
			s.Points = append(s.Points, Point{X: Num(int64(i) * b.width), Y: v, Low: None, High: None})
		}
	}
	return s
}

// level is a limit that is the same everywhere.
func level(name string, y float64) Limit {
	return Limit{Name: name, Points: []Point{{Y: Num(y), Low: None, High: None}}}
}

// farAbove is from how many times the largest value on a limit would press the rest of a picture onto its axis.
const farAbove = 8

// shortWindow is the shortest window of the table, in nanoseconds.
const shortWindow = 100_000_000

// markPeaks gives the points of what was due the range up to the busiest short window that begins in their bin, and
// returns the largest: in a longer bin the mean would contradict the peaks of the table.
func (r *Replay) markPeaks(b bins, points []Point) (largest float64) {
	windows := map[int64]float64{}
	for i, bytes := range r.Replay.Requests.Bytes {
		windows[max(r.Replay.Requests.Due[i], 0)/shortWindow] += float64(bytes) * 1e9 / shortWindow
	}
	for i := range points {
		points[i].Low, points[i].High = points[i].Y, points[i].Y
	}
	for k, rate := range windows {
		p := &points[b.at(k*shortWindow)]
		p.High, largest = max(p.High, Num(rate)), max(largest, rate)
	}
	return largest
}

// Timeline draws what was due and what was carried over the time of the replay, in at most so many bins. The bytes of a
// request that is done are spread over the time of its transfer.
func (r *Replay) Timeline(most int) Chart {
	b, q := r.bins(most), &r.Replay.Requests
	due, done := make([]float64, b.n), make([]float64, b.n)
	for i, bytes := range q.Bytes {
		due[b.at(q.Due[i])] += float64(bytes)
		if from, to := q.Posted[i], max(q.Done[i], q.Posted[i]+1); from >= 0 && q.Done[i] >= 0 {
			for k := b.at(from); k <= b.at(to); k++ {
				part := min(to, int64(k+1)*b.width) - max(from, int64(k)*b.width)
				done[k] += float64(bytes) * float64(part) / float64(to-from)
			}
		}
	}
	rate := func(of []float64) func(int) Num {
		return func(i int) Num { return Num(of[i] * 1e9 / float64(b.width)) }
	}
	c := Chart{Title: "Load over the time of the replay", Wide: true, X: b.axis(), Y: Axis{Label: "bytes / time", Unit: "bytes/s"},
		Series: []Series{b.series("offered: due in the bin", b.end, rate(due)),
			b.series("carried: in transfer in the bin", b.played, rate(done))}}
	peak := max(slices.Max(due), slices.Max(done)) * 1e9 / float64(b.width)
	if b.width > shortWindow {
		c.Y.Label = "bytes / time; bars: to the bin's busiest 0.1 s"
		peak = max(peak, r.markPeaks(b, c.Series[0].Points)/2) // bars stay readable under a limit that lines do not
	}
	if r.Capacity != nil && *r.Capacity > farAbove*peak {
		c.Title += fmt.Sprintf(" (the capacity of %s is far above)", size.Rate(*r.Capacity))
	} else if r.Capacity != nil {
		c.Limits = []Limit{level("capacity", *r.Capacity)}
	}
	return c
}

// most counts how many spans of time are open at a time, at most in each bin. Spans without a beginning count for
// nothing, those without an end stay open.
func (b bins) most(from, to []int64) func(int) Num {
	type event struct {
		at   int64
		step int
	}
	var events []event
	for i := range from {
		if from[i] >= 0 && to[i] != from[i] {
			events = append(events, event{from[i], 1})
		}
		if from[i] >= 0 && to[i] > from[i] {
			events = append(events, event{to[i], -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), a.step-b.step) })
	open, bin, most := 0, 0, make([]int, b.n)
	for _, e := range events {
		for ; bin < b.at(e.at); bin++ {
			most[bin+1] = open
		}
		open += e.step
		most[bin] = max(most[bin], open)
	}
	for ; bin+1 < b.n; bin++ {
		most[bin+1] = open
	}
	return func(i int) Num { return Num(most[i]) }
}

// underWay draws how many requests are due and not done, and how many of them wait for their admission.
func (r *Replay) underWay(b bins) Chart {
	q := &r.Replay.Requests
	c := Chart{Title: "Requests that are due and not done, at most in each bin", X: b.axis(), Y: Axis{Label: "requests"},
		Series: []Series{b.series("due and not done", b.played, b.most(q.Due, q.Done))}}
	if r.InFlight > 0 {
		c.Series = append(c.Series, b.series("waiting for admission", b.played, b.most(q.Due, q.Admitted)))
	}
	return c
}

// lateness draws how late requests were posted, with the limit of its p99.
func (r *Replay) lateness(b bins) Chart {
	list := make([][]float64, b.n)
	for i, due := range r.Replay.Requests.Due {
		if late := r.LateNS(i); !math.IsNaN(late) {
			list[b.at(due)] = append(list[b.at(due)], late)
		}
	}
	at := func(q float64) func(int) Num {
		return func(i int) Num {
			slices.Sort(list[i])
			return Num(stats.Quantile(list[i], q))
		}
	}
	c := Chart{Title: "Lateness of requests", X: b.axis(), Y: Axis{Label: "latest post - due", Unit: "ns"},
		Series: []Series{b.series("median", b.end, at(0.5)), b.series("latest", b.end, at(1))},
		Limits: []Limit{level("limit of the p99", float64(r.Lateness.LimitNS))}}
	c.Y.Log = c.wide(func(p Point) Num { return p.Y })
	return c
}

// replayCharts draws a replay over its time.
func replayCharts(r *Replay) (list []Chart) {
	if r == nil {
		return nil
	}
	b := r.bins(mostBins)
	for _, c := range []Chart{r.Timeline(mostBins), r.underWay(b), r.lateness(b)} {
		if len(c.Series) > 0 && len(c.Series[0].Points) > 0 {
			list = append(list, c)
		}
	}
	return list
}
