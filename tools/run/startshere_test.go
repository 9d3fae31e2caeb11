package run

import (
	"bytes"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/spmd/boot"
)

// A number of ranks says that they start here, whatever has started this process.
func TestStartsHere(t *testing.T) {
	of := func(vars map[string]string) boot.Environ {
		return func(key string) (string, bool) { v, ok := vars[key]; return v, ok }
	}
	flux, pod := of(map[string]string{"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2"}), of(map[string]string{"JOB_COMPLETION_INDEX": "1"})
	for _, c := range []struct {
		name    string
		env     boot.Environ
		flags   Flags
		refused bool
		noted   bool
	}{
		{"flux", flux, Flags{}, true, false},
		{"flux, -n", flux, Flags{Ranks: new(2)}, false, false},
		{"flux, --launcher local", Flags{Launcher: new("local")}.Over(flux), Flags{}, false, false},
		{"a pod", pod, Flags{}, false, true},
		{"a pod, -n", pod, Flags{Ranks: new(2)}, false, false},
	} {
		var w bytes.Buffer
		err := StartsHere(c.env, c.flags, &w)
		if (fault.KindOf(err) == fault.Launch) != c.refused || (err != nil) != c.refused || (w.Len() > 0) != c.noted {
			t.Errorf("%s: %v, %q", c.name, err, &w)
		}
	}
}
