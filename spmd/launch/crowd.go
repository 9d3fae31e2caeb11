package launch

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// In each process a thread of Go's runtime looks after the others as long as one of them works or waits for a CPU:
// every 20 us at first, later every 10 ms. With hundreds of ranks on few CPUs nearly all wait, the longer the more
// there are, and these looks took half the start of 512 ranks on 2 CPUs. So they start with timer slack, by which
// the kernel may put off the wake-ups of a thread (prctl(2)): a process has that of the thread that starts it, a new
// thread that of its maker. They also run Go code on one CPU at a time, of which they have a small part: a wait in
// the kernel for another rank is then noticed at once, and not looked at for 10 ms.
const (
	crowd    = 16 // ranks per CPU beyond which they start so
	slack    = 2 * time.Millisecond
	punctual = 50 * time.Microsecond // the kernel's own
)

// slacken gives the processes that this goroutine starts timer slack until the function that it returns is called.
func slacken() (end func()) {
	runtime.LockOSThread()
	if !changeSlack(punctual, slack) {
		return runtime.UnlockOSThread // the user has chosen another
	}
	return func() {
		changeSlack(slack, punctual)
		runtime.UnlockOSThread()
	}
}

// The thread that looks after the others is there by now, and keeps its slack, as do the threads that it makes.
func init() { Punctual() }

// Punctual takes the slack of a crowd from this thread, for what a rank measures, if it still has it.
func Punctual() { changeSlack(slack, punctual) }

// changeSlack changes the timer slack of this thread if it is as expected.
func changeSlack(from, to time.Duration) bool {
	is, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	return err == nil && time.Duration(is) == from && unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(to), 0, 0, 0) == nil
}

// onOneCPU is an environment in which Go code runs on one CPU at a time, unless the user has chosen.
func onOneCPU(env []string) []string {
	const key = "GOMAXPROCS="
	if env == nil {
		env = os.Environ()
	}
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, key) }) {
		return env
	}
	return append(slices.Clone(env), key+"1")
}
