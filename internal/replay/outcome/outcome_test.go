package outcome_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
	"perigee/internal/model"
	"perigee/internal/replay"
	"perigee/internal/replay/outcome"
	"perigee/internal/result"
	"perigee/internal/trace"
	"perigee/internal/traffic/play"
	"perigee/nixl"
)

// scheduleOf makes a schedule of requests at milliseconds with so many tokens, of 8 bytes each, between 1xTP1 and 2xTP2:
// rank 0 sends to ranks 1 and 2, or 3 and 4, half of the bytes each.
func scheduleOf(t *testing.T, text string, change func(o *replay.Options)) *replay.Schedule {
	t.Helper()
	traced, err := trace.Read("t.csv", strings.NewReader("timestamp_ms,input_length\n"+text), trace.Options{})
	must.Do(t, err)
	m := model.OfHeads("m", 1, 2, 2, 1, 2)
	dtype, err := m.ParseDType("bf16")
	must.Do(t, err)
	cache, err := m.Cache(model.Options{DType: dtype})
	must.Do(t, err)
	o := replay.Options{Model: cache, Prefill: model.Workers{N: 1, TP: 1}, Decode: model.Workers{N: 2, TP: 2}, Op: nixl.Read,
		SpeedUp: 1, Scale: 1}
	change(&o)
	s, err := replay.Make(traced, o)
	must.Do(t, err)
	return s
}

const ms = int64(time.Millisecond)

// posts are those of a transfer at two ranks, which count from zero: late after due, and took for the bytes.
func posts(l *outcome.Log, zero int64, s *replay.Schedule, transfer int, late, took [2]int64) (lists [2][]play.Timed) {
	due := zero + s.Transfers[transfer].DueNS
	for i := range lists {
		lists[i] = []play.Timed{{Transfer: transfer, Due: due, Admitted: due, Posted: due + late[i], End: due + late[i] + took[i], Bytes: l.Bytes(transfer) / 2}}
	}
	return lists
}

// Figures of a schedule whose every post is known follow from it exactly.
func TestFigures(t *testing.T) {
	s := scheduleOf(t, "0,1000\n100,3000\n1250,500\n2000,1500\n", func(*replay.Options) {})
	l := outcome.New(s)
	const zero = 77_000_000_000
	l.Begin(zero)
	capacity := 100e3 // bytes per second
	r := &result.Replay{Capacity: &capacity, FLOPS: 1}
	r.Lateness.LimitNS = ms
	outcome.Alone(r, []result.ReplayAlone{{Bytes: 24000, NS: 30 * ms, Runs: 1}, {Bytes: 4000, NS: 10 * ms, Runs: 1}})
	for i, of := range [][2][2]int64{
		{{0, 0}, {10 * ms, 20 * ms}}, {{ms / 2, 2 * ms}, {100 * ms, 100 * ms}}, {{0, 0}, {10 * ms, 10 * ms}}, {{3 * ms, 0}, {50 * ms, 40 * ms}},
	} {
		lists := posts(l, zero, s, i, of[0], of[1])
		first := 1 + 2*(i%2)
		if !l.Add(first, lists[0]) || !l.Add(first+1, lists[1]) {
			t.Fatal("refused")
		}
	}
	l.Fill(r)

	const bytes = 6000 * 8
	// Of the last transfer, due at the window's end, nothing moved within it.
	if r.Bytes != bytes || r.Done != 4 || r.SpanNS != 2000*ms || r.DrainNS != 53*ms || r.Offered != bytes/2. || r.Carried != (bytes-12000)/2. {
		t.Errorf("bytes %d, done %d, span %d, drain %d, offered %g, carried %g", r.Bytes, r.Done, r.SpanNS, r.DrainNS, r.Offered, r.Carried)
	}
	// Windows of 0.1 s: the second request stands at the beginning of the second one, and moves in it and a little of the
	// third. A rank gets half of a request.
	want := []result.ReplayScale{
		{WindowS: 0.1, Offered: 240e3, PerRank: 120e3, Capacity: 2.4, Over: 2, Windows: 21},
		{WindowS: 1, Offered: 32e3, Carried: 32e3, PerRank: 12e3, Capacity: 0.32, Windows: 3},
	}
	want[0].Carried = 24000 * (1 - (0.5+2)/2/100) * 10
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(a) })
	must.Equal(t, want, r.Scales, near)
	if got := r.Lateness; got.P50NS != 0 || got.MaxNS != 3*ms || got.Late != 2 || got.Stalls != 2 || got.Posts != 8 || got.Valid || got.P99NS <= 2*ms ||
		got.OfGap != float64(got.P99NS)/(2000e6*4/8) {
		t.Errorf("%+v", got)
	}
	wantRows := result.ReplayRequests{
		Index: []int{0, 1, 2, 3}, Prefill: []int{0, 0, 0, 0}, Decode: []int{0, 1, 0, 1}, Tokens: []int64{1000, 3000, 500, 1500},
		Bytes: []int64{8000, 24000, 4000, 12000}, Due: []int64{0, 100 * ms, 1250 * ms, 2000 * ms},
		Admitted: []int64{0, 100 * ms, 1250 * ms, 2000 * ms}, Posted: []int64{0, 100*ms + ms/2, 1250 * ms, 2000 * ms}, Late: []int64{0, 2 * ms, 0, 3 * ms},
		Done: []int64{20 * ms, 202 * ms, 1260 * ms, 2053 * ms}, PrefillNS: r.Requests.PrefillNS,
	}
	must.Equal(t, wantRows, r.Requests)
	if r.Latency.MaxNS != 102*ms || r.Transfer.MaxNS != 202*ms-100*ms-ms/2 || r.Queue != nil || *r.Alone != 800e3 || r.Fit != nil {
		t.Errorf("latency %+v, transfer %+v, queue %v, alone %g, fit %v", r.Latency, r.Transfer, r.Queue, *r.Alone, r.Fit)
	}
	// 8000 bytes alone take 14 ms, 12000 take 18 ms.
	if got := r.Slowdown; math.Abs(got.Max-101.5/30) > 1e-9 || math.Abs(got.P50-(20./14+53./18)/2) > 1e-9 {
		t.Errorf("slowdown %+v", got)
	}
}

