package harness

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Watch measures a time, and meanwhile how many others want the processors: what
// takes a second on an idle machine takes two where twice as many threads are
// ready to run as there are processors. So limits on times hold on a loaded
// machine, too, and are strict on an idle one.
type Watch struct {
	started time.Time
	stop    func() (ready float64)
}

// sampling is how often the load is looked at.
const sampling = 20 * time.Millisecond

// StartWatch starts a watch.
func StartWatch() *Watch {
	over := make(chan struct{})
	result := make(chan float64, 1)
	go func() {
		var sum float64
		var n int
		for {
			sum, n = sum+float64(readyThreads()), n+1
			select {
			case <-over:
				result <- sum / float64(n)
				return
			case <-time.After(sampling):
			}
		}
	}()
	return &Watch{time.Now(), sync.OnceValue(func() float64 {
		close(over)
		return <-result
	})}
}

// readyThreads is how many threads of the machine run or could run, without the
// one that asks.
func readyThreads() int {
	text, err := os.ReadFile("/proc/loadavg")
	var a, b, c string
	var ready int
	if err == nil {
		_, err = fmt.Sscan(strings.Replace(string(text), "/", " ", 1), &a, &b, &c, &ready)
	}
	if err != nil {
		return 0
	}
	return ready - 1
}

// Check stops the watch, and fails the test if the time from the start until a
// moment is longer than limit on a machine without other work. free is added as
// it is: a time for which everybody sleeps.
func (w *Watch) Check(t testing.TB, what string, until time.Time, limit, free time.Duration) {
	t.Helper()
	ready := w.stop()
	took := until.Sub(w.started)
	factor := max(1, ready/float64(runtime.NumCPU()))
	if most := time.Duration(float64(limit)*factor) + free; took > most {
		t.Errorf("%s took %v, want at most %v (%.1f threads were ready on %d processors)", what, took, most, ready,
			runtime.NumCPU())
	}
}
