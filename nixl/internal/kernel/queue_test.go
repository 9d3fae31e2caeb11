package kernel

import (
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/nixl"
)

func TestUnavailable(t *testing.T) {
	if _, err := OpenQueue("SMOKE"); fault.KindOf(err) != fault.Usage {
		t.Errorf("got %v", err)
	}
	for api, code := range map[string]error{nixl.URING: unix.EPERM, nixl.AIO: unix.EAGAIN} {
		if err := unavailable(api, code); fault.KindOf(err) != fault.Resource || fault.HintOf(err) == "" {
			t.Errorf("%s: %v, hint %q", api, err, fault.HintOf(err))
		}
	}
}
