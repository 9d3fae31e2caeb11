package matgen

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
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
	must.Equal(t, []int64{10, 10, 10, 77, 100, 100, 100, 10}, got)
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
		must.Fail(t, err, fault.Input, tt.says)
	}
	_, err = LoadISLList("no/such/file")
	must.Fail(t, err, fault.Input, "no/such/file")
	_, err = LoadISLList(t.TempDir())
	must.Fail(t, err, fault.Input, "is a directory")
}

// TestLoadTrace reads a trace in seconds: internal/trace has the tests of its formats.
func TestLoadTrace(t *testing.T) {
	path := writeFile(t, "t.csv", "timestamp,input_length,output_length\n10,6755,500\n10.25,7,0\n")
	draws, understood, err := LoadTrace(path, "s")
	if diff := cmp.Diff([]Draw{{6755, 500, 0}, {7, 0, 0.25}}, draws); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if want := "CSV, 0.25 s, 2 requests, mean 4/s, timestamps in seconds"; understood.String() != want {
		t.Errorf("understood %q, want %q", understood, want)
	}
	_, _, err = LoadTrace(writeFile(t, "bad.jsonl", `{"timestamp": 1}`), "")
	must.Fail(t, err, fault.Input, "bad.jsonl:1: the key input_length is missing")
}

func FuzzReadISLList(f *testing.F) {
	for _, s := range []string{"", "1\n2.5\n", "# x\n\n-3\n", "NaN", "1e308\n", "0x1p4", "\xff\n", "1\r\n2"} {
		f.Add(s)
	}
	fuzztest.Run(f, []string{"1", "2", "0", ".", "-", "e", "5", "\n", "#", " ", "x"}, func(t *testing.T, text string) {
		draws, err := readISLList("f", strings.NewReader(text))
		if err != nil {
			if fault.KindOf(err) != fault.Input || !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("error %q of kind %v", err, fault.KindOf(err))
			}
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
