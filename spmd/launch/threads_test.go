package launch_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
)

// limitThreads makes this process one of a user without other processes, who may have few threads.
func limitThreads() {
	if err := errors.Join(syscall.Setuid(54321), unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 200, Max: 200})); err != nil {
		panic(err)
	}
}

// Ranks for which there are not enough threads are not started: the runtimes of some would meet the limit, and end them.
func TestLimitOnThreads(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become a user without other processes")
	}
	out, err := launcherProcess(t, 100, "limited").CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != int(fault.Resource) || !strings.Contains(string(out), "100 ranks need 905 threads, and only ") {
		t.Errorf("%v\n%.1000s", err, out)
	}
}
