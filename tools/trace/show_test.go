package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// show runs perigee trace show with these words.
func show(t *testing.T, words ...string) (string, error) {
	t.Helper()
	var c Cmd
	k, err := cli.Parser(&c)
	must.Do(t, err)
	var out bytes.Buffer
	ctx, err := k.Parse(append([]string{"show"}, words...))
	if err == nil {
		err = ctx.Run(cli.Streams{Out: &out})
	}
	return out.String(), err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

// readme are two requests of the README of Mooncake's traces, whose first 12 blocks are the same.
const readme = `{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 2353, 2354]}
{"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": [46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 2366]}
`

// TestText has two traces side by side.
func TestText(t *testing.T) {
	a := write(t, "a.jsonl", readme)
	b := write(t, "b.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8")
	got, err := show(t, a, b, "--model", "llama3.1-8b")
	must.Do(t, err)
	want := `A: 2 requests in 3.053 s, 13427 tokens of prompts. Their KV caches of llama3.1-8b in bf16 (default) are 0.576 GB/s on average, and 9.116 / 0.912 GB/s in the busiest 0.1 / 1 s. An infinite prefix cache finds 0.457585 of the tokens.
B: 2 requests in 0.052 s, 7988 tokens of prompts. Their KV caches of llama3.1-8b in bf16 (default) are 20.135 GB/s on average.

Arrivals a.jsonl b.csv
requests 2 2
format Mooncake JSON lines Azure CSV
timestamps in ms date
span (s) 3.053 0.052
requests per second 0.3275 19.2308
distinct timestamps 2 2
equal neighbours 0 0
gaps: standard deviation / mean (population) 0.0000 0.0000
grid of timestamps none none

Lengths (tokens, nearest rank) a.jsonl b.csv
prompts: sum 13427 7988
mean 6713.5000 3994.0000
p50 / p90 / p99 / max 6472 / 6955 / 6955 / 6955 3180 / 4808 / 4808 / 4808
answers: sum 78 18
mean 39.0000 9.0000
p50 / p90 / p99 / max 26 / 52 / 52 / 52 8 / 10 / 10 / 10

Blocks of prompts (hash ids) a.jsonl b.csv
tokens of a block 512 -
references 27 -
distinct 15 -
used once 3 -
of the distinct ones 0.200000 -
hottest: id 46 -
requests that have it 2 -
ids count from 0 in the order of first use broken by 2 requests, first in line 1 -
an id always has the same index, and the same id before it holds -
a prompt has as many ids as blocks holds -
of a block seen before, all blocks before it were, too holds -

Hit ratio of a prefix cache a.jsonl b.csv
infinite: hit tokens, partial last blocks included 6144 -
token-weighted: hit tokens / prompt tokens 0.457585 -
full blocks only: their hit tokens / prompt tokens 0.457585 -
block-weighted: hit blocks / references 0.444444 -
blocks seen before at any position / references 0.444444 -
request-weighted: mean of each request's token ratio 0.474660 -
requests with a hit 1 -
requests fully hit 0 -
LRU of 1000 blocks: token-weighted, a prompt's tail used last 0.457585 -
token-weighted, its head used last 0.457585 -
request-weighted, its tail used last 0.474660 -
LRU of 10000 blocks: token-weighted, a prompt's tail used last 0.457585 -
token-weighted, its head used last 0.457585 -
request-weighted, its tail used last 0.474660 -
LRU of 50000 blocks: token-weighted, a prompt's tail used last 0.457585 -
token-weighted, its head used last 0.457585 -
request-weighted, its tail used last 0.474660 -

Load of the prompts, each at its arrival a.jsonl b.csv
busiest 0.1 s from the start: prompt tokens 6955 -
peak / mean over the span 15.814 -
begins at (s) 0 -
busiest 1 s from the start: prompt tokens 6955 -
peak / mean over the span 1.581 -
begins at (s) 0 -
KV caches: model, precision llama3.1-8b, bf16 (default) llama3.1-8b, bf16 (default)
all prompts: bytes 1759903744 1047003136
all prompts: GB/s (10^9 B) over the span 0.576451 20.134676
missing in an infinite prefix cache: bytes 954597376 -
missing in an infinite prefix cache: GB/s (10^9 B) over the span 0.312675 -
all prompts, busiest 0.1 s: bytes 911605760 -
all prompts, busiest 0.1 s: GB/s 9.116 -
all prompts, busiest 0.1 s: peak / mean over the span 15.814 -
all prompts, busiest 1 s: bytes 911605760 -
all prompts, busiest 1 s: GB/s 0.912 -
all prompts, busiest 1 s: peak / mean over the span 1.581 -
`
	must.Equal(t, want, squeeze(strings.NewReplacer(a, "A", b, "B").Replace(got)))
}

// TestOrder has a section that the first trace has not got between those that it has.
func TestOrder(t *testing.T) {
	got, err := show(t, write(t, "b.csv", "time_s,isl\n0,10\n100,20\n"), write(t, "a.jsonl", readme))
	must.Do(t, err)
	var places []int
	for _, text := range []string{"\nArrivals", "\nfull minutes", "\ngrid", "\nLengths", "\nanswers: sum - 78\n", "\nBlocks",
		"\nHit ratio", "\nLoad", "\nbusiest 60 s from the start: prompt tokens 20 -\n"} {
		places = append(places, strings.Index(squeeze(got), text))
	}
	if places[0] < 0 || !slices.IsSorted(places) {
		t.Errorf("places %v in\n%s", places, got)
	}
}

// squeeze writes a single space for several, and leaves out the lines of dashes.
func squeeze(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// bursts are ticks of 3 s with three requests each.
func bursts() string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": 100}`+"\n", i/3*3000)
	}
	return b.String()
}

