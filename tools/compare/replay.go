package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/metric"
	"perigee/internal/result"
	"perigee/internal/size"
)

// replayFigures are the metrics of a replay that are compared, each with the aggregate that makes one number of a run.
// The first one stands for the comparison.
var replayFigures = [][2]string{
	{"replay_latency_ms", "p50"}, {"replay_latency_ms", "p99"}, {"replay_slowdown", "p50"}, {"replay_slowdown", "p99"},
	{"replay_queue_ms", "p99"}, {"replay_ttft_share", "p50"}, {"replay_lateness_ms", "p99"},
	{"replay_carried_gb_per_s", ""}, {"replay_capacity_gb_per_s", ""},
}

// gatherReplays adds the rows of replays.
func (r *Report) gatherReplays(old, fresh []*result.Document) {
	docs := slices.Concat(old, fresh)
	for _, f := range replayFigures {
		name, aggregate := f[0], f[1]
		c := collector{docs: docs, olds: len(old), numbers: r.numbers}
		for i, d := range docs {
			if aggregate == "" {
				metric.Each(d, name, func(s metric.Sample) { c.add(i, s) })
			} else if v := metric.Value(d, name, aggregate); !math.IsNaN(v) {
				c.add(i, metric.Sample{Value: v, Pattern: -1, Phase: metric.ReplayPhase, Rank: -1, Peer: -1})
			}
		}
		for _, g := range c.taken() {
			row := newRow(g)
			row.Metric, row.better, row.replay = strings.TrimSuffix(name+"."+aggregate, "."), betterOf(name), true
			r.Rows = append(r.Rows, row)
		}
	}
}

// isInvalid reports whether a run replayed a trace too late: what it carried is that of another load.
func isInvalid(d *result.Document) bool {
	return d.Replay != nil && d.Replay.Lateness.Posts > 0 && !d.Replay.Lateness.Valid
}

// otherSchedule says in what the schedules of two replays differ; empty where they are the same, or there are not two.
func otherSchedule(docs []*result.Document) string {
	docs = slices.DeleteFunc(slices.Clone(docs), func(d *result.Document) bool { return d.Replay == nil })
	for i := 1; i < len(docs); i++ {
		a, b := docs[0].Replay, docs[i].Replay
		p, q := &a.Requests, &b.Requests
		if slices.Equal(p.Index, q.Index) && slices.Equal(p.Bytes, q.Bytes) && slices.Equal(p.Due, q.Due) &&
			slices.Equal(p.Prefill, q.Prefill) && slices.Equal(p.Decode, q.Decode) {
			continue
		}
		return fmt.Sprintf("not the same schedule: %s", strings.Join(settingsDiffer(a, b), "; "))
	}
	return ""
}

// settingsDiffer names the settings that two replays do not share, with their values, or else what they offer.
func settingsDiffer(a, b *result.Replay) (list []string) {
	settings := func(r *result.Replay) [][2]string {
		trace := r.Trace.File
		if a.Trace.SHA256 != "" && b.Trace.SHA256 != "" { // a copy has another name
			trace += fmt.Sprintf(" (SHA-256 %.8s)", r.Trace.SHA256)
		}
		workers := fmt.Sprintf("%dxTP%d to %dxTP%d", r.Prefill.N, r.Prefill.TP, r.Decode.N, r.Decode.TP)
		return [][2]string{{"trace", trace}, {"window", fmt.Sprintf("%g to %g s", r.Trace.FromS, r.Trace.ToS)},
			{"model", r.Model + " " + r.DType}, {"workers", workers}, {"speed", fmt.Sprintf("%g", r.SpeedUp)},
			{"scale", fmt.Sprintf("%g", r.Scale)}, {"routing", r.Routing}, {"moved", r.Moved},
			{"spread", fmt.Sprint(r.Spread)}, {"prefill", fmt.Sprintf("%g FLOP/s, waited for: %t", r.FLOPS, r.Waits)}}
	}
	x, y := settings(a), settings(b)
	for i := range x {
		same := x[i] == y[i] || x[i][0] == "trace" && a.Trace.SHA256 != "" && a.Trace.SHA256 == b.Trace.SHA256
		if !same {
			list = append(list, fmt.Sprintf("%s %s and %s", x[i][0], x[i][1], y[i][1]))
		}
	}
	if list == nil {
		list = []string{fmt.Sprintf("%d requests of %s and %d of %s, though trace, model, workers, speed and scale are the same",
			len(a.Requests.Index), size.Decimal(a.Bytes), len(b.Requests.Index), size.Decimal(b.Bytes))}
	}
	return list
}
