package lua

import (
	"slices"
	"testing"
	"time"

	"perigee/internal/clock"
)

// TestSleepIsPunctual measures clock.sleep as a script does, in turns with a sleep in
// Go: half of the script's are late by less than 50 us, unless the machine is so busy
// that those in Go are not either.
func TestSleepIsPunctual(t *testing.T) {
	const rounds, atMost = 5, 50 * time.Microsecond
	var ours, theirs time.Duration
	for range rounds {
		p := mustPlay(t, 1, body(`
			local late = {}
			for i = 1, 30 do
				local seconds = i * 0.0002
				local before = clock.now()
				clock.sleep(seconds)
				late[i] = clock.now() - before - seconds
				assert(late[i] > -1e-6, "a sleep ended early")
			end
			table.sort(late)
			result.set("late", late[15])`))
		ours = time.Duration(p.doc.Values["late"].(float64) * 1e9)
		var late []time.Duration
		for i := range 30 {
			deadline := clock.Now() + int64(i+1)*200_000
			if err := clock.SleepUntil(t.Context(), deadline); err != nil {
				t.Fatal(err)
			}
			late = append(late, time.Duration(clock.Now()-deadline))
		}
		slices.Sort(late)
		theirs = late[len(late)/2]
		if ours < atMost {
			return
		}
	}
	if theirs < atMost {
		t.Errorf("clock.sleep ends %v late, sleeps in Go %v", ours, theirs)
	}
}
