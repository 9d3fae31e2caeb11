package lua

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/clock"
)

// turn is a writer that calls the function when a script prints.
type turn func()

func (f turn) Write(text []byte) (int, error) {
	f()
	return len(text), nil
}

// TestSleepIsPunctual measures clock.sleep as a script does, in turns with a sleep in
// Go: half of the script's are late by less than 50 us, unless the machine is so busy
// that those in Go are not either. One round in which that is so will do.
func TestSleepIsPunctual(t *testing.T) {
	const rounds, sleeps, atMost = 5, 30, 50 * time.Microsecond
	var verdicts []string
	for range rounds {
		var late []time.Duration
		sleep := func() {
			deadline := clock.Now() + int64(len(late)+1)*200_000
			if err := clock.SleepUntil(t.Context(), deadline); err != nil {
				t.Error(err)
			}
			late = append(late, time.Duration(clock.Now()-deadline))
		}
		p := playWith(t, 1, body(fmt.Sprintf(`
			local late = {}
			for i = 1, %d do
				local seconds = i * 0.0002
				local before = clock.now()
				clock.sleep(seconds)
				late[i] = clock.now() - before - seconds
				assert(late[i] > -1e-6, "a sleep ended early")
				print("your turn")
			end
			table.sort(late)
			result.set("late", late[%d])`, sleeps, sleeps/2)), nil, func(env *Env) { env.Out = turn(sleep) })
		if err := p.failed(); err != nil || len(late) != sleeps {
			t.Fatalf("%d sleeps in Go, %v", len(late), err)
		}
		slices.Sort(late)
		ours, theirs := time.Duration(p.doc.Values["late"].(float64)*1e9), late[sleeps/2]
		if ours < atMost || theirs >= atMost {
			return
		}
		verdicts = append(verdicts, fmt.Sprintf("%v late, those in Go %v", ours, theirs))
	}
	t.Errorf("clock.sleep ends %s", strings.Join(verdicts, "; "))
}
