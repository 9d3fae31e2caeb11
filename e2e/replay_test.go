package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// minute returns a fresh folder with the trace of docs/replay.md.
func minute(t *testing.T) (dir string) {
	t.Helper()
	text := must.Read(t, "../docs/minute.jsonl")
	return harness.Files(t, map[string]string{"minute.jsonl": string(text)})
}

// replaying are the words of a replay on 8 ranks, whose bytes are 131,072 a token, shrunk to a thousandth.
func replaying(engine string, more ...string) []string {
	return append([]string{"replay", "minute.jsonl", "--model", "llama3.1-8b", "--prefill", "2xTP2", "--decode", "2xTP2", "--scale", "0.001",
		"--engine", engine, "--result", "r.json"}, more...)
}

// Every command of docs/replay.md runs as it stands there.
func TestReplayPage(t *testing.T) {
	text := must.Read(t, "../docs/replay.md")
	commands := "set -e\n"
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		commands += m[1]
	}
	if strings.Count(commands, "perigee ") < 3 {
		t.Fatalf("too few commands:\n%s", commands)
	}
	o := harness.Start(t, harness.Command{Dir: minute(t), Argv: []string{"bash", "-c", commands},
		Env: []string{"PATH=" + filepath.Dir(harness.Program) + ":" + os.Getenv("PATH")}}).MustEnd()
	harness.Contains(t, "stdout", o.Stdout, "294 requests in 59.309 s", "offered", ", carried ", ", capacity ")
}

// Engines post a descriptor for each run of contiguous pages of a layer: as many as the library counts.
func TestReplayRunLength(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{"t.jsonl": `{"timestamp": 0, "input_length": 4096, "output_length": 1}
{"timestamp": 50, "input_length": 4100, "output_length": 1}
{"timestamp": 90, "input_length": 1, "output_length": 1}
`})
		for run, pieces := range map[string]int64{"": 514, "8": 32 + 33 + 1, "256": 1 + 2 + 1} { // of a layer
			args := []string{"replay", "t.jsonl", "--model", "llama3.1-8b", "--serving", "vllm", "--prefill", "1xTP1", "--decode", "1xTP1",
				"--scale", "0.01", "--isolated", "0", "--capacity", "0", "--engine", engine, "--result", "r.json"}
			header := "note: moves: as vLLM, pages of 16 tokens (vLLM's default)\n"
			want := int64(1)
			if run != "" {
				args = append(args, "--run-length", run)
				header += "# note: moves: runs of " + run + " contiguous pages, a descriptor each\n"
				fmt.Sscan(run, &want)
			}
			o := harness.MustRun(t, dir, args...)
			harness.Contains(t, "stdout", o.Stdout, header)
			doc, err := result.Read(filepath.Join(dir, "r.json"))
			if err != nil || doc.Replay.RunLength != want || doc.Paths == nil {
				t.Fatalf("--run-length %q: %+v, %v", run, doc, err)
			}
			var count int64
			for _, use := range doc.Paths.Uses {
				count += use.Count
			}
			if count != 32*pieces {
				t.Errorf("--run-length %q: the engine has moved %d descriptors, want %d", run, count, 32*pieces)
			}
		}
	})
}

// All requests of a trace move their bytes, each after it was due, and the result says so by its requests.
func TestReplay(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := minute(t)
		o := harness.MustRun(t, dir, replaying(engine, "--speed-up", "30", "--verify", "--isolated", "0.3", "--capacity", "0.3")...)
		doc, err := result.Read(filepath.Join(dir, "r.json"))
		if err != nil || doc.Status != result.Complete || doc.Replay == nil {
			t.Fatalf("%v: status %s", err, doc.Status)
		}
		r := doc.Replay
		var bytes, tokens int64
		q := r.Requests
		for i := range q.Index {
			bytes += q.Bytes[i]
			tokens += q.Tokens[i]
			if q.Posted[i] < q.Due[i] || q.Done[i] < q.Posted[i] {
				t.Errorf("request %d was due at %d, posted at %d, done at %d", q.Index[i], q.Due[i], q.Posted[i], q.Done[i])
			}
		}
		const want = 1621932 // tokens of the trace
		if len(q.Index) != 294 || r.Done != 294 || tokens != want || bytes != r.Bytes ||
			bytes < want*131 || bytes > want*132+294*8*32 {
			t.Errorf("%d requests, %d done, %d tokens, %d bytes of %d", len(q.Index), r.Done, tokens, bytes, r.Bytes)
		}
		if span := int64(59309) * 1e6 / 30; r.SpanNS < span-1 || r.SpanNS > span+1 {
			t.Errorf("a span of %d ns, want %d", r.SpanNS, span)
		}
		if r.Lateness.Posts == 0 || r.Lateness.Valid != (r.Lateness.P99NS <= r.Lateness.LimitNS) || r.Capacity == nil {
			t.Errorf("%+v, capacity %v", r.Lateness, r.Capacity)
		}
		var alone int64 // at least half of the runs take their median, and no two overlap
		for _, a := range r.Isolated {
			alone += a.NS * int64(a.Runs) / 2
		}
		if len(r.Isolated) < 3 || alone > int64(o.Took) {
			t.Errorf("a run of %v has transfers alone of %v: %+v", o.Took, time.Duration(alone), r.Isolated)
		}
		out := strings.Join(strings.Fields(harness.MustRun(t, dir, "report", "r.json", "--format", "text").Stdout), " ")
		harness.Contains(t, "report", out, "ffered", "carried", "294 requests", "latency: due to done")
		harness.MustRun(t, dir, "report", "r.json", "-o", "r.html")
	})
}

