package report

import (
	"os"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
)

// The text has the answer, the load by time scale and the percentiles, on a page's worth of lines.
func TestReplayText(t *testing.T) {
	path := write(t, resulttest.Replayed(12000), "r.json.zst")
	out, _, err := report(t, Cmd{Results: []string{path}, Text: true})
	must.Do(t, err)
	for _, want := range []string{
		"= Offered 832 MB/s, carried 831 MB/s, capacity 1.80 GB/s: not saturated", "# load by time scale\n",
		"        1 s         36        923 MB/s          0.513          0        915 MB/s          234 MB/s\n",
		"all, 36.0 s          1        832 MB/s          0.462          -        831 MB/s                 -\n",
		"                      lateness of all posts  18.9 µs        -  99.1 µs   206 µs\n",
		"   slowdown: transfer / as many bytes alone    2.86x   10.30x   29.33x   89.95x\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if n := strings.Count(out, "\n"); n > mostLines || strings.Contains(out, "0 patterns") || t.Failed() {
		t.Errorf("%d lines:\n%s", n, out)
	}
	full, _, err := report(t, Cmd{Results: []string{path}, Text: true, Full: true})
	if err != nil || !strings.Contains(full, "- Lateness is posted - due on the clock") || !strings.Contains(full, "- the trace stands on a grid\n") {
		t.Errorf("%v\n%s", err, full)
	}
}

// The finding stands before the picture, what else there is to say of a replay behind it.
func TestReplayFindingBeforeThePicture(t *testing.T) {
	d := resulttest.Replayed(12000)
	page, text := htmlOf(t, d), textOf(t, d, look{width: 100, bars: true})
	for name, x := range map[string]struct{ text, picture string }{
		"text": {text, "Load over the time of the replay"}, "page": {page, `data-chart="answer"`},
	} {
		finding, picture := strings.Index(x.text, ": not saturated"), strings.Index(x.text, x.picture)
		if rest := strings.Index(x.text, "Peaks ask for"); finding < 0 || picture < finding || rest < picture {
			t.Errorf("%s: the finding is at %d, the picture at %d, the rest at %d", name, finding, picture, rest)
		}
	}
}

// A page does not grow with the number of requests.
func TestReplayPageIsSmall(t *testing.T) {
	page := pageOf(t, write(t, resulttest.Replayed(100_000), "r.json.zst"))
	if info, err := os.Stat(page); err != nil || info.Size() > 200_000 {
		t.Errorf("%v, %d bytes", err, info.Size())
	}
}

// Replays are no runs of patterns that could be taken together.
func TestReplaysAreNotPooled(t *testing.T) {
	a, b := write(t, resulttest.Replayed(400), "a.json"), write(t, resulttest.Replayed(401), "b.json")
	_, _, err := report(t, Cmd{Results: []string{a, b}, Pool: true, Text: true})
	must.Fail(t, err, fault.Usage, "a.json is a replay")
}

// A page whose replay came too late is not called complete, and has no table twice.
func TestReplayPageOfALateRun(t *testing.T) {
	d := resulttest.Replayed(400)
	d.Scenario.Name = "replay.lua"
	d.Tables = []result.Table{{Title: "as printed", Columns: []string{"Time"}, Rows: [][]any{{"latency"}}}}
	for _, tt := range []struct {
		limit      int64
		has, lacks string
	}{{1e6, `<span class="chip good">complete</span>`, "invalid</span>"}, {1000, `<span class="chip warn">invalid</span>`, "complete</span>"}} {
		resulttest.SumUp(d.Replay, tt.limit)
		text, err := os.ReadFile(pageOf(t, write(t, d, "r.json.zst")))
		if page := string(text); err != nil || !strings.Contains(page, tt.has) || strings.Contains(page, tt.lacks) || strings.Contains(page, "as printed") {
			t.Errorf("limit %d: %v", tt.limit, err)
		}
	}
}