// TestWarning warns of a grid whose ticks have several requests, and not of whole seconds that few requests share.
func TestWarning(t *testing.T) {
	got, err := show(t, write(t, "a.jsonl", bursts()))
	if err != nil || !strings.Contains(got, "WARNING: the timestamps stand on a 3000 ms grid, 20 ticks, 0 empty, max 3:") {
		t.Errorf("%s\n%v", got, err)
	}
	// The answer leaves out windows in which the grid's bursts are seen; the table has them.
	for _, part := range []string{"\nbusiest 0.1 s from the start: prompt tokens 300\n", "\nbusiest 1 s from the start: prompt tokens 300\n",
		": 60 requests in 57 s, 6000 tokens of prompts. The busiest 10 s have 1.1 times the tokens of the mean. " +
			"Windows shorter than 3 s show the grid of the timestamps.\n"} {
		if !strings.Contains(squeeze(got), part) {
			t.Errorf("no %q in\n%s", part, squeeze(got))
		}
	}
	short, err := show(t, write(t, "a.jsonl", bursts()), "--to", "8s", "--model", "llama3.1-8b")
	if err != nil || !strings.Contains(short, "GB/s on average. Windows shorter than 3 s show the grid of the timestamps.\n") {
		t.Errorf("%s\n%v", short, err)
	}
	seconds := "Timestamp,Request tokens\n"
	for i := range 60 {
		seconds += fmt.Sprintf("%d,100\n", i/4*4+min(i%4, 2)) // 0, 1, 2, 2
	}
	got, err = show(t, write(t, "b.csv", seconds))
	if err != nil || strings.Contains(got, "WARNING") || !strings.Contains(got, " 1000 ms grid, 59 ticks, 14 empty, max 2\n") {
		t.Errorf("%s\n%v", got, err)
	}
}

// TestWindow counts what is left out, in the answer and in its row.
func TestWindow(t *testing.T) {
	got, err := show(t, write(t, "a.jsonl", bursts()), "--from", "3s", "--to", "9s")
	for _, part := range []string{": 9 requests in 6 s, 900 tokens of prompts (51 of 60 requests are outside of --from and --to).",
		"not counted 51 of 60\n",
		"grid of timestamps 3000 ms grid, 3 ticks, 0 empty, max 3\n"} {
		if err != nil || !strings.Contains(squeeze(got), part) {
			t.Errorf("no %q in\n%s\n%v", part, got, err)
		}
	}
}

// TestJSON has the same figures as the text, and no keys of what a trace has not got.
func TestJSON(t *testing.T) {
	got, err := show(t, write(t, "a.jsonl", readme), write(t, "b.csv", "time_s,isl\n0,10\n"), "--format", "json", "--model", "llama3.1-8b",
		"--kv-cache-dtype", "fp8")
	must.Do(t, err)
	var r struct {
		Schema string
		Traces []map[string]any
	}
	must.Do(t, json.Unmarshal([]byte(got), &r))
	a, b := r.Traces[0], r.Traces[1]
	hits, load := a["hits"].(map[string]any), a["offered_load"].(map[string]any)
	if r.Schema != "perigee.trace/1" || a["span_s"] != 3.053 || hits["hit_tokens"] != 6144.0 || load["kv_cache_dtype"] != "fp8" {
		t.Error(got)
	}
	if bytes := load["miss_only"].(map[string]any)["bytes"]; bytes != 7283*65536.0 {
		t.Errorf("%v bytes of misses", bytes)
	}
	for _, key := range []string{"output", "blocks", "hits", "windows", "requests_outside"} {
		if v, ok := b[key]; ok && v != 0.0 {
			t.Errorf("%s: %v", key, v)
		}
	}
}

