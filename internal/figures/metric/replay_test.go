package metric

import (
	"math"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
)

// Thresholds on a replay hold what the result says of it: percentiles as the report shows them.
func TestReplayThresholds(t *testing.T) {
	d := resulttest.Replayed(12000)
	r := d.Replay
	r.InFlight = 4
	resulttest.SumUp(r, 1e6)
	for name, want := range map[string]float64{
		"replay_latency_ms.p99": float64(r.Latency.P99NS) / 1e6, "replay_latency_ms.count": 12000, "replay_queue_ms.max": float64(r.Queue.MaxNS) / 1e6,
		"replay_lateness_ms.p99": float64(r.Lateness.P99NS) / 1e6, "replay_lateness_ms.median": float64(r.Lateness.P50NS) / 1e6,
		"replay_transfer_ms.p90": float64(r.Transfer.P90NS) / 1e6, "replay_slowdown.max": r.Slowdown.Max, "replay_ttft_share.p50": r.Share.P50,
		"replay_offered_gb_per_s.min": r.Offered / 1e9, "replay_carried_gb_per_s.max": r.Carried / 1e9, "replay_capacity_gb_per_s.min": 1.8,
		"replay_offered_of_capacity.max": r.Offered / 1.8e9, "replay_peak_of_capacity{window_s=10}.max": r.Scales[2].Offered / 1.8e9,
		"replay_late_posts.max": 0, "replay_valid.min": 1,
	} {
		th, err := ReadThreshold(name+" >= 0", nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o := th.Judge(d)
		if math.Abs(o.Value-want) > 1e-6*(1+want) || !o.Passed || o.Samples == 0 {
			t.Errorf("%s: %+v, want %g", name, o, want)
		}
		if again, err := Parse(th.String()); err != nil || again.Judge(d).Value != o.Value {
			t.Errorf("%s is written as %s: %v", name, th, err)
		}
	}
	if v := Value(d, "replay_slowdown", "p99"); v != r.Slowdown.P99 {
		t.Errorf("p99 of slowdown: %g", v)
	}
	resulttest.SumUp(r, 50_000)
	if th, _ := Parse("replay_valid.min == 1"); th.Judge(d).Passed {
		t.Error("an invalid run passes")
	}
}

// A threshold on what is not there is violated, and says why, also where it would hold of nothing.
func TestReplayThresholdsOfNothing(t *testing.T) {
	none, short, unplayed := &result.Document{}, resulttest.Replayed(400), resulttest.Replayed(400)
	unplayed.Replay.Lateness = result.ReplayLateness{Valid: true}
	for _, c := range []struct {
		d          *result.Document
		text, want string
	}{
		{none, "replay_late_posts.count == 0", "there are no samples: this run has replayed no trace (perigee replay)"},
		{none, "replay_latency_ms.p99 < 40", "this run has replayed no trace"},
		{short, "replay_peak_of_capacity{window_s=60}.max < 2", `there are no samples: there is only window_s=0.1, window_s=1`},
		{short, "replay_queue_ms.p99 < 2", "there are no samples: the replay has no such figure"},
		{unplayed, "replay_late_posts.max == 0", "there are no samples: the replay has no such figure"},
		{unplayed, "replay_valid.min == 1", "there are no samples: the replay has no such figure"},
		{short, "replay_lateness_ms.p90 < 2", "there are no samples: there is only "},
	} {
		th, err := ReadThreshold(c.text, nil)
		must.Do(t, err)
		if o := th.Judge(c.d); o.Passed || !strings.Contains(o.String(), c.want) {
			t.Errorf("%s: %s, want %s", c.text, o, c.want)
		}
	}
	for text, want := range map[string]string{
		"replay_slowdown.mean < 2":             "replay_slowdown has no mean: a result has its p50, p90, p99 and max",
		"replay_latency_ms.p99 < 40 abort":     "replay_latency_ms is known at the end of a run, too late for abort",
		"replay_latency_ms{window_s=1}.p99<40": `the samples have no column "window_s"`,
		"replay.latency_ms.p99 < 40":           `there is no metric "replay"`,
	} {
		if _, err := ReadThreshold(text, nil); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
