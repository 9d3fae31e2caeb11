package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/scenarios"
)

// simulateReplay runs the command on a trace of four requests of 131,072 bytes a token: 400 and 200 tokens at once, 100
// half a second later, 300 after 20 s in all.
func simulateReplay(t *testing.T, words ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.jsonl")
	var text strings.Builder
	for _, r := range [][2]int{{0, 400}, {0, 200}, {500, 100}, {20000, 300}} {
		fmt.Fprintf(&text, `{"timestamp": %d, "input_length": %d, "output_length": 1, "hash_ids": [0]}`+"\n", r[0], r[1])
	}
	must.Do(t, os.WriteFile(path, []byte(text.String()), 0o600))
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "FILE", path)
	}
	var c Cmd
	rest, err := cli.Take(&c, words)
	for _, word := range rest {
		n, _ := strconv.Atoi(word)
		c.Ranks = append(c.Ranks, n)
	}
	must.Do(t, err)
	var out bytes.Buffer
	err = c.run(cli.Streams{Out: &out, Err: &out}, func() (int64, error) { return 4 << 30, nil })
	return out.String(), err
}

// The offered load has known answers, and the ranks of the replay do what ranks of a job do.
func TestReplay(t *testing.T) {
	args := []string{"--replay", "FILE", "--model", "llama3.1-8b", "--prefill", "4xTP2", "--decode", "2xTP4", "--ranks-per-host", "4"}
	text, err := simulateReplay(t, append(args, "--format", "json")...)
	var doc report
	if err == nil {
		err = json.Unmarshal([]byte(text), &doc)
	}
	if err != nil || len(doc.Runs) != 1 || doc.Runs[0].Replay == nil || doc.Runs[0].Workload != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	const token = 131072
	o := doc.Runs[0].Replay
	if o.Requests != 4 || o.Transfers != 4 || o.Bytes != 1000*token || o.SpanS != 20 || o.Mean != 50*token || o.Gathers != 11 {
		t.Errorf("%+v", o)
	}
	// Requests go to the decode workers in turn: 400 and 100 tokens to one, a quarter of them to each of its ranks.
	want := []OfferedWindow{{0.1, 6000 * token, 1000 * token}, {1, 700 * token, 125 * token}, {10, 70 * token, 12.5 * token}}
	for i, w := range o.Windows {
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6*b }
		if len(o.Windows) != 3 || !near(w.Peak, want[i].Peak) || !near(w.PerRank, want[i].PerRank) {
			t.Errorf("%+v, want %+v", w, want[i])
		}
	}
	phases := map[string]Phase{}
	for _, p := range doc.Runs[0].Phases {
		phases[p.Name] = p
	}
	if p := phases["records"]; p.TotalMessages == 0 || p.TotalBytes < 2*4*recordBytes {
		t.Errorf("%+v", p)
	}
	if text, err = simulateReplay(t, args...); err != nil || !strings.Contains(text, "# 16 ranks on 4 hosts, a replay: ") ||
		!strings.Contains(text, "offered 6.55 MB/s; records and clocks are gathered 11 times\n") {
		t.Errorf("%v\n%s", err, text)
	}
	// Windows are said to be of the replay's time, in the words of perigee replay.
	title := "load by windows of one length, in the replay's time"
	_, scenario, _ := scenarios.Source("replay")
	if !strings.Contains(scenario, title) || !strings.Contains(text, "# "+title+"\n") {
		t.Errorf("%s\nhas no %q", text, title)
	}
	text, err = simulateReplay(t, append(args, "--speed-up", "60")...)
	if err != nil || !strings.Contains(text, "# "+title+" (0.1 s are 6 s of the trace)\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

// A trace of years has more tenths of a second than memory has room for.
func TestLongReplay(t *testing.T) {
	text, err := simulateReplay(t, "--replay", "FILE", "--model", "llama3.1-8b", "--prefill", "1xTP1", "--decode", "1xTP1", "--speed-up", "1e-7")
	if fault.KindOf(err) != fault.Resource || !strings.Contains(fault.HintOf(err), "--from") {
		t.Errorf("%v\n%s", err, text)
	}
}

// What has no effect together is refused, and what is wrong in the trace is named.
func TestReplayRefuses(t *testing.T) {
	full := "--replay FILE --model llama3.1-8b --prefill 2xTP2 --decode 2xTP2 "
	for words, wanted := range map[string]string{
		"--model x":                 "--model=x has no effect without --replay FILE",
		"16 --decode 2xTP2":         "--decode=2xTP2 has no effect without --replay FILE",
		"--replay FILE":             "--replay: wanted --model, --prefill and --decode, too",
		full + "16":                 "--prefill 2xTP2 and --decode 2xTP2 have 8 ranks: wanted no other number, got 16",
		full + "--config c.yaml":    "--config, --meet and --start have no effect with --replay",
		full + "--meet all":         "--config, --meet and --start have no effect with --replay",
		full + "--start clock":      "--config, --meet and --start have no effect with --replay",
		full + "--seed 3":           "--seed has no effect without --spread",
		full + "--speed-up 0":       "--speed-up: wanted a number above 0 and at most 1e+30, got 0",
		full + "--scale 0":          "--scale: wanted a number above 0 and at most 1, got 0",
		full + "--layer-runs 2":     "--layer-runs 2: ",
		full + "--prefill 4096xTP8": "cannot simulate 32772 ranks: want 2 to 16384",
	} {
		if text, err := simulateReplay(t, strings.Fields(words)...); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s: %v\n%s", words, err, text)
		}
	}
}
