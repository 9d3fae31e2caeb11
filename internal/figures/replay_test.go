package figures

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
)

func replayed(t *testing.T, requests int, change func(*result.Replay)) *Figures {
	t.Helper()
	d := resulttest.Replayed(requests)
	if change != nil {
		change(d.Replay)
	}
	f, err := Of(d)
	must.Do(t, err)
	return f
}

func capacity(v float64) func(*result.Replay) {
	return func(r *result.Replay) {
		r.Capacity = &v
		resulttest.SumUp(r, r.Lateness.LimitNS)
		for i := range r.Scales {
			r.Scales[i].Carried = min(r.Scales[i].Carried, v)
		}
	}
}

// The answer is the result's own; how good the news is follows from the same figures.
func TestReplayAnswer(t *testing.T) {
	for _, c := range []struct {
		change           func(*result.Replay)
		level, text, why string
	}{
		{nil, "good", "Offered 832 MB/s, carried 831 MB/s, capacity 1.80 GB/s: not saturated, 0.46 of the capacity on average.",
			"Peaks ask for 0.81 x the capacity in 0.1 s, 0.51 x the capacity in 1 s, 0.47 x the capacity in 10 s; 0.1 s of the replay are 10 s of the trace. 12000 requests of 29.9 GB, Qwen3-32B in bf16 from 2xTP2 to 2xTP2, in 36.0 s at 100 times the speed; lateness p99 99.1 µs. After the last was due it took 15.3 ms until all were done, which counts apart."},
		{func(r *result.Replay) { r.Scale = 0.001 }, "note", "not saturated by this replay", "in full it asks for 8.32 GB/s"},
		{capacity(1.1e9), "note", "Peaks ask for 1.3 x the capacity in 0.1 s (", "not saturated, 0.76"},
		{capacity(400e6), "bad", ": saturated, 2.1 x the capacity on average.", "Peaks ask for 3.6 x"},
		{func(r *result.Replay) { r.Capacity = nil }, "note", "Offered 832 MB/s, carried 831 MB/s.", "x the mean in 0.1 s"},
		{func(r *result.Replay) { resulttest.SumUp(r, 50_000) }, "bad", "Offered 832 MB/s, carried 831 MB/s, capacity 1.80 GB/s. INVALID: posts came too late: p99 99.1µs of 12000, " +
			"wanted at most 50µs (--max-late); at most ", "This was not the trace's load: "},
		{func(r *result.Replay) {
			for i := 4000; i < 12000; i++ {
				r.Requests.Posted[i], r.Requests.Done[i] = -1, -1
			}
			resulttest.SumUp(r, 1e6)
		}, "note", "carried 278 MB/s", "8000 requests not complete."},
		{func(r *result.Replay) { r.Lateness = result.ReplayLateness{Valid: true} }, "note", "Nothing was played.", ""},
	} {
		f := replayed(t, 12000, c.change)
		if a := f.Answer; a.Level != c.level || !strings.Contains(a.Sentence, c.text) || !strings.Contains(a.Why, c.why) {
			t.Errorf("wanted (%s) %q, %q, got (%s) %q, %q", c.level, c.text, c.why, a.Level, a.Sentence, a.Why)
		}
		late := slices.ContainsFunc(f.Findings, func(x Finding) bool { return strings.Contains(x.Text, "ateness") })
		if late != (f.Replay.Lateness.Posts > 0) {
			t.Errorf("%q: of %d posts the findings are %+v", c.text, f.Replay.Lateness.Posts, f.Findings)
		}
		if len(f.Answer.Charts) != 3 || !f.Answer.Charts[0].Wide {
			t.Errorf("%q: %d charts", c.text, len(f.Answer.Charts))
		}
	}
}

// sum is the bytes of a series of rates.
func sum(s Series, width int64) (bytes float64) {
	for _, p := range s.Points {
		bytes += float64(p.Y) * float64(width) / 1e9
	}
	return bytes
}

