package launch_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
)

// limitThreads makes this process one of a user without other processes, who may have few threads.
func limitThreads() {
	if err := errors.Join(syscall.Setuid(54321), unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 200, Max: 200})); err != nil {
		panic(err)
	}
}

// A GOMAXPROCS beyond all machines takes no memory: the runtime gets a smaller one. Others stay.
func TestProcsAreBounded(t *testing.T) {
	if os.Getenv("LAUNCH_TEST_PROCS") != "" {
		fmt.Println("procs:", runtime.GOMAXPROCS(0))
		return
	}
	for given, most := range map[string]int{"100000": 8192, "64": 64, "3": 3} {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestProcsAreBounded$")
		cmd.Env = append(os.Environ(), "LAUNCH_TEST_PROCS=1", "GOMAXPROCS="+given)
		out, err := cmd.CombinedOutput()
		var got int
		if _, text, ok := strings.Cut(string(out), "procs: "); ok {
			fmt.Sscan(text, &got)
		}
		if err != nil || got < min(64, most) || got > most {
			t.Errorf("GOMAXPROCS=%s: %d, %v\n%s", given, got, err, out)
		}
	}
}

// Ranks for which there are not enough threads are not started: Go's runtime would end each of them with a dump.
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
