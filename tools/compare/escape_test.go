package compare

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/kit/plaintext"
	"perigee/internal/result"
)

// What results hold moves no cursor, changes no title and starts no formula.
func TestResultsAreEscaped(t *testing.T) {
	const evil = "\x1b]0;owned\a\r\u009b31m\u202egnp.exe\x7f"
	rng := rand.New(rand.NewPCG(33, 34))
	old, fresh := runsOf(4, 2, lognormal(rng, 1)), runsOf(4, 2, lognormal(rng, 2))
	for _, d := range append(old, fresh...) {
		d.Patterns[0].Name, d.Patterns[1].Name = evil, "=cmd|' /C calc'!A0"
		d.DeclareMetrics([]result.MetricDef{{Name: "own " + evil, Better: "lower"}})
		must.Do(t, d.AddLabelled("own "+evil, result.Labels{evil: evil}, 1, 1))
	}
	fresh[0].Scenario.Name, fresh[0].Scenario.SHA256 = evil, "ab"
	fresh[0].World.Hosts[0].Name, fresh[0].Engine.Version = evil, evil
	fresh[0].Status, fresh[0].Failure = result.Partial, &result.Failure{Rank: -1, Cause: evil}
	o := defaults
	o.Force = true
	r := mustCompare(t, old, fresh, o)
	if len(r.Differences) == 0 || len(r.Remarks) == 0 {
		t.Fatalf("differences %q, remarks %q", r.Differences, r.Remarks)
	}
	for format, write := range map[string]func(w io.Writer) error{
		"text": func(w io.Writer) error { return r.WriteText(w, nil, false) },
		"csv":  func(w io.Writer) error { return r.WriteCSV(w, nil) },
		"json": func(w io.Writer) error { return r.WriteJSON(w, nil) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(format, err)
		}
		got := out.String()
		if got != plaintext.Text(got) {
			t.Errorf("%s: %q", format, got)
		}
		if !strings.Contains(got, "owned") || format == "csv" && !strings.Contains(got, "'=cmd|") {
			t.Errorf("%s: the text is gone, or a formula:\n%s", format, got)
		}
		var doc struct{ Remarks []string }
		if format == "json" && (json.Unmarshal(out.Bytes(), &doc) != nil || !strings.Contains(strings.Join(doc.Remarks, ""), evil)) {
			t.Errorf("JSON does not keep %q: %q", evil, doc.Remarks)
		}
	}
}
