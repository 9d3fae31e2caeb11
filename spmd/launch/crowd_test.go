package launch

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/must"
)

// A process that is started in between has the slack, this thread has what it had, and a slack that the user has chosen
// stays.
func TestSlack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	is := func() time.Duration {
		n, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		must.Do(t, err)
		return time.Duration(n)
	}
	set := func(d time.Duration) {
		must.Do(t, unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d), 0, 0, 0))
	}
	before := is()
	defer set(before)
	set(punctual)
	end := slacken()
	out, err := exec.Command("cat", "/proc/self/timerslack_ns").Output()
	if err != nil || strings.TrimSpace(string(out)) != "2000000" {
		t.Errorf("a process of a crowd has slack %q, %v, want 2 ms", out, err)
	}
	Punctual()
	if got := is(); got != punctual {
		t.Errorf("a thread that measures has slack %v, want %v", got, punctual)
	}
	set(slack)
	end()
	if got := is(); got != punctual {
		t.Errorf("after the start the launcher has slack %v, want %v", got, punctual)
	}
	const chosen = time.Millisecond
	set(chosen)
	slacken()()
	Punctual()
	if got := is(); got != chosen {
		t.Errorf("the user's slack %v has become %v", chosen, got)
	}
}

func TestOnOneCPU(t *testing.T) {
	if got := onOneCPU([]string{"A=1"}); !slices.Equal(got, []string{"A=1", "GOMAXPROCS=1"}) {
		t.Errorf("got %q", got)
	}
	if got := onOneCPU([]string{"GOMAXPROCS=3"}); !slices.Equal(got, []string{"GOMAXPROCS=3"}) {
		t.Errorf("the user's choice has become %q", got)
	}
	if got := onOneCPU(nil); !slices.Contains(got, "GOMAXPROCS=1") || len(got) < 2 {
		t.Errorf("without its own environment, a rank gets %q", got)
	}
}
