package matgen

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/fault"
	"perigee/internal/fuzztest"
)

// TestSampleIsForEver pins the draws of a seed: workloads must be the same in
// every version.
func TestSampleIsForEver(t *testing.T) {
	tests := []struct {
		seed uint64
		want []int64
	}{
		{0, []int64{8201, 2384, 27993, 8103, 22202}},
		{1, []int64{24588, 24094, 8085, 10535, 26428}},
	}
	for _, tt := range tests {
		requests, _ := clip(sample(5, 16000, 10000, tt.seed), 1000, 128000)
		var got []int64
		for _, r := range requests {
			got = append(got, r.Tokens)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("seed %d (-want +got):\n%s", tt.seed, diff)
		}
	}
}

// TestSampleIsNormal compares mean, deviation and two quantiles of many draws
// with those of the distribution, within five standard errors.
func TestSampleIsNormal(t *testing.T) {
	const n, mean, scale = 200000, 16000.0, 10000.0
	var sum, squares, within, above float64
	for _, d := range sample(n, mean, scale, 7) {
		z := (d.Tokens - mean) / scale
		sum += z
		squares += z * z
		if math.Abs(z) < 1 {
			within++
		}
		if z > 2 {
			above++
		}
	}
	check := func(what string, got, want, deviation float64) {
		t.Helper()
		if math.Abs(got-want) > 5*deviation/math.Sqrt(n) {
			t.Errorf("%s %v, wanted %v", what, got, want)
		}
	}
	check("mean", sum/n, 0, 1)
	check("variance", squares/n, 1, math.Sqrt2)
	check("within one deviation", within/n, 0.682689, 0.47)
	check("above two deviations", above/n, 0.02275, 0.149)
}

func TestSamplePrefix(t *testing.T) {
	if diff := cmp.Diff(sample(3, 1, 2, 3), sample(10, 1, 2, 3)[:3]); diff != "" {
		t.Errorf("the first draws depend on how many there are:\n%s", diff)
	}
	if cmp.Equal(sample(3, 1, 2, 3), sample(3, 1, 2, 4)) {
		t.Error("another seed gives the same draws")
	}
}

func TestClip(t *testing.T) {
	draws := []Draw{{Tokens: -5.9}, {Tokens: 9.99}, {Tokens: 10}, {Tokens: 77.7}, {Tokens: 100.9}, {Tokens: 101}, {Tokens: 1e300}, {Tokens: -1e300}}
	requests, n := clip(draws, 10, 100)
	var got []int64
	for _, r := range requests {
		got = append(got, r.Tokens)
	}
	if diff := cmp.Diff([]int64{10, 10, 10, 77, 100, 100, 100, 10}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n.below != 3 || n.above != 2 {
		t.Errorf("clipped %+v, wanted 3 below and 2 above", n)
	}
	requests, _ = clip(draws, 100, 10) // --compat lets the larger bound lose
	for _, r := range requests {
		if r.Tokens != 10 {
			t.Errorf("with min above max: %d tokens, wanted max", r.Tokens)
		}
	}
}

func TestReadISLList(t *testing.T) {
	draws, err := readISLList("f", strings.NewReader("# two requests\n\n 1e3 \r\n-2.5"))
	if diff := cmp.Diff([]Draw{{Tokens: 1000}, {Tokens: -2.5}}, draws); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	tests := []struct{ text, says string }{
		{"", "f: wanted a request a line, got none"},
		{"# only\n\n", "f: wanted a request a line, got none"},
		{"1\n2x\n", `f:2: wanted a number of tokens, got "2x"`},
		{"1\n\nNaN\n", "f:3: wanted a number"},
		{"inf", "f:1: wanted a number"},
		{"1e999", "f:1: wanted a number"},
		{"1 2", "f:1: wanted a number"},
		{"1\n" + strings.Repeat("9", 2000), "f:2: wanted a line of at most 1024 characters"},
	}
	for _, tt := range tests {
		_, err := readISLList("f", strings.NewReader(tt.text))
		wantFault(t, err, fault.Input, tt.says)
	}
	_, err = LoadISLList("no/such/file")
	wantFault(t, err, fault.Input, "no/such/file")
	_, err = LoadISLList(t.TempDir())
	wantFault(t, err, fault.Input, "is a directory")
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, load := range []func(path string) ([]Draw, error){LoadISLList, LoadTrace} {
		_, err = load(pipe)
		wantFault(t, err, fault.Input, "wanted a regular file")
	}
}

func TestReadTrace(t *testing.T) {
	text := `{"timestamp": 1500, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1, 2], "type": "chat"}

{"timestamp": 1500.5, "input_length": 7, "hash_ids": null}
`
	draws, err := readTrace("f", strings.NewReader(text))
	if diff := cmp.Diff([]Draw{{6755, 500, 0}, {7, 0, 0.0005}}, draws); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	tests := []struct{ text, says string }{
		{"\n", "f: wanted a request a line, got none"},
		{"[1, 2]", "f:1: wanted a JSON object"},
		{"12", "f:1: wanted a JSON object"},
		{`{"timestamp": 1, "input_length": 1`, "f:1: wanted a JSON object: unexpected end"},
		{`{"timestamp": 1, "input_length": 1} {}`, "f:1: wanted a JSON object"},
		{`{"input_length": 1}`, "f:1: the key timestamp is missing"},
		{`{"timestamp": 1}`, "f:1: the key input_length is missing"},
		{`null`, "f:1: the key timestamp is missing"},
		{`{"timestamp": "1", "input_length": 1}`, "f:1: timestamp: wanted a number that fits"},
		{`{"timestamp": 1e17, "input_length": 1}`, "f:1: timestamp: wanted milliseconds up to 2^53"},
		{`{"timestamp": 1e999, "input_length": 1}`, "f:1: timestamp: wanted a number that fits"},
		{`{"timestamp": 1, "input_length": -1}`, "f:1: input_length: wanted at least 0, got -1"},
		{`{"timestamp": 1, "input_length": 1, "output_length": 1.5}`, "f:1: output_length: wanted a number that fits"},
		{`{"timestamp": 1, "input_length": 1, "output_length": -1}`, "f:1: output_length: wanted 0 to"},
		{`{"timestamp": 1, "input_length": 1, "hash_ids": ["a"]}`, "f:1: hash_ids: wanted"},
		{"{\"timestamp\": 2, \"input_length\": 1}\n{\"timestamp\": 1, \"input_length\": 1}", "f:2: timestamp: wanted at least 2, that of the line before, got 1"},
	}
	for _, tt := range tests {
		_, err := readTrace("f", strings.NewReader(tt.text))
		wantFault(t, err, fault.Input, tt.says)
	}
}

// checkDraws is what every reader promises: draws that are finite, or an error
// of the kind Input.
func checkDraws(t *testing.T, draws []Draw, err error) {
	t.Helper()
	if err != nil {
		if fault.KindOf(err) != fault.Input || !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("error %q of kind %v", err, fault.KindOf(err))
		}
		return
	}
	if len(draws) == 0 {
		t.Error("no draws and no error")
	}
	last := 0.0
	for _, d := range draws {
		if math.IsNaN(d.Tokens) || math.IsInf(d.Tokens, 0) || d.ArrivalSec < last || d.OutputTokens < 0 {
			t.Errorf("draw %+v after %v s", d, last)
		}
		last = d.ArrivalSec
	}
}

