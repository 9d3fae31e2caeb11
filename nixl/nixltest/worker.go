package nixltest

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"perigee/nixl"
)

// childEnv is set in the process of a remote worker.
const childEnv = "PERIGEE_CONFORMANCE_CHILD"

// Main is the TestMain of a package that calls Run: it turns the process into a
// worker if Run has started it as one.
func Main(m *testing.M, open func() (nixl.Engine, error)) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := serve(open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve answers requests that come over file 3 on file 4, until file 3 ends. The
// standard streams stay out of it: what a library prints there is a finding.
func serve(open func() (nixl.Engine, error)) error {
	in, out := gob.NewDecoder(os.NewFile(3, "requests")), gob.NewEncoder(os.NewFile(4, "responses"))
	s := &server{open: open}
	for {
		var q request
		if err := in.Decode(&q); err != nil {
			return nil
		}
		if err := out.Encode(s.do(q)); err != nil {
			return err
		}
	}
}

// worker drives an agent in this process or in another one. A worker in another process
// sleeps while it is not called, as a target does.
type worker interface {
	do(request) response
	close(t *testing.T)
}

// local is a worker in this process.
type local struct{ *server }

func (w local) close(t *testing.T) {
	t.Helper()
	if w.agent == nil {
		return
	}
	if err := w.agent.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// remote is a worker in its own process.
type remote struct {
	cmd     *exec.Cmd
	printed bytes.Buffer
	in      *os.File // where requests go
	out     *os.File // where responses come from
	encoder *gob.Encoder
	decoder *gob.Decoder
	killed  bool
}

// startRemote starts the test's own binary as a worker, with a pipe for orders and one for answers.
func startRemote(t *testing.T) *remote {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := &remote{cmd: exec.Command(os.Args[0]), in: in, out: out, encoder: gob.NewEncoder(in),
		decoder: gob.NewDecoder(out)}
	// The race detector would otherwise sleep for a second in every exit.
	w.cmd.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
	w.cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	w.cmd.Stdout, w.cmd.Stderr = &w.printed, &w.printed
	err = w.cmd.Start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *remote) do(q request) response {
	var r response
	if err := w.encoder.Encode(q); err != nil {
		return response{Error: fmt.Sprintf("worker %d: %s: %v", w.cmd.Process.Pid, q.Call, err)}
	}
	if err := w.decoder.Decode(&r); err != nil {
		return response{Error: fmt.Sprintf("worker %d: %s: %v", w.cmd.Process.Pid, q.Call, err)}
	}
	return r
}

// close ends the process and reports everything it printed as an error.
func (w *remote) close(t *testing.T) {
	t.Helper()
	if !w.killed {
		if err := w.do(request{Call: callClose}).err(); err != nil {
			t.Errorf("Close in another process: %v", err)
		}
	}
	w.in.Close()
	err := w.cmd.Wait()
	w.out.Close()
	if err != nil && !w.killed {
		t.Errorf("worker process: %v", err)
	}
	if w.printed.Len() > 0 {
		t.Errorf("a worker process printed:\n%s", w.printed.String())
	}
}

// kill ends the process at once.
func (w *remote) kill(t *testing.T) {
	t.Helper()
	w.killed = true
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}
