package trace

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

func read(text string, o Options) (*Trace, error) { return Read("f", strings.NewReader(text), o) }

// TestFormats reads small files in the formats of the real traces.
func TestFormats(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Request
		says       string
	}{
		{"Mooncake", `{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47], "type": "chat"}

# ids that differ above bit 31 and above bit 52 only
{"timestamp": 30535, "input_length": 6472, "hash_ids": [4294967342, 9007199254740993, 18446744073709551615]}
{"timestamp": 30535, "input_length": 7.0, "output_length": null, "hash_ids": null}
{"timestamp": 3.0536e4, "input_length": 0, "hash_ids": [ ]}
`, []Request{
			{0, 6955, 52, []uint64{46, 47}, 1},
			{3053 * time.Millisecond, 6472, 0, []uint64{1<<32 + 46, 1<<53 + 1, math.MaxUint64}, 4},
			{3053 * time.Millisecond, 7, 0, nil, 5},
			{3054 * time.Millisecond, 0, 0, []uint64{}, 6},
		}, "Mooncake JSON lines, 3.054 s, 4 requests, mean 0.9823/s, timestamps in milliseconds; 1 request without hash ids"},
		{"Bailian", `{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 521, "output_length": 132, "turn": 1}
{"chat_id": 2, "timestamp": 62, "input_length": 20}`,
			[]Request{{0, 521, 132, nil, 1}, {886 * time.Millisecond, 20, 0, nil, 2}},
			"Bailian JSON lines, 0.886 s, 2 requests, mean 1.129/s, timestamps in seconds"},
		{"Azure, without a last newline", "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-12-31 23:59:59.9799600,4808,10\r\n2024-01-01 00:00:00.0319601,3180,8",
			[]Request{{0, 4808, 10, nil, 2}, {52000100, 3180, 8, nil, 3}},
			"Azure CSV, 0.0520001 s, 2 requests, mean 19.23/s, timestamps are dates"},
		{"Azure with zones", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,1,2\n2024-05-10 00:00:01+00:00,3,4\n2024-05-10T00:00:02Z,5,6\n2024-05-10T02:00:03.5+02:00,5,6\n",
			[]Request{{0, 1, 2, nil, 2}, {990070 * time.Microsecond, 3, 4, nil, 3}, {1990070 * time.Microsecond, 5, 6, nil, 4}, {3490070 * time.Microsecond, 5, 6, nil, 5}},
			"Azure CSV, 3.49007 s, 4 requests, mean 0.8596/s, timestamps are dates"},
		{"BurstGPT", "\ufeffTimestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n45.0,GPT-4,1087,0,1087,API log\n",
			[]Request{{0, 472, 18, nil, 2}, {40 * time.Second, 1087, 0, nil, 3}},
			"BurstGPT CSV, 40 s, 2 requests, mean 0.025/s, timestamps in seconds"},
		{"BurstGPT with sessions", "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,7,1.5,GPT-4,472,18,490,API log",
			[]Request{{0, 472, 18, nil, 2}}, "BurstGPT CSV, 0 s, 1 request, mean 0/s, timestamps in seconds"},
		{"CSV", "# of a log\nid, \"arrival_time (ms)\", input_tokens\n\na, -1.5, \"20\"\nb, 0.000001, 30\n",
			[]Request{{0, 20, 0, nil, 4}, {1500001 * time.Nanosecond, 30, 0, nil, 5}},
			"CSV, 0.001500001 s, 2 requests, mean 666.7/s, timestamps in milliseconds"},
		{"CSV in words", "num_prefill_tokens,num_decode_tokens,arrived_at\n1,2,1700000000.123456789\n3,4,1700000001.123456790\n",
			[]Request{{0, 1, 2, nil, 2}, {1000000001, 3, 4, nil, 3}},
			"CSV, 1.000000001 s, 2 requests, mean 1/s, timestamps in seconds since 1970"},
		{"JSON lines", "{\"ts_ms\": 0.5, \"prompt_tokens\": 20, \"x\": [1]}\n{\"ts_ms\": 1, \"prompt_tokens\": 30, \"completion_tokens\": 4}",
			[]Request{{0, 20, 0, nil, 1}, {500 * time.Microsecond, 30, 4, nil, 2}},
			"JSON lines, 0.0005 s, 2 requests, mean 2000/s, timestamps in milliseconds"},
		{"JSON lines with dates", `{"timestamp": "2023-11-16T18:17:03.9799600Z", "isl": 20, "osl": 1, "hash_ids": [7]}` + "\n" + `{"timestamp": "2023-11-16 18:17:04", "isl": 30}`,
			[]Request{{0, 20, 1, []uint64{7}, 1}, {20040 * time.Microsecond, 30, 0, nil, 2}},
			"JSON lines, 0.02004 s, 2 requests, mean 49.9/s, timestamps are dates; 1 request without hash ids"},
		{"JSON lines without a unit", "{\"created_time\": 10, \"input_tokens\": 20}\n{\"created_time\": 20, \"input_tokens\": 20}",
			[]Request{{0, 20, 0, nil, 1}, {10 * time.Millisecond, 20, 0, nil, 2}},
			"JSON lines, 0.01 s, 2 requests, mean 100/s, timestamps in milliseconds (assumed; --trace-unit says it)"},
		{"Mooncake's keys before others", "{\"time\": 5, \"timestamp\": 10, \"isl\": 3, \"input_length\": 20}", []Request{{0, 20, 0, nil, 1}},
			"Mooncake JSON lines, 0 s, 1 request, mean 0/s, timestamps in milliseconds"},
		{"Dynamo, by their ends", dynamoLine(1777312800250, 100, 7, 64, "1, 18446744073709551615") + `{"schema": "dynamo.request.trace.v1", "event_type": "tool_end", "tool": {}}
` + `{"timestamp": 9, "event": ` + strings.TrimSpace(dynamoLine(1777312800000, 64, 0, 64, "14879255164371896291")) + "}\n",
			[]Request{{0, 64, 0, []uint64{14879255164371896291}, 3}, {250 * time.Millisecond, 100, 7, []uint64{1, math.MaxUint64}, 1}},
			"dynamo.request.trace.v1 JSON lines, 0.25 s, 2 requests, mean 4/s, timestamps in milliseconds; 1 line of other events left out"},
		{"sessions with whole prompts", `{"session_id": "a", "timestamp": 1000, "input_length": 600, "output_length": 10, "hash_ids": [1, 2]}
{"session_id": "a", "delay": 50.5, "input_length": 1100, "output_length": 128, "hash_ids": [1, 3, 4]}
{"session_id": 7, "timestamp": 1020, "input_length": 5}
{"session_id": "a", "delay_ms": 0, "input_length": 1200, "hash_ids": [1, 3, 5]}`,
			[]Request{{0, 600, 10, []uint64{1, 2}, 1}, {20 * time.Millisecond, 5, 0, nil, 3},
				{50500 * time.Microsecond, 1100, 128, []uint64{1, 3, 4}, 2}, {50500 * time.Microsecond, 1200, 0, []uint64{1, 3, 5}, 4}},
			"Mooncake JSON lines with sessions, 0.0505 s, 4 requests, mean 59.41/s, timestamps in milliseconds; " +
				"turns that begin with the turn before: 2 of 2, so every line has the whole prompt; " +
				"a delay counts from the arrival of the turn before, since the time of its answer is not known; 1 request without hash ids"},
		{"sessions with new tokens", `{"session_id": "a", "timestamp": 0, "input_length": 1000, "output_length": 24, "hash_ids": [1, 2]}
{"session_id": "a", "delay": 50, "input_length": 512, "output_length": 1, "hash_ids": [3]}
{"session_id": "a", "delay": 50, "input_length": 10, "output_length": 1, "hash_ids": [18446744073709551615]}`,
			[]Request{{0, 1000, 24, []uint64{1, 2}, 1}, {50 * time.Millisecond, 1536, 1, []uint64{1, 16535753355050112445, 306567434188295131}, 2},
				{100 * time.Millisecond, 1547, 1, []uint64{1, 16535753355050112445, 306567434188295131, 14775457188647369175}, 3}},
			"Mooncake JSON lines with sessions, 0.1 s, 3 requests, mean 20/s, timestamps in milliseconds; " +
				"turns that begin with the turn before: 0 of 2, so lines have only new tokens, here joined with the prompts and outputs of the turns before; " +
				"a delay counts from the arrival of the turn before, since the time of its answer is not known"},
		{"sessions without ids", `{"session_id": "a", "timestamp": 0, "input_length": 10, "output_length": 5}
{"session_id": "a", "delay": 50, "input_length": 7}`,
			[]Request{{0, 10, 5, nil, 1}, {50 * time.Millisecond, 22, 0, nil, 2}},
			"Mooncake JSON lines with sessions, 0.05 s, 2 requests, mean 20/s, timestamps in milliseconds; " +
				"turns that begin with the turn before: 0 of 1, so lines have only new tokens, here joined with the prompts and outputs of the turns before; " +
				"a delay counts from the arrival of the turn before, since the time of its answer is not known"},
		{"sessions with timestamps", `{"timestamp": 5, "input_length": 10}
{"session_id": "a", "timestamp": 9, "input_length": 10}
{"session_id": "b", "timestamp": 7, "input_length": 10}`,
			[]Request{{0, 10, 0, nil, 1}, {2 * time.Millisecond, 10, 0, nil, 3}, {4 * time.Millisecond, 10, 0, nil, 2}},
			"Mooncake JSON lines, 0.004 s, 3 requests, mean 500/s, timestamps in milliseconds (assumed; --trace-unit says it)"},
		{"one", `{"timestamp": 1e17, "input_length": 1}`, []Request{{0, 1, 0, nil, 1}},
			"Mooncake JSON lines, 0 s, 1 request, mean 0/s, timestamps in milliseconds"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			fmt.Fprint(z, tt.text)
			z.Close()
			var packedByZstd bytes.Buffer
			zst, _ := zstd.NewWriter(&packedByZstd)
			fmt.Fprint(zst, tt.text)
			zst.Close()
			for _, text := range []string{tt.text, packed.String(), packedByZstd.String()} {
				got, err := read(text, Options{})
				must.Do(t, err)
				must.Equal(t, tt.want, got.Requests)
				if got.String() != tt.says {
					t.Errorf("got %q\nwant %q", got, tt.says)
				}
			}
		})
	}
}

