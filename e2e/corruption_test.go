package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// oneByte is what verification says when byte 40000 of a buffer has changed: messages that are received begin 4096 bytes
// behind its beginning.
var oneByte = regexp.MustCompile(`verification failed: mesh: (message from rank 0 to rank 1|message from rank 1 to rank 0|rank 1, the memory sent from): byte (40000|35904) is 0x[0-9a-f]{2}, want 0x[0-9a-f]{2} \(wrong bytes in this message: 1\)`)

// A writer keeps changing a single byte of a buffer while it is verified.
func TestOneWrongByte(t *testing.T) {
	p := staying(t, "shm", "verify", 1)
	o := spoil(t, p)
	if o.Code != int(fault.Corrupt) || !oneByte.MatchString(o.Stderr) || len(complaintsIn(o.Stderr)) != 1 {
		t.Errorf("exit code %d, want %d\n%s", o.Code, fault.Corrupt, o.Stderr)
	}
	harness.Contains(t, "stderr", o.Stderr, "on "+harness.Hostname(t)+", phase verify: ", "perigee: partial result: r.json")
}

// spoil keeps changing byte 40000 of a buffer of rank 1 until the job ends.
func spoil(t *testing.T, p *harness.Process) harness.Outcome {
	t.Helper()
	buffer := bufferOf(t, p.Rank(1))
	defer buffer.Close()
	for i := 0; ; i++ {
		select {
		case <-p.Ended():
		case <-time.After(50 * time.Microsecond):
			// What was not yet found once was there before, or filled over.
			if _, err := buffer.WriteAt([]byte{byte(i)}, 40000); err != nil {
				t.Fatal(err)
			}
			if time.Since(p.Started) < harness.Patience {
				continue
			}
		}
		break
	}
	return p.Wait()
}

// bufferOf opens one of a rank's two buffers in shared memory.
func bufferOf(t *testing.T, pid int) *os.File {
	t.Helper()
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if name, err := os.Readlink(fd); err == nil && strings.HasPrefix(name, "/memfd:perigee ") {
			f, err := os.OpenFile(fd, os.O_RDWR, 0)
			must.Do(t, err)
			return f
		}
	}
	t.Fatalf("process %d has no buffer in shared memory", pid)
	return nil
}
