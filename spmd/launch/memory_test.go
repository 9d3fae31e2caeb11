package launch

import (
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// Ranks may fill 80 % of the memory.
func TestLimitOnMemory(t *testing.T) {
	there := func() (int64, error) { return 1e9, nil }
	if err := enoughMemory(88, there); err != nil {
		t.Error(err)
	}
	must.Fail(t, enoughMemory(89, there), fault.Resource, "89 ranks need at least 801 MB of memory, and they may have 80 % of 1.00 GB that are available")
}
