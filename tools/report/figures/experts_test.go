package figures

import (
	"slices"
	"testing"
)

// Who is waited for, if the measurement names it, and the best bandwidth.
func TestFindingsOfExperts(t *testing.T) {
	plane := func(entry, verdict, named string, rate float64) any {
		return map[string]any{
			"mode": "e2e", "entry": entry, "tokens": 64., "hidden": 1024., "verdict": verdict, "named": named,
			"gb_per_s": map[string]any{"assignment": rate},
		}
	}
	d := handMade()
	d.Measurements = nil
	d.Values = map[string]any{"ep": []any{
		plane("fresh", "dispatch: all wait for rank 2 (n): 90.0 us, 4.0 times as long as the others on average", "all wait for rank 2 (n)", 0.01234),
		plane("steady", "no rank was waited for much more than the others", "", 0.01),
	}}
	f, err := Of(d)
	if err != nil {
		t.Fatal(err)
	}
	want := []Finding{
		{"bad", "e2e, fresh, 64 tokens: dispatch: all wait for rank 2 (n): 90.0 us, 4.0 times as long as the others on average."},
		{"note", "The best bandwidth of a rank is 12.3 MB/s by assignment: e2e, fresh, 64 tokens of 1024 channels."},
	}
	if !slices.Equal(f.Findings, want) {
		t.Errorf("got %q", f.Findings)
	}
}
