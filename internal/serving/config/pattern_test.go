package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// Patterns mean what they mean to Python's re with MULTILINE and VERBOSE.
func TestPatternsOfPython(t *testing.T) {
	for _, c := range []struct {
		source, text string
		want         []float64
	}{
		{`a b (\d)`, "ab1 a b2", []float64{1}},
		{`a\ b(\d)`, "ab1 a b2", []float64{2}},
		{"a # (comment\n(\\d)", "a1", []float64{1}},
		{`[ #] x(\d)`, " x1#x2 yx3", []float64{1, 2}},
		{`[]a ] b(\d)`, "]b1 b2ab3xb4", []float64{1, 2, 3}},
		{`^(\d)$`, "1\n2\n3x\n4", []float64{1, 2, 4}},
		{`\#(\d)\n\Z`, "#1\n#2\n", []float64{2}},
		{`(\d)\Z`, "1\n", nil},
		{`(?x) (?P<n>\d+) (?# note ) :`, "12:", []float64{12}},
		{`Median\ TTFT\ \(µs\):\s+([0-9.]+)`, "│é Median TTFT (µs):   1.5 µs", []float64{1.5}},
		{`TTFT=(\d+)(?!\d|\ s)`, "TTFT=15 s TTFT=16 ms", []float64{16}},
		{`(?<=P99=)(\d+)`, "P50=1 P99=2", []float64{2}},
		{`c=(?P<concurrency>\d+)\ again=(?P=concurrency)\ X=(\d)`, "c=12 again=2 X=4 c=12 again=12 X=5", []float64{5}},
	} {
		p, err := compilePattern(c.source, []string{"X"})
		if err != nil {
			t.Errorf("%q: %v", c.source, err)
			continue
		}
		found, err := p.FindAll([]byte(c.text))
		if err != nil {
			t.Errorf("%q in %q: %v", c.source, c.text, err)
			continue
		}
		var got []float64
		for _, m := range found[0] {
			got = append(got, m.Values["X"])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q in %q: %v, want %v", c.source, c.text, got, c.want)
		}
	}
	for _, source := range []string{`(a`, `a)`, `(a)\`, `[a`, `(?P<x>a)(?P=y)`, `*(a)`} {
		if _, err := compilePattern(source, []string{"X"}); err == nil || !strings.Contains(err.Error(), "not a regular expression") {
			t.Errorf("%q: %v", source, err)
		}
	}
}

// Offsets count bytes, whatever stands before, also bytes that are no text.
func TestOffsetsOfMatches(t *testing.T) {
	p, err := compilePattern(`(?=.*?=(\d+))=(\d+)`, []string{"X"})
	must.Do(t, err)
	text := "é\xff\xe2\x82|€=7\n│ =8\n"
	got, err := p.FindAll([]byte(text), [2]int64{0, int64(strings.Index(text, "\n"))}, [2]int64{int64(strings.Index(text, "│")), int64(len(text))})
	if err != nil || len(got) != 2 || len(got[0]) != 1 || len(got[1]) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	for i, want := range []int{strings.Index(text, "7"), strings.Index(text, "8")} {
		if m := got[i][0]; m.From != want || m.To != want+1 || m.Concurrency != i+7 {
			t.Errorf("%d: %+v, want %d", i, m, want)
		}
	}
}

// A pattern that tries all ways of dividing a text ends with a word, one that reaches far does its work.
func TestLongMatches(t *testing.T) {
	defer func(before time.Duration) { mostMatching = before }(mostMatching)
	mostMatching = 100 * time.Millisecond
	p, err := compilePattern(`^(?:(?:a|b|ab)+)+(\d)$`, []string{"X"})
	must.Do(t, err)
	if _, err := p.FindAll([]byte(strings.Repeat("ab", 1000))); err == nil || !strings.Contains(err.Error(), "the pattern takes more than 100ms") {
		t.Error(err)
	}
	mostMatching = time.Minute
	for _, between := range []string{`[\s\S]*?`, `(?:.|\n)*?`, `(?:.*\n)*?`} {
		p, err := compilePattern(`first`+between+`X=(\d)`, []string{"X"})
		must.Do(t, err)
		if got, err := p.FindAll([]byte("first" + strings.Repeat("a line\n", 100_000) + "X=1")); err != nil || got[0][0].Values["X"] != 1 {
			t.Errorf("%s: %v, %v", between, got, err)
		}
	}
}

func TestFindAll(t *testing.T) {
	text := []byte("A: 1.5\nB: 2\ncon 8\nA: 3\nB: 4.25\ncon 16\n")
	p, err := compilePattern(`A: \s* ([0-9.]+) [\s\S]*? B: \s* ([0-9.]+) [\s\S]*? con \s (\d+)`, []string{"X", "Y"})
	must.Do(t, err)
	got, err := p.FindAll(text)
	want := [][]Match{{
		{3, 11, 8, map[string]float64{"X": 1.5, "Y": 2}},
		{21, 30, 16, map[string]float64{"X": 3, "Y": 4.25}},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	// The document's own example: one group, no concurrency.
	p, err = compilePattern(`A: \s+ ([0-9.]+)`, []string{"X"})
	must.Do(t, err)
	if got, err := p.FindAll(text); err != nil || len(got[0]) != 2 || got[0][1].Values["X"] != 3 || got[0][1].Concurrency != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	// A named group may stand anywhere.
	p, err = compilePattern(`con\ (?P<concurrency>\d+)\nA:\ ([0-9.]+)`, []string{"X"})
	must.Do(t, err)
	if got, _ := p.FindAll(text); len(got[0]) != 1 || got[0][0].Concurrency != 8 || got[0][0].Values["X"] != 3 {
		t.Errorf("got %v", got)
	}
	for _, names := range [][]string{nil, {"X", "Y", "Z"}} {
		if _, err := compilePattern(`(a)`, names); err == nil {
			t.Errorf("one group for the names %v", names)
		}
	}
	if p, _ := compilePattern(`(A)`, []string{"X"}); p != nil {
		if _, err := p.FindAll(text); err == nil {
			t.Error("a letter was taken for a number")
		}
	}
	// JSON has no such number: a run could not write down what it has found.
	p, err = compilePattern(`A:\ (\w+)`, []string{"X"})
	must.Do(t, err)
	for _, text := range []string{"A: nan", "A: Inf", "A: 1e999"} {
		if got, err := p.FindAll([]byte(text)); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, seed := range []string{`a\ b # c`, `[]]`, `(?#`, `[^\]]+(?P<x>\d)`, `\1`} {
		f.Add(seed)
	}
	fuzztest.Run(f, []string{"[", "^", "]", "-", "a", "z", "\\d", "\\ ", "\\]", "(", "(?:", "(?P<x>", "(?P<concurrency>", ")", "+", "*", "?", "|", ".", "#", "\n", "$", "X:", "{2}", "\\Z"}, func(t *testing.T, source string) {
		p, err := compilePattern(source, []string{"X"})
		if err == nil {
			_, _ = p.FindAll([]byte("X: 1\n2 3\n"))
		}
	})
}

// A pattern that takes a part of a number would pass a figure that was not measured.
func TestPartsOfNumbers(t *testing.T) {
	for _, c := range []struct {
		pattern, text, part, whole string // "" where the value is all of a number, which is then 15.5 or 15559.05
	}{
		{`A\s([\d.]+)`, "x\nA 15,559.05 ms", "15", "15,559.05"},
		{`A\s([\d.]+)(?:.|\n)*?ms`, "x\nA 15,559.05 ms", "15", "15,559.05"},
		{`A\s(\d+)`, "x\nA 15.559 ms", "15", "15.559"},
		{`A\s(\d+)(?:.|\n)*?ms`, "x\nA 15.559 ms", "15", "15.559"},
		{`A\s(\d)\d*`, "x\nA 155", "1", "155"},
		{`A\s([\d,]+)`, "x\nA 15,559.05", "15,559", "15,559.05"},
		{`([\d.]+)\sms`, "x\nA 15,559.05 ms", "559.05", "15,559.05"},
		{`A\s\d([\d.]+)\sms`, "x\nA 15.5 ms", "5.5", "15.5"},
		{`\.(\d+)\sms`, "x\nA 15.55 ms", "55", "15.55"},
		{`A\s([\d.,]+)`, "x\nA 15,559.05 ms", "", ""},
		{`A\s([\d.]+)`, "x\nA 15.5, B 7", "", ""},
		{`A,([\d.]+)`, "x\nA,15.5,4,7.25", "", ""},       // columns of CSV
		{`\d+,([\d.]+),\d+`, "x\n128,15.5,4\n", "", ""},  // more than three digits are no thousands
		{`A=([\d.]+)`, "x\n2026-01-02A=15.5s", "", ""},   // a unit
		{`([\d.]+)$`, "x\n1024,4096,15.5", "", ""},       // the last column
		{`([\d.]+)\sms`, "x\nA:15.5 ms, B:16 m", "", ""}, // behind a colon
		{`A\s([\d.]+)`, "A 15.5" + strings.Repeat(",123", 1<<16) + "x", "", ""},
	} {
		p, err := compilePattern(c.pattern, []string{"X"})
		must.Do(t, err)
		got, err := p.FindAll([]byte(c.text))
		if c.part == "" {
			if err != nil || len(got[0]) != 1 || got[0][0].Values["X"] != 15.5 && got[0][0].Values["X"] != 15559.05 {
				t.Errorf("%s in %.40q: %v, %v", c.pattern, c.text, got, err)
			}
			continue
		}
		want := `line 2: the pattern takes "` + c.part + `" out of the number "` + c.whole + `" for X; wanted all of it: write ([0-9.,]+) for its group`
		if err == nil || err.Error() != want {
			t.Errorf("%s in %q: %v, %v\nwanted %s", c.pattern, c.text, got, err, want)
		}
	}
	p, err := compilePattern(`(\d+),([\d.]+)`, []string{"X", "Y"}) // two columns, no thousands
	must.Do(t, err)
	if got, err := p.FindAll([]byte("4,131.42\n")); err != nil || got[0][0].Values["X"] != 4 || got[0][0].Values["Y"] != 131.42 {
		t.Errorf("%v, %v", got, err)
	}
	p, err = compilePattern(`A:\s([\d.]+)\sat\s(?P<concurrency>\d)`, []string{"X"})
	must.Do(t, err)
	if got, err := p.FindAll([]byte("A: 5 at 16\n")); err == nil || !strings.Contains(err.Error(), `takes "1" out of the number "16" for the concurrency`) {
		t.Errorf("%v, %v", got, err)
	}
	// A level's part ends where the number goes on, or not.
	if got, err := p.FindAll([]byte("A: 5 at 1\nA: 6 at 2\n"), [2]int64{0, 9}, [2]int64{10, 20}); err != nil || len(got) != 2 || got[1][0].Values["X"] != 6 || got[1][0].To != 14 {
		t.Errorf("%v, %v", got, err)
	}
}