// dynamoLine is a request_end of Dynamo's request tracing.
func dynamoLine(at, input, output, size int64, hashes string) string {
	return fmt.Sprintf(`{"schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": %d, "agent_context": {"session_id": "a"}, `+
		`"request": {"request_id": "r", "request_received_ms": %d, "output_tokens": %d, "replay": {"trace_block_size": %d, "input_length": %d, `+
		`"input_sequence_hashes": [%s]}}}`+"\n", at+1000, at, output, size, input, hashes)
}

// Digits say the unit of times since 1970, one request each second; names of columns say any. What is neither and would
// be many requests a second is an assumption.
func TestEpochs(t *testing.T) {
	for _, name := range []string{"epoch-seconds.jsonl", "nanoseconds.jsonl", "seconds-from-0.jsonl"} {
		got, err := Load(filepath.Join("testdata", name), Options{})
		want := map[string]string{
			"epoch-seconds.jsonl":  "Mooncake JSON lines, 9 s, 10 requests, mean 1/s, timestamps in seconds since 1970",
			"nanoseconds.jsonl":    "Mooncake JSON lines, 9 s, 10 requests, mean 1/s, timestamps in nanoseconds since 1970",
			"seconds-from-0.jsonl": "Mooncake JSON lines, 0.27 s, 10 requests, mean 33.33/s, timestamps in milliseconds (assumed; --trace-unit says it)",
		}[name]
		if err != nil || got.String() != want {
			t.Errorf("%s: %v, %v; wanted %s", name, got, err, want)
		}
	}
	const second = 1_717_000_000
	lines := map[string]string{
		"Mooncake":   "{\"timestamp\": %d, \"input_length\": 1}\n{\"timestamp\": %d, \"input_length\": 1}\n",
		"JSON lines": "{\"ts\": %d, \"input_toks\": 1}\n{\"ts\": %d, \"input_toks\": 1}\n",
		"Bailian":    "{\"chat_id\": 1, \"timestamp\": %d, \"input_length\": 1}\n{\"chat_id\": 1, \"timestamp\": %d, \"input_length\": 1}\n",
		"BurstGPT":   "Timestamp,Request tokens\n%d,1\n%d,1\n", "CSV": "time,prompt_size\n%d,1\n%d,1\n",
	}
	for unit, each := range map[string]int64{"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9} {
		for form, line := range lines {
			got, err := read(fmt.Sprintf(line, second*each, (second+7)*each), Options{})
			if err != nil || got.Span != 7*time.Second || got.Unit != unit || !got.UnitFound || !got.Epoch {
				t.Errorf("%s in %s: %+v, %v", form, unit, got, err)
			}
		}
		for form, name := range map[string]string{"a suffix": "arrival_time_" + unit, "asked": "time"} { // whatever the digits
			asked := map[string]string{"asked": unit}[form]
			for _, first := range []int64{0, second, second * each} {
				got, err := read(fmt.Sprintf("%s,isl\n%d,1\n%d,1\n", name, first, first+7*each), Options{Unit: asked})
				if err != nil || got.Span != 7*time.Second || !got.UnitFound || got.Epoch {
					t.Errorf("%s of %s: %+v, %v", form, unit, got, err)
				}
			}
		}
	}
	for _, times := range []string{"946684799,1\n946684801", "4102444799,1\n4102444801", "17170000000,1\n17170000001"} { // not all of this century
		if got, err := read("time,isl\n"+times+",1\n", Options{}); err != nil || got.UnitFound {
			t.Errorf("%s: %+v, %v", times, got, err)
		}
	}
	got, err := read("time,isl\n2024-04-29 10:00:00 UTC,1\n2024-04-29 10:00:01.5 UTC,1\n", Options{})
	if err != nil || got.Span != 1500*time.Millisecond {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestUnit decides between seconds and milliseconds. The gap is that between 200 requests.
func TestUnit(t *testing.T) {
	const (
		object = `{"timestamp": %v, "input_length": 1}`
		burst  = "Timestamp,Request tokens"
	)
	tests := []struct {
		name, header, line string
		gap                float64
		asked, unit        string
		found              bool
	}{
		{"Mooncake", "", object, 300, "", "ms", true},
		{"Mooncake, fast", "", object, 2, "", "ms", false},
		{"Mooncake with whole seconds", "", object, 0, "", "ms", true},
		{"Mooncake with seconds and fractions", "", object, 0.25, "", "s", false},
		{"Mooncake with fractions of milliseconds", "", object, 300.25, "", "ms", false},
		{"asked", "", object, 300, "s", "s", true},
		{"asked for what it is", "", object, 0.0001, "ms", "ms", true},
		{"CSV, whole seconds", "timestamp,input_length", "%v,1", 1, "", "s", false},
		{"CSV, milliseconds", "timestamp,input_length", "%v,1", 300, "", "ms", false},
		{"CSV, asked", "timestamp,input_length", "%v,1", 300, "s", "s", true},
		{"CSV, all at once", "timestamp,input_length", "%v,1", 0, "", "ms", false},
		{"header with milliseconds", "Timestamp_MS,input_length", "%v,1", 0.5, "", "ms", true},
		{"header with seconds", "time [sec],input_length", "%v,1", 300, "", "s", true},
		{"BurstGPT", burst, "%v,1", 300, "", "s", true},
		{"BurstGPT in milliseconds", "Timestamp (ms),Request tokens", "%v,1", 300, "", "ms", true},
		{"BurstGPT, asked", burst, "%v,1", 300, "ms", "ms", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := tt.header + "\n"
			for i := range 200 {
				text += fmt.Sprintf(tt.line+"\n", float64(i)*tt.gap)
			}
			got, err := read(text, Options{Unit: tt.asked})
			must.Do(t, err)
			if got.Unit != tt.unit || got.UnitFound != tt.found {
				t.Errorf("unit %q, found %v; want %q, %v", got.Unit, got.UnitFound, tt.unit, tt.found)
			}
			if want := time.Duration(199 * tt.gap * float64(unitOf[tt.unit])); got.Span != want {
				t.Errorf("span %v, want %v", got.Span, want)
			}
		})
	}
	// A trace of Mooncake's keys with whole seconds, 7 of them in each.
	var seconds strings.Builder
	for i := range 210 {
		fmt.Fprintf(&seconds, object+"\n", i/7)
	}
	got, err := read(seconds.String(), Options{})
	if err != nil || got.Unit != "s" || got.UnitFound || got.Span != 29*time.Second {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	const azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04,1,1\n"
	const turn = `{"session_id": "a", "timestamp": 9, "input_length": 100}` + "\n"
	tests := []struct{ text, says string }{
		{"", "f: wanted a request a line, got none"},
		{"\n# only\n", "f: wanted a request a line, got none"},
		{"[1, 2]", "f:1: wanted a JSON object of a request, got array"},
		{`{"timestamp": 1, "input_length": 1`, "f:1: wanted a JSON object: unexpected end"},
		{`{"timestamp": 1, "input_length": 1} {}`, "f:1: wanted a JSON object"},
		{"{\"timestamp\": 1, \"input_length\": 1}\n12", "f:2: wanted a JSON object"},
		{`{"input_length": 1}`, "f:1: the key timestamp is missing"},
		{`{"timestamp": 1}`, "f:1: the key input_length is missing"},
		{`{"timestamp": null, "input_length": 1}`, "f:1: the key timestamp is missing"},
		{`{"timestamp": "1", "input_length": 1}`, `f:1: timestamp: wanted a number that fits, got "1"`},
		{`{"timestamp": 1e999, "input_length": 1}`, "f:1: timestamp: wanted a number that fits, got 1e999"},
		{`{"timestamp": 1e19, "input_length": 1}`, "f:1: timestamp: wanted a number that fits, got 1e19"},
		{`{"timestamp": "` + strings.Repeat("x", 100) + `", "input_length": 1}`, strings.Repeat("x", 39) + "..."},
		{`{"timestamp": 1, "input_length": -1}`, "f:1: input_length: wanted a whole number of tokens from 0 to 1099511627776, got -1"},
		{`{"timestamp": 1, "input_length": 1.5}`, "f:1: input_length: wanted a whole number"},
		{`{"timestamp": 1, "input_length": 1, "output_length": 1.5}`, "f:1: output_length: wanted a whole number"},
		{`{"timestamp": 1, "input_length": 1, "output_length": 1099511627777}`, "f:1: output_length: wanted a whole number"},
		{`{"timestamp": 1, "input_length": 1, "hash_ids": ["a"]}`, `f:1: hash_ids: wanted a list of whole numbers from 0 to 2^64-1, got "a"`},
		{`{"timestamp": 1, "input_length": 1, "hash_ids": [1, null]}`, "f:1: hash_ids: wanted a list of whole numbers from 0 to 2^64-1, got null"},
		{`{"timestamp": 1, "input_length": 1, "hash_ids": [[1]]}`, "f:1: hash_ids: wanted"},
		{`{"timestamp": 1, "input_length": 1, "hash_ids": [18446744073709551616]}`, "f:1: hash_ids: wanted"},
		{`{"timestamp": 1, "input_length": 1, "hash_ids": 7}`, "f:1: hash_ids: wanted"},
		{"{\"timestamp\": 2, \"input_length\": 1}\n{\"timestamp\": 1, \"input_length\": 1}", "f:2: timestamp: wanted at least 2, that of the line before, got 1"},
		{"{\"timestamp\": 0, \"input_length\": 1}\n{\"timestamp\": 9e15, \"input_length\": 1}", "f: wanted timestamps within 290 years, got 9e15 last"},
		{"{\"timestamp\": 0, \"input_length\": 1}\n\n" + strings.Repeat("x", maxLine+1), "f:3: wanted a line of at most 16777216 characters"},
		{`{"ts": 1, "time": 2, "isl": 1}`, "f:1: the keys time and ts hold the same: wanted one of them"},
		{`{"ts": 1, "osl": 1}`, "f:1: the key input_length is missing"},
		{"{\"ts\": 1, \"isl\": 1}\n{\"timestamp\": 1, \"isl\": 1}", "f:2: the key ts is missing"},
		{`{"timestamp": "2023-13-16T18:17:03Z", "isl": 1}`, "f:1: timestamp: wanted a date such as 2023-11-16 18:17:03.97 (month out of range), got"},
		{"time,isl\n05/10/2024,1\n", "f:2: time: wanted a date such as 2023-11-16 18:17:03.97 (year, month and day are not written so), got 05/10/2024"},
		{"time,isl\n2023-02-29 10:00:00,1\n", "f:2: time: wanted a date such as 2023-11-16 18:17:03.97 (day out of range), got 2023-02-29 10:00:00"},
		{"time,isl\n2024-02-29 10h,1\n", "f:2: time: wanted a date such as 2023-11-16 18:17:03.97 (its time or zone is not written so), got 2024-02-29 10h"},
		{"{\"timestamp\": 0, \"input_length\": 1}\n{\"timestamp\": 1, \"input_length\": 10, \"input_length\": 20}", "f:2: the key input_length is there twice"},
		{strings.Replace(dynamoLine(5, 1, 1, 16, "1"), `"input_length"`, `"input_length": 7, "input_length"`, 1), "f:1: the key input_length is there twice"},
		{`{"session_id": "a", "timestamp": 1717000000, "input_length": 1}` + "\n" + `{"session_id": "a", "delay": 5, "input_length": 1}`,
			"f: its timestamps are in seconds, and its delays milliseconds: wanted both in milliseconds"},
		{turn + `{"session_id": "a", "input_length": 1}`, "f:2: the keys timestamp and delay are missing: wanted one of them"},
		{turn + `{"session_id": "a", "input_length": 1, "delay": -1}`, "f:2: delay: wanted milliseconds from 0 that fit, got -1"},
		{turn + `{"session_id": "a", "input_length": 1, "delay_ms": 9223372036854775807}`, "f:2: delay_ms: wanted milliseconds from 0 that fit"},
		{turn + `{"session_id": "a", "input_length": 1, "delay": 9e15}`, "f: wanted timestamps within 290 years, got that of line 2 last"},
		{turn + `{"session_id": "a", "input_length": 1, "timestamp": 8}`, "f:2: timestamp: wanted at least that of the turn before, in line 1, got 8"},
		{turn + `{"session_id": "b", "input_length": 1, "delay": 8}`, "f:2: the key timestamp is missing: the first turn of a session wants it"},
		{turn + `{"input_length": 1, "delay": 8}`, "f:2: the key timestamp is missing"},
		{`{"session_id": "a", "timestamp": 9, "input_length": 16777216}` + "\n\n" + `{"session_id": "a", "input_length": 5, "delay": 8}`,
			"f:3: wanted at most 16777216 tokens in the prompt with the turns before, got 16777221"},
		{`{"session_id": "a", "timestamp": 9, "input_length": 600, "output_length": 1099511627776, "hash_ids": [1, 2]}` + "\n" +
			`{"session_id": "a", "input_length": 5, "delay": 8, "hash_ids": [3]}`, "f:2: wanted at most 16777216 tokens"},
		{`{"session_id": "a", "timestamp": "2023-11-16 18:17:03", "input_length": 100}` + "\n" + `{"session_id": "a", "input_length": 1, "delay": 8}`,
			"f:2: delay: wanted it with timestamps in milliseconds, got it with dates"},
		{dynamoLine(5, 1, 1, 16, "1") + dynamoLine(5, 1, 1, 32, "1"), "f:2: request.replay.trace_block_size: wanted one size from 1 in all lines, got 32 after 16"},
		{dynamoLine(5, 1, 1, 0, "1"), "f:1: request.replay.trace_block_size: wanted one size from 1 in all lines, got 0"},
		{dynamoLine(5, 1, 1, 16, "-1"), "f:1: request.replay.input_sequence_hashes: wanted a list of whole numbers"},
		{dynamoLine(5, 1, 1, 16, "1") + "{}", "f:2: schema: wanted dynamo.request.trace.v1, got nothing"},
		{dynamoLine(5, 1, 1, 16, "1") + "5", "f:2: wanted a JSON object"},
		{dynamoLine(5, 1, 1, 16, "1") + `{"schema": 5}`, "f:2: wanted a JSON object of a request, got number as schema"},
		{`{"schema": "dynamo.request.trace.v1", "event_type": "request_end", "request": {"request_received_ms": 5}}`,
			"f:1: the key request.replay.trace_block_size is missing"},
		{`{"schema": "dynamo.request.trace.v1", "event_type": "tool_end"}`, "f: wanted a request a line, got none"},
		{"12", "f:1: wanted JSON objects, or a header with columns such as timestamp and input_length, got 12"},
		{"timestamp,output_tokens\n1,1\n", "f:1: wanted JSON objects, or a header"},
		{"timestamp_min,input_tokens\n1,1\n", "f:1: wanted JSON objects, or a header"},
		{"time,isl,Timestamp\n", "f:1: the columns time and Timestamp hold the same: wanted one of them"},
		{"time,isl\n", "f: wanted a request a line, got none"},
		{"time,isl\n1,2\n3\n", "f:3: wanted 2 columns, as in the header, got 1"},
		{"time,isl\n1,\"2\n3,4\n", "f:2: wanted CSV: extraneous or missing"},
		{"time,isl\n,2\n", "f:2: time: wanted a number that fits, got nothing"},
		{"time,isl\nNaN,2\n", "f:2: time: wanted a number that fits, got NaN"},
		{"time,isl\n1.x,2\n", "f:2: time: wanted a number that fits, got 1.x"},
		{"time,isl\n1,two\n", "f:2: isl: wanted a whole number of tokens"},
		{"time,isl\n2.5,2\n2.25,2\n", "f:3: time: wanted at least 2.5, that of the line before, got 2.25"},
		{azure + "5,1,1", "f:3: TIMESTAMP: wanted a date such as 2023-11-16 18:17:03.97, got 5"},
		{azure + "2023-11-31 00:00:00,1,1", "f:3: TIMESTAMP: wanted a date"},
		{azure + "2023-11-16 18:17:03.9999999,1,1", "f:3: TIMESTAMP: wanted at least 2023-11-16 18:17:04, that of the line before, got 2023-11-16 18:17:03.9999999"},
		{"\x1f\x8b", "f: the file is truncated: its packed data ends within line 1"},
		{"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", "f: the file is truncated: its packed data ends within line 1"},
	}
	for _, tt := range tests {
		_, err := read(tt.text, Options{})
		must.Fail(t, err, fault.Input, tt.says)
	}
	_, err := read(azure, Options{Unit: "s"})
	must.Fail(t, err, fault.Usage, "f: its timestamps are dates: wanted no --trace-unit, got s")
	_, err = read(azure, Options{Unit: "min"})
	must.Fail(t, err, fault.Usage, `--trace-unit: wanted s, ms, us or ns, got "min"`)
	_, err = read(turn+`{"session_id": "a", "input_length": 1, "delay": 8}`, Options{Unit: "s"})
	must.Fail(t, err, fault.Usage, "f: its delays are milliseconds: wanted no --trace-unit, got s")
	_, err = read(dynamoLine(5, 1, 1, 16, "1"), Options{BlockTokens: 32})
	must.Fail(t, err, fault.Usage, "f: --block-size: wanted 16, as its lines say, got 32")
	_, err = read(azure, Options{BlockTokens: -1})
	must.Fail(t, err, fault.Usage, "--block-size: wanted 1 to 1048576 tokens, got -1")
	_, err = Load("no/such/file", Options{})
	must.Fail(t, err, fault.Input, "no/such/file")
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	must.Do(t, os.WriteFile(path, []byte("time,isl\n1,2\n"), 0o600))
	got, err := Load(path, Options{Unit: "s"})
	if err != nil || len(got.Requests) != 1 || got.Requests[0].Input != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestExact writes times of nanoseconds in every form, and reads them again.
func TestExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := time.Unix(rapid.Int64Range(-1e9, 4e9).Draw(t, "begin"), rapid.Int64Range(0, 1e9-1).Draw(t, "nano")).UTC()
		now := begin
		var want []Request
		var object, second, milli, date strings.Builder
		second.WriteString("time_s,isl,osl\n")
		milli.WriteString("time_ms,isl,osl\n")
		date.WriteString("time,isl,osl\n")
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "gap")))
			if want == nil {
				begin = now
			}
			r := Request{At: now.Sub(begin), Input: rapid.Int64Range(0, maxTokens).Draw(t, "input"), Output: rapid.Int64Range(0, maxTokens).Draw(t, "output"),
				HashIDs: rapid.SliceOfN(rapid.Uint64(), 1, 3).Draw(t, "ids")}
			r.Line = len(want) + 1
			want = append(want, r)
			whole, nano := now.Unix(), now.Nanosecond()
			sign := ""
			if whole < 0 { // before 1970: -1.25 is 750,000,000 ns after -2
				sign = "-"
				if whole = -whole; nano > 0 {
					whole, nano = whole-1, 1e9-nano
				}
			}
			inSeconds := fmt.Sprintf("%s%d.%09d", sign, whole, nano)
			inMillis := fmt.Sprintf("%s%d%03d.%06d", sign, whole, nano/1e6, nano%1e6)
			tokens := fmt.Sprintf(",%d,%d\n", r.Input, r.Output)
			second.WriteString(inSeconds + tokens)
			milli.WriteString(inMillis + tokens)
			date.WriteString(now.Format("2006-01-02 15:04:05.999999999") + tokens)
			fmt.Fprintf(&object, "{\"output_length\": %d, \"timestamp\": %s, \"hash_ids\": %s, \"input_length\": %d}\n", r.Output,
				inMillis, strings.ReplaceAll(fmt.Sprint(r.HashIDs), " ", ", "), r.Input)
		}
		check := func(text, unit string, ids bool) {
			t.Helper()
			got, err := read(text, Options{Unit: unit})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			for i, r := range want {
				if !ids {
					r.HashIDs, r.Line = nil, r.Line+1 // after the header
				}
				if !cmp.Equal(r, got.Requests[i]) {
					t.Fatalf("got %+v, want %+v\n%s", got.Requests[i], r, text)
				}
			}
		}
		check(second.String(), "", false)
		check(milli.String(), "", false)
		check(date.String(), "", false)
		if begin.Unix() >= 1 { // JSON has no zeros in front
			check(object.String(), "ms", true)
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"", "{}", `{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}`,
		"{\"timestamp\": 1, \"input_length\": 2}\n{\"timestamp\": 0.5, \"input_length\": 2}", `{"timestamp": -1e300, "input_length": 1e308}`,
		`{"session_id": "a", "timestamp": 9, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}` + "\n" + `{"session_id": "a", "delay": 1, "input_length": 2, "hash_ids": [3]}`,
		dynamoLine(5, 20, 1, 16, "1, 2") + dynamoLine(4, 20, 1, 16, "1"), `{"ts": "2023-11-16 18:17:03.97", "prompt_tokens": 5}`,
		"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16T18:17:04Z,3180,8", "[", "\x00", "\x1f\x8b\x08",
		"Timestamp,Model,Request tokens,Response tokens\n5,ChatGPT,472,18\n9.5,\"GPT,4\",1,", "time_ms,isl\n-9223372036854775808,1\n9223372036854775807.9,1"} {
		f.Add(s)
	}
	fuzztest.Run(f, []string{"{\"timestamp\":", "\"input_length\":", "\"hash_ids\":", "[", "]", "}", ",", "1", "0", "-", "2.5", "e3", "\n", "null", "\"x\"",
		"\"session_id\":", "\"delay\":", "{\"session_id\":1,\"timestamp\":1,\"input_length\":600,\"hash_ids\":[1,2],\"output_length\":9}\n",
		"{\"session_id\":1,\"delay\":1,\"input_length\":2,\"hash_ids\":[3]}\n", dynamoLine(5, 20, 1, 16, "1, 2"), dynamoLine(4, 40, 1, 16, "1, 2"),
		"{\"timestamp\":1,\"input_length\":2", "time,isl\n", "time_ms,isl,osl\n", "1,2\n", "2023-11-16 18:17:03,1\n"}, func(t *testing.T, text string) {
		got, err := read(text, Options{})
		if err != nil {
			if fault.KindOf(err) != fault.Input || !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("error %q of kind %v", err, fault.KindOf(err))
			}
			return
		}
		var last time.Duration
		for _, r := range got.Requests {
			if r.At < last || r.Input < 0 || r.Input > maxTokens || r.Output < 0 || r.Output > maxTokens {
				t.Errorf("%q: request %+v after %v", text, r, last)
			}
			last = r.At
		}
		if err := got.CheckBlocks(); err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%q: %v", text, err)
		}
		for _, r := range got.Requests {
			if got.CheckBlocks() == nil && r.HashIDs != nil && int64(len(r.HashIDs)) != ceil(r.Input, got.BlockTokens) {
				t.Errorf("%q: %+v in blocks of %d", text, r, got.BlockTokens)
			}
		}
		if got.Count == 0 || got.Count != len(got.Requests) || got.Requests[0].At != 0 || got.Span != last || math.IsNaN(got.Rate) || math.IsInf(got.Rate, 0) {
			t.Errorf("%q: %+v", text, got)
		}
	})
}

