package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/must"
)

// every has a flag of every kind.
type every struct {
	Ranks   *int          `short:"n" name:"ranks"`
	Engine  string        `enum:"auto,nixl,shm" default:"auto"`
	Seed    *uint64       `name:"seed"`
	Timeout time.Duration ``
	Limit   []string      `name:"limit" sep:"none"`
	Columns []string      `name:"columns"`
	Scale   float64       `default:"1"`
	AllowIO bool          `name:"allow-io"`
	Level   *string       `enum:"off,info"`
	Text    string        `default:"preset"`
}

// What Words writes Take reads, among words of others.
func TestWordsAreTaken(t *testing.T) {
	text := rapid.String()
	rapid.Check(t, func(t *rapid.T) {
		element := rapid.StringMatching(`[a-z, =-]*[a-z=-]`)
		optional := func(g *rapid.Generator[string]) []string { return rapid.SliceOfN(g, 0, 3).Draw(t, "list") }
		want := every{
			Ranks: rapid.Ptr(rapid.Int(), true).Draw(t, "ranks"), Engine: rapid.SampledFrom([]string{"auto", "nixl", "shm"}).Draw(t, "engine"),
			Seed:    rapid.Ptr(rapid.Uint64(), true).Draw(t, "seed"),
			Timeout: time.Duration(rapid.Int64().Draw(t, "timeout")), Limit: optional(text), Columns: optional(element),
			Scale: rapid.Float64Range(-1e300, 1e300).Draw(t, "scale"), AllowIO: rapid.Bool().Draw(t, "allow-io"),
			Level: rapid.Ptr(rapid.SampledFrom([]string{"off", "info"}), true).Draw(t, "level"), Text: text.Draw(t, "text"),
		}
		given := want
		words, err := Words(&given)
		must.Do(t, err)
		others := []string{"pingpong", "--size=4", "-x", "--no-verify", "-", "--", "--seed"}
		at := rapid.IntRange(0, len(others)-2).Draw(t, "at")
		var got every
		rest, err := Take(&got, slices.Insert(slices.Clone(others), at, words...))
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		if !slices.Equal(rest, others) {
			t.Errorf("%q: rest %q", words, rest)
		}
		for _, e := range []*every{&want, &got} {
			if len(e.Limit) == 0 {
				e.Limit = nil
			}
			if len(e.Columns) == 0 {
				e.Columns = nil
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", words, diff)
		}
	})
}

func TestTake(t *testing.T) {
	for _, c := range []struct{ words, rest, ranks, level string }{
		{"pingpong --level info", "pingpong", "", "info"},
		{"-n 2 pingpong -n4 --iters 3", "pingpong --iters 3", "4", ""},
		{"--ranks=3 --text a pingpong --size", "pingpong --size", "3", ""},
		{"pingpong --allow_io x", "pingpong x", "", ""},
		{"pingpong -- -n 2", "pingpong -- -n 2", "", ""},
		{"pingpong --levels info", "pingpong --levels info", "", ""},
	} {
		var e every
		rest, err := Take(&e, strings.Fields(c.words))
		if err != nil {
			t.Fatalf("%s: %v", c.words, err)
		}
		ranks, level := "", ""
		if e.Ranks != nil {
			ranks = string(rune('0' + *e.Ranks))
		}
		if e.Level != nil {
			level = *e.Level
		}
		if strings.Join(rest, " ") != c.rest || ranks != c.ranks || level != c.level {
			t.Errorf("%s: rest %q, ranks %q, level %q", c.words, rest, ranks, level)
		}
	}
	for words, want := range map[string]string{
		"pingpong -n": "--ranks", "pingpong --engine rdma": `--engine must be one of "auto","nixl","shm"`, "-n two": `got "two"`,
		"--text --engine shm": "--text", "--timeout never": "--timeout",
	} {
		if _, err := Take(new(every), strings.Fields(words)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", words, err)
		}
	}
}
