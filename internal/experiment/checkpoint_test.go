package experiment

import (
	"testing"
	"time"
)

// A checkpoint by the way does not make rank 0 late for what comes after its wait.
func TestLongEnough(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		k    *checkpoints
		want bool
	}{
		"a pause before a run":   {&checkpoints{took: time.Millisecond, idle: now, until: now.Add(50 * time.Millisecond)}, false},
		"a long sleep":           {&checkpoints{took: time.Millisecond, idle: now, until: now.Add(time.Minute)}, true},
		"a large result":         {&checkpoints{took: time.Second, idle: now, until: now.Add(5 * time.Second)}, false},
		"a barrier":              {&checkpoints{took: time.Millisecond, idle: now.Add(-time.Second / 2)}, false},
		"ranks that do not come": {&checkpoints{took: time.Millisecond, idle: now.Add(-2 * time.Second)}, true},
	} {
		if got := c.k.longEnough(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