// TestWrong has wrong words and files.
func TestWrong(t *testing.T) {
	good, none := write(t, "a.jsonl", readme), write(t, "b.csv", "time_s,isl\n0,10\n")
	tests := []struct {
		words []string
		kind  fault.Kind
		says  string
	}{
		{[]string{write(t, "t", `{"timestamp": 0, "input_length": 10, "hash_ids": [0, 1]}`)}, fault.Input,
			"t:1: wanted ceil(10 tokens / 512 of a block) = 1 hash ids, got 10 tokens with 2 ids"},
		{[]string{write(t, "t", readme+"{}\n")}, fault.Input, "t:3: "},
		{[]string{good, "--block-size", "100"}, fault.Input, "a.jsonl:1: wanted ceil(6955 tokens / 100"},
		{[]string{none, "--block-size", "16"}, fault.Usage, "--block-size without effect"},
		{[]string{good, good}, fault.Usage, "is there twice"},
		{[]string{good, "--from", "1m"}, fault.Input, "none of 2 requests is within --from and --to: the last one comes after 3.053s"},
		{[]string{good, "--from", "2s", "--to", "1s"}, fault.Usage, "--to: wanted at least 2s, that of --from, got 1s"},
		{[]string{good, "--from=-1s"}, fault.Usage, "--from: wanted at least 0s"},
		{[]string{good, "--model", "no-model"}, fault.Usage, `--model: there is no model "no-model"`},
		{[]string{good, "--model", "llama3.1-8b", "--kv-cache-dtype", "q"}, fault.Usage, `--kv-cache-dtype: there is no precision "q"`},
		{[]string{good, "--kv-cache-dtype", "fp8"}, fault.Usage, "--kv-cache-dtype without effect: there is no --model"},
		{[]string{good, "--trace-unit", "h"}, fault.Usage, "--trace-unit: wanted s, ms, us or ns"},
	}
	for _, tt := range tests {
		out, err := show(t, tt.words...)
		if err == nil || fault.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says) || out != "" {
			t.Errorf("%v: %q, %v; want %v: %s", tt.words[1:], out, err, tt.kind, tt.says)
		}
	}
}

// The first sentence says whether the trace fits into the line: 1000 tokens take a second of this one.
func TestLine(t *testing.T) {
	path := write(t, "a.csv", "timestamp_s,input_length\n0,2000\n1,1000\n3,1000\n10,1000\n")
	for words, want := range map[string]string{
		"--line 1048.576Mbit --slo max<=1s": "It fits into 1 x 1048.576Mbit (131 MB/s) on average, asking for 40 % of that, but queues: 1 transfer must wait, 1.00 s at most. " +
			"Transfers wait for 1.00 s in all, in 1 place, the longest for 1.00 s from 1 s on. A transfer takes 1.00 s (P50), 2.00 s (P99), 2.00 s at most. " +
			"max<=1s does not hold (2.00 s): it needs 2.097 Gbit/s (262 MB/s), 2 NICs of 1048.576Mbit.\n4 requests in 10 s",
		"--line 1048.576Mbit --nics 4 --slo P50<=250ms": "It fits into 4 x 1048.576Mbit (524 MB/s): it asks for 10 % of that, and no transfer waits for another. " +
			"A transfer takes 250 ms (P50), 500 ms (P99), 500 ms at most. P50<=250ms holds (250 ms): it needs 4.194 Gbit/s (524 MB/s), 4 NICs of",
		"--line 104.8576Mbit":     "It does not fit into 1 x 104.8576Mbit (13.1 MB/s): it asks for 4 times that, and all is moved 40.0 s after the last request. ",
		"--line 1Gbit --from 10s": "All comes at once, and 1 x 1Gbit (125 MB/s) moves it in 1.05 s. A transfer takes 1.05 s (P50)",
	} {
		got, err := show(t, append([]string{path, "--model", "llama3.1-8b"}, strings.Fields(words)...)...)
		if err != nil || !strings.HasPrefix(got, path+": "+want) || !strings.Contains(got, "\nOn the line, first come, first served") {
			t.Errorf("%s: %v: %s\nwant %s", words, err, got, want)
		}
	}
	page := filepath.Join(t.TempDir(), "a.html")
	if _, err := show(t, path, "--model", "llama3.1-8b", "--line", "400Gbit", "--html", page); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "It fits into 1 x 400Gbit (50.0 GB/s): it asks for ") {
		t.Error("the page does not say whether it fits", err)
	}
	for words, want := range map[string]string{"--line 1Gbit": "no --model", "--nics 2": "no --line", "--slo 1s": "no --line", "--model llama3.1-8b --line 1": "--line"} {
		if _, err := show(t, append([]string{path}, strings.Fields(words)...)...); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", words, err)
		}
	}
}