// What is offered is known of a schedule of which nothing is done. Windows longer than the span say nothing.
func TestOffered(t *testing.T) {
	s := scheduleOf(t, "0,1500\n0,1024\n1000,1400\n2050,1500\n", func(o *replay.Options) { o.Decode = model.Workers{N: 1, TP: 2} })
	l := outcome.New(s)
	l.Gathered(math.MaxInt64)
	var r result.Replay
	l.Fill(&r)
	const token = 8
	want := []result.ReplayScale{
		{WindowS: 0.1, Offered: 10 * 2524 * token, PerRank: 5 * 2524 * token, Windows: 21},
		{WindowS: 1, Offered: 2524 * token, PerRank: 1262 * token, Windows: 3},
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(a) })
	if diff := cmp.Diff(want, r.Scales, near); diff != "" || math.Abs(r.Offered-5424*token/2.05) > 1 || r.Carried != 0 {
		t.Errorf("offered %g, carried %g, %s", r.Offered, r.Carried, diff)
	}
}

// What was measured before a run ended is judged as far as it came.
func TestPartOfSchedule(t *testing.T) {
	s := scheduleOf(t, "0,1000\n500,1000\n4000,8000\n", func(*replay.Options) {})
	l := outcome.New(s)
	l.Begin(5)
	r := &result.Replay{}
	l.Fill(r)
	if r.Carried != 0 || r.Done != 0 || r.Latency != nil || !r.Lateness.Valid || r.Requests.Done[0] != -1 || r.Requests.Posted[2] != -1 {
		t.Errorf("%+v", r)
	}
	for i := range 2 {
		lists := posts(l, 5, s, i, [2]int64{}, [2]int64{100 * ms, 500 * ms})
		l.Add(1+2*i, lists[0])
		if i == 0 {
			l.Add(2, lists[1])
		}
	}
	// 12000 bytes within 600 ms: the second request's other half is under way, and the third one's are not due.
	l.Gathered(5 + 690*ms)
	l.Gathered(5 + 600*ms)
	l.Fill(r)
	want := []result.ReplayScale{{WindowS: 0.1, Offered: 80e3, Carried: 48e3, PerRank: 40e3, Windows: 6}}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(a) })
	if diff := cmp.Diff(want, r.Scales, near); diff != "" || r.SpanNS != 600*ms || r.Offered != 16000/0.6 {
		t.Errorf("span %d, offered %g, %s", r.SpanNS, r.Offered, diff)
	}
	if r.Done != 1 || r.Carried != 12000/0.6 || r.DrainNS != 0 || !cmp.Equal(r.Requests.Done, []int64{500 * ms, -1, -1}) || r.Requests.Posted[1] != 500*ms {
		t.Errorf("done %d, carried %g, drain %d, %+v", r.Done, r.Carried, r.DrainNS, r.Requests)
	}
	lists := posts(l, 5, s, 0, [2]int64{}, [2]int64{})
	if l.Add(1, lists[0]) || l.Add(1, []play.Timed{{Transfer: 3}}) {
		t.Error("a post that is not of the schedule was taken")
	}
}

