package boot

import (
	"strings"
	"testing"

	"perigee/internal/kit/fault"
)

func TestNoPMIxLibrary(t *testing.T) {
	_, err := Join(t.Context(), environ(vars(pmixEnv+EnvPMIxLibrary+"=libperigee-no-such.so.2")), Watcher{})
	checkFault(t, "no library", false, err, "load libperigee-no-such.so.2")
	if hint := fault.HintOf(err); !strings.Contains(hint, "libpmix2") || !strings.Contains(hint, EnvPMIxLibrary) {
		t.Errorf("hint %q", hint)
	}
}
