package replay

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/nixl/capi"
)

func TestMain(m *testing.M) {
	if IsRank() {
		if err := Rank(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Between two processes every message is posted once, whether in time or not: the machine may be busy.
func TestNothingIsDropped(t *testing.T) {
	for _, engine := range []string{"shm", "nixl"} {
		if _, err := capi.Find(""); engine == "nixl" && err != nil {
			t.Log(err)
			continue
		}
		var out bytes.Buffer
		must.Do(t, one(&out, engine, 2000, time.Second/2))
		f := strings.Fields(out.String())
		if len(f) != 9 || strings.Join(f[:4], " ") != engine+" 2000 1000 0" || f[8] != "ok" && f[8] != "MISSED" {
			t.Errorf("%q", out.String())
		}
	}
	if err := one(new(bytes.Buffer), "none", 1, time.Second); err == nil || !strings.Contains(err.Error(), `"none"`) {
		t.Errorf("an engine that there is not: %v", err)
	}
}