// A constant delay of all posts counts as what it is, and one stall is in the maximum and not in the median.
func TestLateness(t *testing.T) {
	var text strings.Builder
	for i := range 301 {
		fmt.Fprintf(&text, "%d,10\n", 100*i)
	}
	s := scheduleOf(t, text.String(), func(*replay.Options) {})
	for name, c := range map[string]struct {
		late          func(i int) int64
		p50, most     int64
		valid         bool
		stalls, lates int64
	}{
		"constant": {func(int) int64 { return 50 * ms }, 50 * ms, 50 * ms, false, 1, 301},
		"a stall":  {func(i int) int64 { return map[bool]int64{true: 50 * ms}[i == 7] }, 0, 50 * ms, true, 1, 1},
		"two":      {func(i int) int64 { return map[bool]int64{true: 50 * ms}[i == 7 || i == 9] }, 0, 50 * ms, true, 2, 2},
		"none":     {func(int) int64 { return ms }, ms, ms, true, 0, 0},
	} {
		l := outcome.New(s)
		for i := range s.Transfers {
			due := s.Transfers[i].DueNS
			l.Add(1, []play.Timed{{Transfer: i, Due: due, Admitted: due, Posted: due + c.late(i) + int64(i), End: due + 100*ms, Bytes: l.Bytes(i)}})
		}
		r := &result.Replay{}
		r.Lateness.LimitNS = ms + 1000
		l.Fill(r)
		if got := r.Lateness; got.P50NS/ms != c.p50/ms || got.MaxNS/ms != c.most/ms || got.Valid != c.valid || got.Stalls != c.stalls || got.Late != c.lates {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Waits for admission are a queue, not lateness.
func TestQueue(t *testing.T) {
	s := scheduleOf(t, "0,10\n1000,10\n", func(*replay.Options) {})
	l := outcome.New(s)
	for i := range 2 {
		due := s.Transfers[i].DueNS
		l.Add(1, []play.Timed{{Transfer: i, Due: due, Admitted: due + 70*ms, Posted: due + 70*ms, End: due + 80*ms, Bytes: l.Bytes(i)}})
	}
	r := &result.Replay{InFlight: 1}
	l.Fill(r)
	if r.Queue == nil || r.Queue.P50NS != 70*ms || r.Lateness.MaxNS != 0 || r.Latency.P50NS != 80*ms || r.Transfer.P50NS != 10*ms {
		t.Errorf("%+v, %+v, %+v, %+v", r.Queue, r.Lateness, r.Latency, r.Transfer)
	}
}

// Of layers that leave during the prefill only what comes after its end is part of TTFT.
func TestLayerRuns(t *testing.T) {
	s := scheduleOf(t, "0,1000\n1000,1000\n", func(o *replay.Options) {
		o.FLOPS, o.LayerRuns = 1e9, 2
		o.Model = twoLayers(t)
	})
	l := outcome.New(s)
	r := &result.Replay{}
	for i, x := range s.Transfers {
		l.Add(1, []play.Timed{{Transfer: i, Due: x.DueNS, Admitted: x.DueNS, Posted: x.DueNS, End: x.DueNS + 10*ms, Bytes: l.Bytes(i)}})
	}
	l.Fill(r)
	prefill := r.Requests.PrefillNS[0]
	if len(s.Transfers) != 4 || r.Done != 2 || r.Share.Max != 10e6/float64(10*ms+prefill) || r.Latency.MaxNS < prefill/2 {
		t.Errorf("%d transfers, share %+v, prefill %d, latency %+v", len(s.Transfers), r.Share, prefill, r.Latency)
	}
}

func twoLayers(t *testing.T) *model.Cache {
	t.Helper()
	m := model.OfHeads("m", 2, 2, 2, 1, 2)
	dtype, err := m.ParseDType("bf16")
	must.Do(t, err)
	c, err := m.Cache(model.Options{DType: dtype})
	must.Do(t, err)
	return c
}
