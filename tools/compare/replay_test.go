package compare

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
)

// replays are so many runs of one schedule, each of which took so many times as long as the trace asks.
func replays(n int, slower float64, change func(*result.Replay)) (list []*result.Document) {
	for i := range n {
		d := resulttest.Replayed(400)
		d.Started = d.Started.Add(time.Duration(i) * time.Minute)
		q := &d.Replay.Requests
		for k := range q.Done {
			q.Done[k] = q.Posted[k] + int64(float64(q.Done[k]-q.Posted[k])*slower*(1+0.01*float64((i*7+k*3)%5)))
		}
		resulttest.SumUp(d.Replay, 1e6)
		if change != nil {
			change(d.Replay)
		}
		list = append(list, d)
	}
	return list
}

func compared(t *testing.T, old, fresh []*result.Document) (*Report, string) {
	t.Helper()
	r, err := Compare(old, fresh, Options{Alpha: 0.05, Metric: "latency_ms"})
	must.Do(t, err)
	var text bytes.Buffer
	must.Do(t, r.WriteText(&text, nil, false))
	return r, text.String()
}

// Replays of one schedule are compared by their own figures, tested as others are; what was offered stands beside.
func TestReplays(t *testing.T) {
	r, text := compared(t, replays(5, 1, nil), replays(5, 1.5, nil))
	for _, want := range []string{"# Worse: ", "replay_latency_ms.p50: ", "# offered by the trace: OLD 814 MB/s, NEW 814 MB/s\n", "# the replay\n",
		"replay_latency_ms.p99", "replay_slowdown.p99", "replay_ttft_share.p50", "replay_carried_gb_per_s", "replay_capacity_gb_per_s"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if main := r.Main(); main.Metric != "replay_latency_ms.p50" || main.unit() != "ms" || main.Verdict != Worse || main.Change < 0.4 || main.Change > 0.6 {
		t.Errorf("%+v", main)
	}
	if strings.Contains(text, "metrics of the scenario") || strings.Contains(text, "replay_queue_ms") {
		t.Errorf("shows what is not there:\n%s", text)
	}
	if r, text := compared(t, replays(5, 1, nil), replays(5, 1, nil)); r.Count(Worse)+r.Count(Better)+r.Count(Differs) > 0 {
		t.Errorf("equal sides differ:\n%s", text)
	}
}

// Another schedule gives figures and no verdict, and says of which trace it is; how it was played does not count.
func TestReplaysOfOtherSchedules(t *testing.T) {
	const old = "400 requests of 952 MB in 1.170 s of conversation.jsonl (SHA-256 ); "
	for want, change := range map[string]func(*result.Replay){
		"": func(r *result.Replay) { r.Op, r.InFlight = "WRITE", 4 },
		old + "400 requests of 952 MB in 1.170 s of other.jsonl (SHA-256 0a0a0a0a)": func(r *result.Replay) {
			r.Trace.File, r.Trace.SHA256 = "other.jsonl", strings.Repeat("0a", 32)
			r.Requests.Due[17]++
		},
		old + "400 requests of 952 MB in 2.000 s of conversation.jsonl": func(r *result.Replay) {
			r.SpanNS = 2e9
			r.Requests.Decode[17]++
		},
	} {
		r, text := compared(t, replays(5, 1, nil), replays(5, 1.5, change))
		said := strings.Contains(text, "# no verdicts: not the same schedule: "+want)
		if (want != "") != said || r.Judged == said || r.unlike != said {
			t.Errorf("%q: judged %t\n%s", want, r.Judged, text)
		}
	}
}

// What was replayed too late is left out; a side that has nothing else cannot be compared.
func TestInvalidReplays(t *testing.T) {
	late := func(r *result.Replay) { resulttest.SumUp(r, 1000) }
	r, text := compared(t, replays(5, 1, nil), replays(5, 1.5, late))
	if r.Judged || !r.unlike || !strings.Contains(text, "# no verdicts: all runs of NEW are invalid (lateness), and replayed another load than the trace's") {
		t.Error(text)
	}
	both := "all runs of OLD and of NEW are invalid (lateness), and replayed another load than the trace's"
	if r, text = compared(t, replays(1, 1, late), replays(1, 1.5, late)); !r.unlike || !strings.Contains(text, "# no verdicts: "+both) {
		t.Error(text)
	}
	other := func(r *result.Replay) { late(r); r.Requests.Due[17]++ }
	if _, text = compared(t, replays(1, 1, late), replays(1, 1.5, other)); !strings.Contains(text, "# no verdicts: "+both+"; not the same schedule: ") {
		t.Error(text)
	}
	r, text = compared(t, append(replays(5, 1, nil), replays(1, 1, late)...), replays(5, 1.5, nil))
	if !r.Judged || r.OldN != 5 || !strings.Contains(text, "1 run of OLD left out: invalid (lateness)") {
		t.Error(fmt.Sprint(r.Judged, r.OldN), text)
	}
	forced, err := Compare(replays(5, 1, nil), replays(5, 1.5, late), Options{Alpha: 0.05, Metric: "latency_ms", Force: true})
	if err != nil || !forced.Judged || !slices.Contains(forced.Remarks, "--force counts 5 runs of NEW: invalid (lateness)") {
		t.Error(err, forced.Remarks)
	}
}