// The requests that were done when a rank dies, or the user ends the job, are in the result.
func TestReplayThatEnds(t *testing.T) {
	const rank = 6
	ends := map[string]func(*testing.T, *harness.Process) harness.Outcome{
		"killed rank": func(t *testing.T, p *harness.Process) harness.Outcome {
			harness.Signal(t, p.Rank(rank), syscall.SIGKILL)
			o := failed(t, p, fault.RankLost, fmt.Sprintf("perigee: rank %d on %s, phase replay: its process was killed by signal 9", rank, harness.Hostname(t)))
			partial(t, p, fault.RankLost, rank, "replay")
			return o
		},
		"Ctrl-C": func(t *testing.T, p *harness.Process) harness.Outcome {
			harness.Signal(t, -p.Cmd.Process.Pid, syscall.SIGINT)
			o := failed(t, p, fault.Interrupt, "ended by signal: interrupt")
			partial(t, p, fault.Interrupt, -1, "")
			return o
		},
	}
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				dir := minute(t)
				p := harness.Start(t, harness.Command{Dir: dir, Args: replaying(engine, "--isolated", "0", "--capacity", "0"), Group: true})
				p.Until("requests in the result", func() bool {
					doc, err := result.Read(filepath.Join(dir, "r.json"))
					return err == nil && doc.Replay != nil && doc.Replay.Done > 0
				})
				o := end(t, p)
				harness.Contains(t, "stderr", o.Stderr, "perigee: partial result: r.json\n")
				doc, err := result.Read(filepath.Join(dir, "r.json"))
				if err != nil || doc.Replay == nil || doc.Replay.Done == 0 || doc.Replay.Done == 294 {
					t.Fatalf("%v: %+v", err, doc.Replay)
				}
				q := doc.Replay.Requests
				if done := slices.IndexFunc(q.Done, func(ns int64) bool { return ns < 0 }); int64(done) > doc.Replay.Done {
					t.Errorf("%d requests are done, and request %d is not", doc.Replay.Done, done)
				}
				harness.MustRun(t, dir, "report", "r.json", "-o", "r.html")
			})
		}
	})
}

// So it is where all posts are overdue from the beginning, and no rank has time for anything else.
func TestReplayThatEndsLate(t *testing.T) {
	dir := minute(t)
	p := harness.Start(t, harness.Command{Dir: dir, Args: replaying("shm", "--isolated", "0", "--capacity", "0", "--speed-up", "1e6", "--page-size", "1")})
	p.Until("requests in the result", func() bool {
		doc, err := result.Read(filepath.Join(dir, "r.json"))
		return err == nil && doc.Replay != nil && doc.Replay.Done > 0
	})
	harness.Signal(t, p.Rank(5), syscall.SIGKILL)
	failed(t, p, fault.RankLost, "rank 5 on ")
	if r := partial(t, p, fault.RankLost, 5, "replay").Replay; r == nil || r.Done == 0 || r.Done == 294 || r.Lateness.Valid {
		t.Errorf("%+v", r)
	}
}

// Bytes that are known beforehand move for real, each copy of them: of latent vectors, and of KV heads beyond which
// there are ranks.
func TestReplayMovesCopies(t *testing.T) {
	text := must.Read(t, "../internal/model/testdata/kv-moves/moves.json")
	var doc struct {
		Cases []struct {
			Name, Model, Serving string
			Prefill, Decode      struct{ TP int }
			Page                 int `json:"page_size"`
			Tokens               []int
			Total                int64 `json:"total_bytes"`
			Replay               bool
		}
	}
	must.Do(t, json.Unmarshal(text, &doc))
	folder, err := filepath.Abs("../internal/model/testdata/kv-moves")
	must.Do(t, err)
	for _, c := range doc.Cases {
		if !c.Replay {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			var trace strings.Builder
			for i, n := range c.Tokens {
				fmt.Fprintf(&trace, "{\"timestamp\": %d, \"input_length\": %d}\n", i, n)
			}
			dir := harness.Files(t, map[string]string{"t.jsonl": trace.String()})
			args := []string{"replay", "t.jsonl", "--trace-unit", "ms", "--model", filepath.Join(folder, c.Model), "--engine", "shm", "--verify",
				"--isolated", "0", "--capacity", "0", "--result", "r.json", "--prefill", fmt.Sprintf("TP%d", c.Prefill.TP),
				"--decode", fmt.Sprintf("TP%d", c.Decode.TP)}
			if c.Serving != "" {
				args = append(args, "--serving", c.Serving, "--page-size", fmt.Sprint(c.Page))
			}
			o := harness.MustRun(t, dir, args...)
			d, err := result.Read(filepath.Join(dir, "r.json"))
			if err != nil || d.Replay.Bytes != c.Total || int(d.Replay.Done) != len(c.Tokens) {
				t.Fatalf("%v: %d bytes of %d requests, want %d", err, d.Replay.Bytes, d.Replay.Done, c.Total)
			}
			harness.Contains(t, "stdout", o.Stdout, "verified: every byte", "cache in bf16 (default)")
		})
	}
}