func FuzzReadISLList(f *testing.F) {
	for _, s := range []string{"", "1\n2.5\n", "# x\n\n-3\n", "NaN", "1e308\n", "0x1p4", "\xff\n", "1\r\n2"} {
		f.Add(s)
	}
	fuzztest.Run(f, []string{"1", "2", "0", ".", "-", "e", "5", "\n", "#", " ", "x"}, func(t *testing.T, text string) {
		draws, err := readISLList("f", strings.NewReader(text))
		checkDraws(t, draws, err)
		if err != nil {
			return
		}
		var want, got []float64
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				x, err := strconv.ParseFloat(line, 64)
				if want = append(want, x); err != nil {
					t.Fatalf("%q is taken", line)
				}
			}
		}
		for _, d := range draws {
			got = append(got, d.Tokens)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	})
}

func FuzzReadTrace(f *testing.F) {
	for _, s := range []string{"", "{}", `{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}`,
		"{\"timestamp\": 1, \"input_length\": 2}\n{\"timestamp\": 0, \"input_length\": 2}", `{"timestamp": -1e300, "input_length": 1e308}`, `{"TIMESTAMP": 1}`, "[", "\x00"} {
		f.Add(s)
	}
	fuzztest.Run(f, []string{"{\"timestamp\":", "\"input_length\":", "\"output_length\":", "\"hash_ids\":", "[", "]", "}", ",", "1", "0", "-", "2.5", "e3", "\n", "null", "\"x\"", "{\"timestamp\":1,\"input_length\":2", "{"}, func(t *testing.T, text string) {
		draws, err := readTrace("f", strings.NewReader(text))
		checkDraws(t, draws, err)
		// A trace reads as it was written.
		random := fuzztest.Random([]byte(text))
		var lines strings.Builder
		var want []Draw
		begin := random.IntN(1000)
		for now, left := begin, 1+random.IntN(4); left > 0; now, left = now+random.IntN(5000), left-1 {
			d := Draw{Tokens: float64(random.IntN(1e6)), ArrivalSec: float64(now-begin) / 1000, OutputTokens: random.Int64N(1e6)}
			want = append(want, d)
			fmt.Fprintf(&lines, `{"output_length": %d, "timestamp": %d, "hash_ids": [1, 2], "input_length": %v}`+"\n", d.OutputTokens, now, d.Tokens)
		}
		if got, err := readTrace("f", strings.NewReader(lines.String())); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", &lines, got, err, want)
		}
	})
}
