package launch

import (
	"strings"
	"testing"

	"perigee/internal/fault"
)

func TestLimitOnMemory(t *testing.T) {
	there := func() (int64, error) { return 1e9, nil }
	if err := enoughMemory(100, there); err != nil {
		t.Error(err)
	}
	if err := enoughMemory(200, there); fault.KindOf(err) != fault.Resource || !strings.Contains(err.Error(), "200 ranks need at least 1.80 GB of memory") {
		t.Error(err)
	}
}
