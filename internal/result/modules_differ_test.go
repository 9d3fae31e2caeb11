package result

import (
	"slices"
	"testing"
)

// Two runs of one script with other texts of a module are other measurements.
func TestModulesDiffer(t *testing.T) {
	with := func(modules ...Module) *Document {
		return &Document{Scenario: Scenario{Modules: modules}}
	}
	units := NewModule("units", "a/units.lua", "return 1")
	same, other := NewModule("units", "b/units.lua", "return 1"), NewModule("units", "b/units.lua", "return 2")
	for _, c := range []struct {
		a, b *Document
		want []string
	}{
		{with(units), with(same), nil},
		{with(), with(units), nil}, // then the scripts differ
		{with(units), with(other), []string{"text of the module units: SHA-256 " + short(units.SHA256) + " and SHA-256 " + short(other.SHA256)}},
	} {
		if got := Differences(c.a, c.b); !slices.EqualFunc(got, c.want, func(d Difference, text string) bool { return d.String() == text }) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