// The timeline holds all bytes, in bins of whole steps of the grid; text has fewer, longer ones.
func TestReplayTimeline(t *testing.T) {
	for _, most := range []int{mostBins, 8} {
		f := replayed(t, 12000, nil)
		b, c := f.Replay.bins(most), f.Replay.Timeline(most)
		if b.width%30e6 != 0 || b.n > most || b.n < most/3 {
			t.Errorf("%d bins of %d ns", b.n, b.width)
		}
		for _, s := range c.Series {
			if got, want := sum(s, b.width), float64(f.Replay.Bytes); math.Abs(got-want) > 1e-6*want {
				t.Errorf("%s: %g bytes, want %g", s.Name, got, want)
			}
		}
		highest := Num(0)
		for _, p := range c.Series[0].Points {
			if highest = max(highest, p.High); p.Low != p.Y || p.High < p.Y {
				t.Errorf("%+v", p)
			}
		}
		if want := f.Replay.Scales[0].Offered; math.Abs(float64(highest)-want) > 1e-6*want {
			t.Errorf("the highest bar is %g, the table has %g", highest, want)
		}
		if len(c.Limits) != 1 || c.Limits[0].Points[0].Y != 1.8e9 {
			t.Errorf("%+v", c.Limits)
		}
	}
	far := replayed(t, 12000, capacity(90e9)).Answer.Charts[0]
	if len(far.Limits) > 0 || !strings.Contains(far.Title, "90.0 GB/s is far above") {
		t.Errorf("%q, %+v", far.Title, far.Limits)
	}
}

// three are requests of 100 bytes on one decode worker, of which the last is not done.
func three(r *result.Replay) {
	*r = result.Replay{SpeedUp: 1, Scale: 1, InFlight: 1, SpanNS: 300, Requests: result.ReplayRequests{
		Index: []int{0, 1, 2}, Prefill: make([]int, 3), Decode: make([]int, 3), Tokens: make([]int64, 3), Bytes: []int64{100, 100, 100},
		Due: []int64{0, 100, 300}, Admitted: []int64{0, 250, 300}, Posted: []int64{10, 260, -1}, Late: []int64{10, 10, -1}, Done: []int64{250, 310, -1}, PrefillNS: make([]int64, 3),
	}}
}

// Queue, transfers under way and lateness are those of the columns; what did not happen is in none of them.
func TestReplayOverTime(t *testing.T) {
	r := replayed(t, 10, three).Replay
	b := bins{width: 100, end: 310, played: 310, n: 4}
	values := func(s Series) (list []Num) {
		for _, p := range s.Points {
			list = append(list, p.Y)
		}
		return list
	}
	c := r.underWay(b)
	for i, want := range [][]Num{{1, 2, 2, 2}, {0, 1, 1, 0}} {
		if got := values(c.Series[i]); len(got) != 4 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
			t.Errorf("%s: %v, want %v", c.Series[i].Name, got, want)
		}
	}
	if late := r.lateness(b).Series[1].Points; len(late) != 2 || late[0].Y != 10 || late[1].X != 100 || late[1].Y != 10 {
		t.Errorf("lateness from the admission on: %+v", late)
	}
}

// What a run that was cut off has not played is offered, and neither carried nor waited for.
func TestReplayThatWasCutOff(t *testing.T) {
	f := replayed(t, 400, func(r *result.Replay) {
		r.InFlight = 2
		for i := 150; i < 400; i++ {
			r.Requests.Admitted[i], r.Requests.Posted[i], r.Requests.Done[i] = -1, -1, -1
		}
		resulttest.SumUp(r, 1e6)
	})
	for _, c := range f.Answer.Charts[:2] {
		for _, s := range c.Series {
			last := s.Points[len(s.Points)-1]
			if known := last.X < 0.5e9; known == strings.HasPrefix(s.Name, "offered") || known && s.Name == "waiting for admission" && last.Y > 10 {
				t.Errorf("%s ends at %g with %g", s.Name, last.X, last.Y)
			}
		}
	}
}

// Columns with any numbers yield some picture, and none that fails.
func TestReplayOfOddColumns(t *testing.T) {
	odd := []int64{math.MinInt64, -7, 0, 5, math.MaxInt64}
	for _, a := range odd {
		for _, b := range odd {
			f := replayed(t, 10, func(r *result.Replay) {
				three(r)
				q := &r.Requests
				q.Due[1], q.Posted[1], q.Done[2], q.Bytes[0], q.Admitted[1] = a, b, a, b, a
			})
			if _, err := json.Marshal(f); err != nil {
				t.Errorf("%d, %d: %v", a, b, err)
			}
		}
	}
}

// JSON has the figures of the result, and no columns: the pictures have what they draw.
func TestReplayJSON(t *testing.T) {
	text, err := json.Marshal(replayed(t, 12000, nil))
	if err != nil || len(text) > 200_000 || !strings.Contains(string(text), `"requests":12000`) || strings.Contains(string(text), "admitted_ns") ||
		!strings.Contains(string(text), `"peak_offered_bytes_per_s"`) {
		t.Errorf("%v, %d bytes", err, len(text))
	}
}
