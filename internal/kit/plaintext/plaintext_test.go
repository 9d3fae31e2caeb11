package plaintext

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "",
		"größe ∑ 漢字 😀":                "größe ∑ 漢字 😀",
		"\x1b]0;title\a":              `\x1b]0;title\a`,
		"a\rb\nc\td\x00\x7f":          `a\rb\nc\td\x00\x7f`,
		"\u009b31m":                   `\u009b31m`,
		"\x9b31m \xff":                `\x9b31m \xff`,
		"evil\u202egpj.exe\u2066x":    `evil\u202egpj.exe\u2066x`,
		"l\u2028p\u2029 \u200e\u061c": `l\u2028p\u2029 \u200e\u061c`,
		"\ufffd is a character":       "\ufffd is a character",
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestCell(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a=b": "a=b", "=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0", "+1+2": "'+1+2", "-2": "-2", "-1.5e+06": "-1.5e+06", "@SUM(A1)": "'@SUM(A1)", "-x": "'-x", "\t=1": "\\t=1", "a\x1b\nb": "a\\x1b\\nb",
		"p;=1": "p;'=1", "p; \"=1;b;@x": "p;' \"=1;b;'@x", "a;b": "a;b", "a\n=1": "a\\n=1", " =1": "' =1",
	} {
		if got := Cell(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// However a text is cut into pieces, the writer writes the same, and nothing dangerous.
func TestWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\x1b[31m", "\u202e", "é\xc3", "\xe2\x80", "\u009b", "\n", "\t"}))).Draw(t, "text"), "")
		var whole, pieces bytes.Buffer
		w := Writer(&whole)
		w.Write([]byte(text))
		w.Close()
		p := Writer(&pieces)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if k, err := p.Write([]byte(rest[:n])); k != n || err != nil {
				t.Fatalf("wrote %d of %d: %v", k, n, err)
			}
			rest = rest[n:]
		}
		p.Close()
		if whole.String() != pieces.String() {
			t.Fatalf("%q at once, %q in pieces", &whole, &pieces)
		}
		if got := whole.String(); !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return hidden(r) && r != '\n' && r != '\t' }) {
			t.Fatalf("%q of %q", got, text)
		}
	})
}

func TestJSONWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "text") + "\u202e\u009b\x7f\x1b"
		data, err := json.Marshal(map[string]string{"k": want})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w := JSONWriter(&out)
		w.Write(append(data, '\n'))
		w.Close()
		var got map[string]string
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["k"] != want {
			t.Fatalf("%v: got %q, want %q", err, got["k"], want)
		}
		if s := strings.TrimSuffix(out.String(), "\n"); Escape(s) != s {
			t.Fatalf("%q", s)
		}
	})
}

func TestInJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`\\x1b`, `\u001b`})).Draw(t, "text") + "\u202e\u009b\x7f\x1b\b\r\n\t\u2028\\\""
		data, err := json.Marshal([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		raw := []byte("[\"\\u202e\\u001B\\ud83d\\ude00\\\\u001b\"]") // as others encode it
		for in, want := range map[string]string{string(data): Text(text), string(raw): "\\u202e\\x1b\U0001f600\\u001b"} {
			var got []string
			if err := json.Unmarshal(InJSON([]byte(in)), &got); err != nil || got[0] != want {
				t.Fatalf("%v: got %q, want %q", err, got, want)
			}
		}
	})
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc..."}, {"a\u20acb", 3, "a..."}, {"a\u20acb", 4, "a\u20ac..."}, {"\u20ac", 2, "..."},
		{"\x80\x80\x80\x80\x80\x80\x80", 6, "\x80\x80\x80\x80\x80\x80..."},
	} {
		if got := Cut(c.text, c.most); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
