package series

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/must"
	"perigee/internal/kit/pack"
)

func TestSkewIsLastMinusFirst(t *testing.T) {
	if s := Skew([]Exit{{7, 1500}, {7, 1200}, {7, 1250}}); s == nil || *s != 300 {
		t.Errorf("got %v, want 300", s)
	}
	for _, exits := range [][]Exit{nil, {{7, 1500}}, {{7, 1500}, {8, 1200}}, {{0, 0}, {0, 0}}} {
		if s := Skew(exits); s != nil {
			t.Errorf("%v: got %d, want none", exits, *s)
		}
	}
}

func TestLogsRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var logs []Log
		var shapes []Shape
		for i := range rapid.IntRange(0, 4).Draw(rt, "plans") {
			shape := Shape{3 * i, rapid.IntRange(0, 3).Draw(rt, "transfers")}
			var runs []Logged
			for range rapid.IntRange(0, 3).Draw(rt, "runs") {
				stamp := func() int64 { return rapid.Int64().Draw(rt, "stamp") }
				times := Stamps{Start: stamp(), Posted: stamp(), End: stamp(), Done: make([]int64, shape.Transfers)}
				for k := range times.Done {
					times.Done[k] = stamp()
				}
				left := Exit{Barrier: rapid.Uint64Max(1<<63-1).Draw(rt, "barrier")}
				if left.Barrier != 0 {
					left.NS = stamp()
				}
				var agreed Agreed
				if rapid.Bool().Draw(rt, "by the clock") {
					agreed.NS = rapid.Int64Range(1, math.MaxInt64).Draw(rt, "instant")
					agreed.Late = rapid.Int64Range(0, math.MaxInt64).Draw(rt, "late")
				}
				runs = append(runs, Logged{times, left, agreed, rapid.Bool().Draw(rt, "filled"),
					rapid.SampledFrom([]string{"isolated", "workload", ""}).Draw(rt, "phase")})
			}
			logs, shapes = append(logs, Log{shape.Plan, runs}), append(shapes, shape)
		}
		var looks []Look
		for range rapid.IntRange(0, 3).Draw(rt, "looks") {
			ns := func() int64 { return rapid.Int64().Draw(rt, "ns") }
			looks = append(looks, Look{ns(), ns(), ns()})
		}
		data := EncodeLogs(looks, logs)
		seen, got, err := DecodeLogs(data, shapes)
		must.Do(rt, err)
		if d := cmp.Diff(looks, seen); d != "" {
			rt.Fatalf("looks (-want +got):\n%s", d)
		}
		for i, l := range logs {
			if d := cmp.Diff(l.Runs, got[i]); d != "" {
				rt.Fatalf("plan %d (-want +got):\n%s", i, d)
			}
		}
		if len(data) > 0 {
			cut := data[:rapid.IntRange(0, len(data)-1).Draw(rt, "cut")]
			if _, _, err := DecodeLogs(cut, shapes); err == nil {
				rt.Fatalf("%d of %d bytes were read without complaint", len(cut), len(data))
			}
		}
	})
}

func FuzzDecodeLogs(f *testing.F) {
	shapes := []Shape{{0, 2}, {1, 0}}
	f.Add(EncodeLogs([]Look{{5, 1, 2}, {9, 1, 3}}, []Log{
		{0, []Logged{{Stamps{Start: 1, Posted: 2, End: 5, Done: []int64{4, 5}}, Exit{3, 1}, Agreed{7, 2}, true, "workload"}}},
		{Plan: 1},
	}))
	f.Add([]byte{0, 2, 1, 1, 97, 0, 0, 1, 0})
	f.Add([]byte{0, 2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, logs, err := DecodeLogs(data, shapes)
		if err != nil {
			if !errors.Is(err, ErrPlans) && !errors.Is(err, pack.ErrTorn) {
				t.Errorf("unknown error: %v", err)
			}
			return
		}
		for _, run := range logs[0] {
			if len(run.Done) != 2 {
				t.Fatalf("%d stamps for 2 transfers", len(run.Done))
			}
		}
	})
}
