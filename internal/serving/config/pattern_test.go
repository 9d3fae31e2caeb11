package config

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fuzztest"
)

func TestTranslate(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`a b`, `(?m)ab`},
		{`a\ b`, `(?m)a b`},
		{"a # comment\nb", `(?m)ab`},
		{`[ #] x`, `(?m)[ #]x`},
		{`[]a ] b`, `(?m)[\]a ]b`},
		{`[^ ]+ \# \Z`, `(?m)[^ ]+#\z`},
		{`(?x) (?P<n>\d+) (?# note ) :`, `(?m)(?P<n>\d+):`},
		{"Median\\ TTFT\\ \\(ms\\):\\s+([0-9.]+)", `(?m)Median TTFT \(ms\):\s+([0-9.]+)`},
	} {
		got, err := translate(c.source)
		if err != nil || got != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.source, got, err, c.want)
		}
		if _, err := regexp.Compile(got); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
	for source, word := range map[string]string{
		`(?=a)`: "look-ahead", `(?<!a)b`: "look-behind", `(a)\1`: `\1`, `(?P<a>x)(?P=a)`: "back reference", `a\`: "backslash",
	} {
		if _, err := translate(source); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: got %v, want a word about %s", source, err, word)
		}
	}
}

func TestFindAll(t *testing.T) {
	text := []byte("A: 1.5\nB: 2\ncon 8\nA: 3\nB: 4.25\ncon 16\n")
	p, err := compilePattern(`A: \s* ([0-9.]+) [\s\S]*? B: \s* ([0-9.]+) [\s\S]*? con \s (\d+)`, []string{"X", "Y"})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.FindAll(text); err != nil || len(got[0]) != 2 || got[0][1].Values["X"] != 3 || got[0][1].Concurrency != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	// A named group may stand anywhere.
	p, err = compilePattern(`con\ (?P<concurrency>\d+)\nA:\ ([0-9.]+)`, []string{"X"})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"A: nan", "A: Inf", "A: 1e999"} {
		if got, err := p.FindAll([]byte(text)); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func FuzzTranslate(f *testing.F) {
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
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.FindAll([]byte("4,131.42\n")); err != nil || got[0][0].Values["X"] != 4 || got[0][0].Values["Y"] != 131.42 {
		t.Errorf("%v, %v", got, err)
	}
	p, err = compilePattern(`A:\s([\d.]+)\sat\s(?P<concurrency>\d)`, []string{"X"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.FindAll([]byte("A: 5 at 16\n")); err == nil || !strings.Contains(err.Error(), `takes "1" out of the number "16" for the concurrency`) {
		t.Errorf("%v, %v", got, err)
	}
	// A level's part ends where the number goes on, or not.
	if got, err := p.FindAll([]byte("A: 5 at 1\nA: 6 at 2\n"), [2]int64{0, 9}, [2]int64{10, 20}); err != nil || len(got) != 2 || got[1][0].Values["X"] != 6 || got[1][0].To != 14 {
		t.Errorf("%v, %v", got, err)
	}
}
