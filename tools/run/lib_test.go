package run

import (
	"slices"
	"strings"
	"testing"

	"perigee/lua"
)

// --lib names folders of modules, unless the scenario has an option of this name, or its modules are known.
func TestLib(t *testing.T) {
	own := []lua.Option{{Name: "lib", Type: "string"}}
	for _, c := range []struct {
		folders []string
		options []lua.Option
		rest    string
		libs    []string
	}{
		{[]string{"."}, nil, "--size 1", []string{"a", "b,c"}},
		{[]string{"."}, own, "--lib a --size 1 --lib=b,c", nil},
		{nil, nil, "--lib a --size 1 --lib=b,c", nil},
	} {
		var sc lua.Scenario
		sc.Library.Folders, sc.Options = c.folders, c.options
		j := Job{Words: strings.Fields("--lib a --size 1 --lib=b,c")}
		if early := j.libs(); !slices.Equal(early, []string{"a", "b,c"}) {
			t.Errorf("before the scenario is known: %q", early)
		}
		rest, err := j.Flags.Yielding.take("perigee run x", sc, j.Words)
		if got := strings.Join(rest, " "); err != nil || got != c.rest || !slices.Equal(j.Flags.Yielding.Lib, c.libs) {
			t.Errorf("%v: %q, folders %q, %v", sc.Library, got, j.Flags.Yielding.Lib, err)
		}
	}
}
