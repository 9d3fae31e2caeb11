package kernel

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSelf(t *testing.T) {
	id, err := Self()
	must.Do(t, err)
	if id.PID != uint64(os.Getpid()) || id.Start == 0 || id.Namespace == 0 || id.Boot == [16]byte{} {
		t.Errorf("%+v", id)
	}
	got, err := DecodeProcess(id.Append(nil))
	if err != nil || got != id {
		t.Errorf("read back %+v, %v; want %+v", got, err, id)
	}
	if n := len(id.Append(nil)); n != ProcessSize {
		t.Errorf("%d bytes: want %d", n, ProcessSize)
	}
	if !id.SameSpace(id) || !id.SameHost(id) {
		t.Error("not the same as itself")
	}
	other := id
	other.Namespace++
	if id.SameSpace(other) || !id.SameHost(other) {
		t.Error("another namespace of this host")
	}
	other.Boot[3]++
	if id.SameHost(other) {
		t.Error("another host")
	}
}

func TestDecodeRefusesPIDs(t *testing.T) {
	for _, pid := range []uint64{0, 1 << 31, 1<<64 - 1} {
		if _, err := DecodeProcess(ProcessID{PID: pid}.Append(nil)); err == nil {
			t.Errorf("pid %d: no error", pid)
		}
	}
}

// startChild starts a process that ends with the test.
func startChild(t *testing.T, own ProcessID) (*exec.Cmd, ProcessID) {
	t.Helper()
	child := exec.Command("sleep", "600")
	must.Do(t, child.Start())
	t.Cleanup(func() {
		child.Process.Kill()
		child.Wait()
	})
	id := own
	id.PID = uint64(child.Process.Pid)
	var err error
	if id.Start, err = startTime(id.PID); err != nil {
		t.Fatal(err)
	}
	return child, id
}

// A process that cannot be looked at is not called gone.
func TestWatchWithoutDescriptors(t *testing.T) {
	own, err := Self()
	must.Do(t, err)
	_, id := startChild(t, own)
	var limit unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 3 // those for a terminal
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	w, err := Watch(own, id)
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	if fault.KindOf(err) != fault.Resource || !errors.Is(err, unix.EMFILE) {
		t.Errorf("got %v, %v, want an error of kind resource", w, err)
	}
}

func TestWatch(t *testing.T) {
	own, err := Self()
	must.Do(t, err)
	child, id := startChild(t, own)
	w, err := Watch(own, id)
	must.Do(t, err)
	defer w.Stop()
	if w.Gone() {
		t.Error("gone while it lives")
	}

	reused := id
	reused.Start--
	if _, err := Watch(own, reused); fault.KindOf(err) != fault.RankLost {
		t.Errorf("the pid of another process: got %v", err)
	}

	must.Do(t, child.Process.Kill())
	// Not waited for yet: a zombie is gone as well.
	for deadline := time.Now().Add(5 * time.Minute); !w.Gone(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("its end is not noticed")
		}
	}
	if _, err := Watch(own, id); fault.KindOf(err) != fault.RankLost {
		t.Errorf("a zombie: got %v", err)
	}
	child.Wait()
	if _, err := Watch(own, id); fault.KindOf(err) != fault.RankLost {
		t.Errorf("no process: got %v", err)
	}
}

func TestWatchSelf(t *testing.T) {
	own, err := Self()
	must.Do(t, err)
	w, err := Watch(own, own)
	if err != nil || w.Gone() {
		t.Fatalf("%v, %v", w, err)
	}
	w.Stop()
	own2 := own
	own2.Start++
	if _, err := Watch(own, own2); fault.KindOf(err) != fault.RankLost {
		t.Errorf("an earlier process with this pid: got %v", err)
	}
	if (*Watched)(nil).Gone() {
		t.Error("a nil Watched is gone")
	}
}

func TestStopEndsWatching(t *testing.T) {
	own, err := Self()
	must.Do(t, err)
	_, id := startChild(t, own)
	w, err := Watch(own, id)
	must.Do(t, err)
	w.Stop()
	w.Stop()
	if w.Gone() {
		t.Error("Stop makes it gone")
	}
}
