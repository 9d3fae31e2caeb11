package compare

import (
	"slices"
	"testing"

	"perigee/internal/result"
)

// Two runs of one script with other texts of a module are other measurements.
func TestModulesDiffer(t *testing.T) {
	with := func(modules ...result.Module) *result.Document {
		return &result.Document{Scenario: result.Scenario{Modules: modules}}
	}
	units := result.NewModule("units", "a/units.lua", "return 1")
	same, other := result.NewModule("units", "b/units.lua", "return 1"), result.NewModule("units", "b/units.lua", "return 2")
	for _, c := range []struct {
		a, b *result.Document
		want []string
	}{
		{with(units), with(same), nil},
		{with(), with(), nil},
		{with(units), with(other), []string{"the modules that the scenario requires differ"}},
	} {
		if got := differ(c.a, c.b); !slices.Equal(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
