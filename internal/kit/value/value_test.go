package value

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestCheck takes data as the types have it, and says of all else what was wanted.
func TestCheck(t *testing.T) {
	size, length := within("size", 1, 1<<20), within("list", 1, 3)
	for _, c := range []struct {
		field Field
		data  any
		want  any // a text that begins with wanted is an error
	}{
		{Whole(1, 9), int64(9), int64(9)}, {Whole(1, 9), 9.0, int64(9)},
		{Whole(1, 9), int64(10), "wanted a whole number from 1 to 9, got 10"},
		{Whole(1, 9), 1.5, "wanted a whole number from 1 to 9, got 1.5"},
		{Whole(1, 9), "9", `wanted a whole number from 1 to 9, got the text "9"`},
		{AtLeast(0), int64(-1), "wanted a whole number of at least 0, got -1"},
		{Whole(3, 3), nil, "wanted a whole number 3, got nothing (null)"},
		{Tokens(1, 1<<40), "64k", int64(64000)}, {Tokens(1, 1<<40), "64K", int64(65536)},
		{Tokens(1, 1<<40), "1.5m", int64(1_500_000)}, {Tokens(1, 1<<40), "4096", int64(4096)}, {Tokens(1, 8), int64(8), int64(8)},
		{Tokens(1, 1<<40), "1.2345k", `wanted a whole number of tokens from 1 to 1099511627776, got the text "1.2345k"`},
		{Tokens(1, 8), "64q", `wanted a whole number of tokens from 1 to 8, got the text "64q"`},
		{Tokens(1, 8), "inf", `wanted a whole number of tokens from 1 to 8, got the text "inf"`},
		{size, "64K", int64(65536)}, {size, "2M", `wanted a size from 1 B to 1 MiB, got the text "2M"`},
		{Field{Type: "size"}, int64(-1), "wanted a size in bytes, such as 4096, 64K or 1.5G, got -1"},
		{Number(0, 1), int64(1), 1.0}, {Number(0, 1), 1.01, "wanted a number from 0 to 1, got 1.01"},
		{Field{Type: "duration"}, "500ms", 0.5}, {Field{Type: "duration"}, "0s", `wanted a time above 0 with its unit, such as 500ms, 30s or 2m, got the text "0s"`},
		{Field{Type: "bool"}, true, true}, {Field{Type: "bool", Choices: []string{"every"}}, "Every", "every"},
		{Field{Type: "bool"}, int64(1), "wanted true or false, got 1"},
		{Field{Type: "enum", Choices: []string{"READ", "WRITE"}}, "write", "WRITE"},
		{Field{Type: "enum", Choices: []string{"READ", "WRITE"}}, "wriet", `wanted one of READ, WRITE, got the text "wriet"; did you mean "WRITE"?`},
		{Field{Type: "string"}, []any{}, "wanted text, got a list"},
		{length, nil, "wanted a list of 1 to 3 elements, got nothing (null)"},
	} {
		got, err := c.field.Check(c.data)
		if text, isText := c.want.(string); isText && strings.HasPrefix(text, "wanted") {
			if err == nil || err.Error() != text {
				t.Errorf("%v: %v: want %s", c.data, err, text)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%v: %v, %v: want %v", c.data, got, err, c.want)
		}
	}
	if got, err := Whole(1, 9).Parse("007"); err != nil || got != int64(7) {
		t.Errorf("%v, %v", got, err)
	}
	const want = `wanted a whole number from 1 to 9, got "x"`
	if _, err := Whole(1, 9).Parse("x"); err == nil || err.Error() != want {
		t.Errorf("%v: want %s", err, want)
	}
	if length.Holds(0) || !length.Holds(3) || length.Holds(4) {
		t.Error("the bounds of a list are not held")
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "ac", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q): %d: want %d", c.a, c.b, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-c]{0,6}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		if d != distance(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) || d < max(len(a), len(b))-min(len(a), len(b)) {
			t.Fatalf("distance(%q, %q) = %d", a, b, d)
		}
	})
}

func TestSuggestion(t *testing.T) {
	known := []string{"iters", "warmup_iters", "mem_type"}
	for word, want := range map[string]string{
		"iter": `; did you mean "iters"?`, "ITERS": `; did you mean "iters"?`, "warm_up_iters": `; did you mean "warmup_iters"?`,
		"memtype": `; did you mean "mem_type"?`, "metadata": "", "x": "", "warmup": `; did you mean "warmup_iters"?`, "": "", strings.Repeat("iters", 100): "",
	} {
		if got := Suggestion(word, known); got != want {
			t.Errorf("%q: %q: want %q", word, got, want)
		}
	}
	if got := Suggestion("gpu", []string{"cuda", "vram", "cpu", "dram"}); got != `; did you mean "cuda"?` {
		t.Errorf("gpu: %q", got)
	}
}