// A packed file that was cut is called so, whatever its last line looks like; a wrong line before is called wrong.
func TestTruncatedGzip(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for i := range 4_000 {
		fmt.Fprintf(z, "{\"timestamp\": %d, \"input_length\": %d}\n", i, 1+i*i%7919)
	}
	z.Close()
	for n := 2; n < packed.Len(); n += packed.Len() / 50 {
		_, err := read(string(packed.Bytes()[:n]), Options{})
		if fault.KindOf(err) != fault.Input || !strings.Contains(fmt.Sprint(err), "the file is truncated: its packed data ends within line ") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	packed.Reset()
	zst, _ := zstd.NewWriter(&packed)
	for i := range 4_000 {
		fmt.Fprintf(zst, "{\"timestamp\": %d, \"input_length\": %d}\n", i, 1+i*i%7919)
	}
	zst.Close()
	for n := 4; n < packed.Len(); n += packed.Len() / 20 {
		_, err := read(string(packed.Bytes()[:n]), Options{})
		if fault.KindOf(err) != fault.Input || !strings.Contains(fmt.Sprint(err), "the file is truncated: its packed data ends within line ") {
			t.Errorf("%d bytes of zstd: %v", n, err)
		}
	}
	packed.Reset()
	z = gzip.NewWriter(&packed)
	fmt.Fprintln(z, "{\"timestamp\": 0, \"input_length\": 1}\nwrong")
	z.Close()
	if _, err := read(packed.String(), Options{}); !strings.Contains(fmt.Sprint(err), ":2: wanted a JSON object") {
		t.Error(err)
	}
}
