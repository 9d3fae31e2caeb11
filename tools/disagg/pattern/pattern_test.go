package pattern

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/fuzztest"
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
		got, err := Translate(c.source)
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
		if _, err := Translate(source); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: got %v, want a word about %s", source, err, word)
		}
	}
}

func TestFindAll(t *testing.T) {
	text := []byte("A: 1.5\nB: 2\ncon 8\nA: 3\nB: 4.25\ncon 16\n")
	p, err := Compile(`A: \s* ([0-9.]+) [\s\S]*? B: \s* ([0-9.]+) [\s\S]*? con \s (\d+)`, []string{"X", "Y"})
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
	p, err = Compile(`A: \s+ ([0-9.]+)`, []string{"X"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.FindAll(text); err != nil || len(got[0]) != 2 || got[0][1].Values["X"] != 3 || got[0][1].Concurrency != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	// A named group may stand anywhere.
	p, err = Compile(`con\ (?P<concurrency>\d+)\nA:\ ([0-9.]+)`, []string{"X"})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := p.FindAll(text); len(got[0]) != 1 || got[0][0].Concurrency != 8 || got[0][0].Values["X"] != 3 {
		t.Errorf("got %v", got)
	}
	for _, names := range [][]string{nil, {"X", "Y", "Z"}} {
		if _, err := Compile(`(a)`, names); err == nil {
			t.Errorf("one group for the names %v", names)
		}
	}
	if p, _ := Compile(`(A)`, []string{"X"}); p != nil {
		if _, err := p.FindAll(text); err == nil {
			t.Error("a letter was taken for a number")
		}
	}
	// JSON has no such number: a run could not write down what it has found.
	p, err = Compile(`A:\ (\w+)`, []string{"X"})
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
		p, err := Compile(source, []string{"X"})
		if err == nil {
			_, _ = p.FindAll([]byte("X: 1\n2 3\n"))
		}
	})
}

// x{1000} is text of seven bytes, and its program takes 300 kB.
func TestLongPrograms(t *testing.T) {
	for source, refused := range map[string]bool{
		`(\d+)`: false, `(\d{1,19})\s+tokens\s*(?:[a-z]{3}|[^\n]{0,200})`: false, `((?:ab){1000}){1,10}`: true,
		"(" + strings.Repeat(`(?:[\w\W]{0,1000})`, 9) + ")": false, "(" + strings.Repeat(`(?:[\w\W]{0,1000})`, 11) + ")": true,
		"(" + strings.Repeat("x", 8<<10) + ")": true, "(" + strings.Repeat("x", 8<<10-2) + ")": false,
	} {
		_, err := Compile(source, []string{"m"})
		if (err != nil) != refused {
			t.Errorf("%.60q: %v", source, err)
		}
	}
}

// Groups within each other find many values in each character.
func TestTooManyValues(t *testing.T) {
	const groups = 200
	p, err := Compile(strings.Repeat("(", groups)+`\d`+strings.Repeat(")", groups), slices.Repeat([]string{"X"}, groups))
	if err != nil {
		t.Fatal(err)
	}
	const wanted = "wanted at most 5216 matches"
	if _, err := p.FindAll([]byte(strings.Repeat("1", 6000))); err == nil || !strings.Contains(err.Error(), wanted) {
		t.Errorf("got %v for too many values", err)
	}
	if got, err := p.FindAll([]byte(strings.Repeat("1", 5216))); err != nil || len(got[0]) != 5216 {
		t.Errorf("got %d matches, %v; wanted 5216", len(got), err)
	}
}

// A pattern may look through the rest of the text for each match.
func TestEndlessSearch(t *testing.T) {
	before := patience
	defer func() { patience = before }()
	p, err := Compile(`(1)(?:[\s\S]*Z)?`, []string{"X"})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("1", 2000))
	if got, err := p.FindAll(text); err != nil || len(got[0]) != len(text) {
		t.Fatalf("got %d matches, %v", len(got), err)
	}
	patience = time.Nanosecond
	if _, err := p.FindAll(text); err == nil || !strings.Contains(err.Error(), "takes longer than 1ns") {
		t.Errorf("got %v", err)
	}
}
