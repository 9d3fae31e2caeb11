package kernel_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/nixl/internal/kernel"
	"perigee/nixl/nixltest"
)

// memory is outside of Go's heap, as the package demands.
func memory(t *testing.T, size int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	must.Do(t, err)
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

func forBoth(t *testing.T, f func(t *testing.T, q *kernel.Queue)) {
	for _, api := range nixltest.FileAPIs(t) {
		t.Run(api, func(t *testing.T) {
			q, err := kernel.OpenQueue(api)
			if err != nil {
				t.Fatalf("%v\n%s", err, fault.HintOf(err))
			}
			f(t, q)
			if err := q.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// finish steps until all is done, and counts the completions of each owner.
func finish(q *kernel.Queue, owners int) ([]int, error) {
	done := make([]int, owners)
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		all, err := q.Step(10*time.Millisecond, func(owner int) { done[owner]++ })
		if all || err != nil {
			return done, err
		}
	}
	return done, errors.New("it does not end")
}

// Many more requests than fit into the kernel at a time, of two owners, there and back.
func TestThereAndBack(t *testing.T) {
	forBoth(t, func(t *testing.T, q *kernel.Queue) {
		const count, size = 5*kernel.QueueDepth + 3, 1000
		file, err := os.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_RDWR|os.O_CREATE, 0o600)
		must.Do(t, err)
		defer file.Close()
		out, in := memory(t, count*size), memory(t, count*size)
		for i := range out {
			out[i] = byte(i / 7)
		}
		for _, write := range []bool{true, false} {
			requests := make([]kernel.FilePiece, count)
			for i := range requests {
				data := in[i*size:][:size]
				if write {
					data = out[i*size:][:size]
				}
				requests[i] = kernel.FilePiece{FD: int(file.Fd()), Write: write, Data: data,
					Off: int64((count - 1 - i) * size), Owner: i % 2}
			}
			must.Do(t, q.Start(requests))
			done, err := finish(q, 2)
			if err != nil || done[0] != count/2+1 || done[1] != count/2 {
				t.Fatalf("write %v: done %v of %d: %v", write, done, count, err)
			}
		}
		if string(in) != string(out) {
			t.Error("other bytes came back")
		}
	})
}

// A request that goes beyond the end of a file first falls short; its rest is asked for, and is not there.
func TestBeyondTheEnd(t *testing.T) {
	forBoth(t, func(t *testing.T, q *kernel.Queue) {
		path := filepath.Join(t.TempDir(), "f")
		must.Do(t, os.WriteFile(path, make([]byte, 100), 0o600))
		file, err := os.Open(path)
		must.Do(t, err)
		defer file.Close()
		// Several fail together.
		bad := make([]kernel.FilePiece, 20)
		for i := range bad {
			bad[i] = kernel.FilePiece{FD: int(file.Fd()), Data: memory(t, 101), Owner: 3}
		}
		for range 2 { // a queue is good for more after a failure
			must.Do(t, q.Start(bad))
			_, err = finish(q, 4)
			e, ok := errors.AsType[*kernel.RequestError](err)
			if !ok || e.Owner != 3 || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %v, want %v of owner 3", err, io.ErrUnexpectedEOF)
			}
			if before := time.Now(); !q.Cancel() || time.Since(before) > 5*time.Minute {
				t.Error("requests are left, or were waited for that had ended")
			}
		}
		err = q.Start([]kernel.FilePiece{{FD: -1, Data: memory(t, 1)}})
		if err == nil {
			_, err = finish(q, 1)
		}
		if !errors.Is(err, unix.EBADF) || !q.Cancel() {
			t.Errorf("a closed file: got %v, want %v", err, unix.EBADF)
		}
		if err := q.Start([]kernel.FilePiece{{FD: int(file.Fd()), Data: memory(t, 100)}}); err != nil {
			t.Error(err)
		}
		if _, err := finish(q, 1); err != nil {
			t.Errorf("after a failure: %v", err)
		}
	})
}
