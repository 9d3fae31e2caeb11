//go:build cgo

package early

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

// A GOMAXPROCS beyond all machines takes no memory: the runtime gets a smaller one. Others stay.
func TestProcsAreBounded(t *testing.T) {
	if os.Getenv("EARLY_TEST_PROCS") != "" {
		fmt.Println("procs:", runtime.GOMAXPROCS(0))
		return
	}
	for given, most := range map[string]int{"100000": 8192, "64": 64, "3": 3} {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestProcsAreBounded$")
		cmd.Env = append(os.Environ(), "EARLY_TEST_PROCS=1", "GOMAXPROCS="+given)
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

// refused runs a command that ends before Go's runtime starts, and returns what it says.
func refused(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != int(fault.Resource) ||
		strings.Count(string(out), "\n") != 2 || !strings.HasPrefix(string(out), "perigee: ") ||
		!strings.Contains(string(out), "\n  hint: ") {
		t.Errorf("%v: %v\n%.1000s", cmd.Args, err, out)
	}
	return string(out)
}

// Too few descriptors for Go's runtime are told before it starts.
func TestDescriptors(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := refused(t, exec.Command("sh", "-c", `exec 3>&- 4>&- 5>&- 6>&-; ulimit -n 7 && exec "$0" -test.run '^$'`, program))
	if want := "of 7 file descriptors that the program may have 4 are free, and it needs at least 5 to start"; !strings.Contains(out, want) {
		t.Errorf("got %s, want %s", out, want)
	}
}

// Where Go's runtime gets no memory or no thread, it is told in perigee's words, and not by the exit code of a wrong
// command line.
func TestLimits(t *testing.T) {
	if lack := os.Getenv("EARLY_TEST_LACK"); lack != "" {
		takeBeyond(lack)
		return
	}
	for lack, want := range map[string]string{
		"memory":  "the limit on address space is 1024 KiB, and the program has ",
		"data":    "the limit on data is 1024 KiB, and the program has ",
		"threads": "no more threads can be started; the limit is 1 for all that this user runs",
	} {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestLimits$")
		cmd.Env = append(os.Environ(), "EARLY_TEST_LACK="+lack)
		if os.Geteuid() == 0 && lack == "threads" { // root may have any number
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		if out := refused(t, cmd); !strings.Contains(out, want) {
			t.Errorf("%s: got %s, want %s", lack, out, want)
		}
	}
}

// takeBeyond lowers a limit of this process, and takes more.
func takeBeyond(lack string) {
	if lack == "threads" {
		unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: 1})
		started := make(chan bool)
		for range 1000 { // more than any runtime has waiting
			go func() {
				runtime.LockOSThread()
				started <- true
				select {}
			}()
			<-started
		}
		return
	}
	limit := unix.RLIMIT_AS
	if lack == "data" {
		limit = unix.RLIMIT_DATA
	}
	unix.Setrlimit(limit, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
	runtime.KeepAlive(make([]byte, 1<<30))
}

// A GOMEMLIMIT is refused where the runtime cannot read it, and only there.
func TestMemoryLimit(t *testing.T) {
	command := func(value string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^$")
		cmd.Env = append(os.Environ(), "GOMEMLIMIT="+value)
		return cmd
	}
	for _, value := range []string{
		"", "off", "8589934592", "+8589934592", "8589934592B", "8388608KiB", "8192MiB", "8GiB", "8191TiB", "8388607TiB", "9223372036854775807",
	} {
		if out, err := command(value).CombinedOutput(); err != nil {
			t.Errorf("GOMEMLIMIT=%s: %v\n%.1000s", value, err, out)
		}
	}
	for _, value := range []string{
		"abc", "-1", "+", "B", "iB", "KiB", " 5", "5 ", "5K", "5KB", "5kiB", "5PiB", "5iB", "1_000", "0x10", "1e9", "OFF", "5MiBB",
		"8388608TiB", "9223372036854775808", "18446744073709551617B",
	} {
		if out := refused(t, command(value)); !strings.Contains(out, "GOMEMLIMIT="+value+": want a size such as 4GiB or 500MiB, or off\n") {
			t.Errorf("GOMEMLIMIT=%s: %s", value, out)
		}
	}
	if out := refused(t, command("\x1b[31m"+strings.Repeat("x", 5000))); strings.Contains(out, "\x1b") || len(out) > 300 {
		t.Errorf("%q", out)
	}
}
