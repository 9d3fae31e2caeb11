package run

import (
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/internal/kit/must"
	"perigee/spmd"
)

// A rank that fills the memory of its host ends the job before the kernel ends some process.
func TestWatchMemory(t *testing.T) {
	left := func(bytes int64) func() (int64, error) { return func() (int64, error) { return bytes, nil } }
	worlds, _ := spmd.NewInMemory(1)
	k := &rank{world: worlds[0]}
	go k.watchMemory(1<<10, left(0))
	select {
	case <-worlds[0].Context().Done():
	case <-time.After(5 * time.Minute):
		t.Fatal("the job goes on")
	}
	if err := worlds[0].Err(); fault.KindOf(err) != fault.Resource || !strings.Contains(err.Error(), "were available at the start, for 1 rank") || fault.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	for available, left := range map[int64]func() (int64, error){1 << 50: left(0), 1 << 10: left(1 << 10)} {
		worlds, _ = spmd.NewInMemory(1)
		k = &rank{world: worlds[0]}
		go k.watchMemory(available, left)
		time.Sleep(3 * watchEvery)
		if err := worlds[0].Err(); err != nil {
			t.Errorf("with enough memory: %v", err)
		}
		worlds[0].Close()
	}
}

// A rank that takes more than half of what a limit of its process leaves ends the job before Go's runtime ends the
// process, however much the host has. The limit is set when the memory is taken, since the race detector takes more.
func TestWatchMemoryOfLimitedProcess(t *testing.T) {
	if os.Getenv("RUN_TEST_LIMITED") == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestWatchMemoryOfLimitedProcess$")
		cmd.Env = append(os.Environ(), "RUN_TEST_LIMITED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%.4000s", err, out)
		}
		return
	}
	kept := make([]byte, 256<<20)
	must.Do(t, unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: 1 << 50, Max: unix.RLIM_INFINITY}))
	left, _ := memory.Limited()
	limit := uint64(1<<50 - left + 256<<20)
	must.Do(t, unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: unix.RLIM_INFINITY}))
	worlds, _ := spmd.NewInMemory(1)
	k := &rank{world: worlds[0]}
	go k.watchMemory(math.MaxInt64, func() (int64, error) { return math.MaxInt64, nil })
	select {
	case <-worlds[0].Context().Done():
	case <-time.After(5 * time.Minute):
		t.Fatal("the job goes on")
	}
	runtime.KeepAlive(kept)
	if err := worlds[0].Err(); fault.KindOf(err) != fault.Resource || !strings.Contains(err.Error(), "ulimit -d") || fault.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}
