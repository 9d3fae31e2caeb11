package launch

import (
	"strings"
	"testing"

	"perigee/internal/kit/fault"
)

// Ranks may fill 80 % of the memory.
func TestLimitOnMemory(t *testing.T) {
	there := func() (int64, error) { return 1e9, nil }
	if err := enoughMemory(88, there); err != nil {
		t.Error(err)
	}
	if err := enoughMemory(89, there); fault.KindOf(err) != fault.Resource || !strings.Contains(err.Error(), "89 ranks need at least 801 MB of memory, and they may have 80 % of 1.00 GB that are available") {
		t.Error(err)
	}
}
