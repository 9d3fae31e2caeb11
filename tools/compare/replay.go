package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/size"
	"perigee/internal/result"
)

// replayFigures are the metrics of a replay that are compared, each with the aggregate that makes one number of a run,
// where it is not one already. The first one stands for the comparison.
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
			if v := metric.Value(d, name, cmp.Or(aggregate, "max")); !math.IsNaN(v) {
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

// sayForced notes how many late runs count by force.
func (r *Report) sayForced(sides ...[]*result.Document) {
	for i, name := range []string{"OLD", "NEW"} {
		n := len(sides[i]) - len(slices.DeleteFunc(slices.Clone(sides[i]), isInvalid))
		if n > 0 {
			r.Remarks = append(r.Remarks, fmt.Sprintf("--force counts %s of %s: invalid (lateness)", cli.Count(n, "run"), name))
		}
	}
}

// otherSchedule says of two replays that their schedules differ; empty where they are the same, or there are not two.
func otherSchedule(docs []*result.Document) string {
	docs = slices.DeleteFunc(slices.Clone(docs), func(d *result.Document) bool { return d.Replay == nil })
	for i := 1; i < len(docs); i++ {
		a, b := docs[0].Replay, docs[i].Replay
		p, q := &a.Requests, &b.Requests
		if !slices.Equal(p.Index, q.Index) || !slices.Equal(p.Bytes, q.Bytes) || !slices.Equal(p.Due, q.Due) ||
			!slices.Equal(p.Prefill, q.Prefill) || !slices.Equal(p.Decode, q.Decode) {
			return fmt.Sprintf("not the same schedule: %s; %s", scheduleText(a), scheduleText(b))
		}
	}
	return ""
}

// scheduleText says what makes schedules differ beside settings, which the headline compares.
func scheduleText(r *result.Replay) string {
	return fmt.Sprintf("%d requests of %s in %.3f s of %s (SHA-256 %.8s)", len(r.Requests.Index), size.Decimal(r.Bytes),
		float64(r.SpanNS)/1e9, r.Trace.File, r.Trace.SHA256)
}
