package kernel

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// QueueDepth is how many requests a queue keeps in the kernel at most.
const QueueDepth = 256

// FilePiece is one piece of a file and the memory that it is read to or written from. The memory
// must not be Go's: the kernel uses it while the program runs on.
type FilePiece struct {
	FD    int
	Write bool
	Data  []byte
	Off   int64
	Owner int // for the caller: whose request it is
}

// completion holds the kernel's answer to a request: bytes, or an error number below 0.
type completion struct {
	number uint64
	result int64
}

// fileAPI is one of the interfaces of the kernel for files: aio (aio.go) or uring (uring.go).
type fileAPI interface {
	// put prepares a request. There is room for QueueDepth of them.
	put(number uint64, r FilePiece)
	// flush hands prepared requests to the kernel, as many as it takes.
	flush() error
	// reap fetches what has ended. If there is nothing it waits, for at most wait.
	reap(out []completion, wait time.Duration) (int, error)
	// drop forgets prepared requests that the kernel has not taken, and counts them.
	drop() int
	close() error
}

// Queue carries out lists of requests, one list at a time.
type Queue struct {
	api      fileAPI
	requests []FilePiece
	next     int // the first that was not handed over
	inside   int // in the kernel
	moved    map[uint64]int
	ended    [QueueDepth]completion
}

// OpenQueue makes a queue of an interface, nixl.AIO or nixl.URING. Another word is an error of the kind Usage, and an
// interface that this machine lacks one of the kind Resource whose hint names the other.
func OpenQueue(api string) (*Queue, error) {
	var k fileAPI
	var err error
	switch api {
	case nixl.AIO:
		k, err = openAIO()
	case nixl.URING:
		k, err = openURing()
	default:
		return nil, fault.New(fault.Usage, "unknown interface for files %q: want %s or %s", api, nixl.AIO, nixl.URING)
	}
	if err != nil {
		return nil, unavailable(api, err)
	}
	return &Queue{api: k, moved: map[uint64]int{}}, nil
}

// unavailable words why the kernel refuses an interface.
func unavailable(api string, err error) error {
	name, other := "Linux AIO", nixl.URING
	if api == nixl.URING {
		name, other = "io_uring", nixl.AIO
	}
	e := fault.New(fault.Resource, "this machine has no %s for files: %w", name, err)
	switch {
	case api == nixl.URING && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)):
		return e.WithHint("containers and sysctl kernel.io_uring_disabled can forbid it; use %s instead", other)
	case api == nixl.AIO && errors.Is(err, unix.EAGAIN):
		return e.WithHint("sysctl fs.aio-max-nr limits it; use %s instead", other)
	}
	return e.WithHint("use %s instead", other)
}

// CheckFiles reports whether the kernel lets this process use an interface. The error is that of OpenQueue.
func CheckFiles(api string) error {
	q, err := OpenQueue(api)
	if err != nil {
		return err
	}
	return q.Close()
}

// Start begins a list of requests, which stays the caller's and must not change until Step has
// said that all are done.
func (q *Queue) Start(requests []FilePiece) error {
	q.requests, q.next = requests, 0
	clear(q.moved)
	return q.fill()
}

// fill hands over as many requests as there is room for.
func (q *Queue) fill() error {
	if q.next == len(q.requests) || q.inside == QueueDepth {
		return nil
	}
	for q.next < len(q.requests) && q.inside < QueueDepth {
		q.api.put(uint64(q.next), q.requests[q.next])
		q.next++
		q.inside++
	}
	return q.api.flush()
}

// A RequestError is the failure of one request.
type RequestError struct {
	Owner int
	Err   error
}

func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap returns the kernel's error.
func (e *RequestError) Unwrap() error { return e.Err }

// Step waits for requests to end, for at most wait, hands over further ones and calls done for the
// owner of each that has moved all its bytes. It reports whether all are done.
func (q *Queue) Step(wait time.Duration, done func(owner int)) (bool, error) {
	if q.inside == 0 {
		return q.next == len(q.requests), nil
	}
	n, err := q.reap(wait)
	if err != nil {
		return false, fmt.Errorf("waiting for files: %w", err)
	}
	q.inside -= n
	again := false
	for _, c := range q.ended[:n] {
		whole, err := q.took(c)
		if err != nil {
			return false, err
		}
		if whole {
			done(q.requests[c.number].Owner)
		} else {
			again = true
		}
	}
	if again {
		if err := q.api.flush(); err != nil {
			return false, err
		}
	}
	if err := q.fill(); err != nil {
		return false, err
	}
	return q.inside == 0 && q.next == len(q.requests), nil
}

// A wait in the kernel costs a few microseconds more than the request itself: the time to
// wake up, and to get back what Go has taken from a thread that seemed to sleep. Where only
// a few requests are under way nothing else hides that.
const (
	few     = 4
	lookFor = 100 * time.Microsecond
)

// reap waits for something to end, at first without sleeping.
func (q *Queue) reap(wait time.Duration) (int, error) {
	if q.inside <= few && wait > 0 {
		for start := time.Now(); time.Since(start) < min(lookFor, wait); {
			if n, err := q.api.reap(q.ended[:], 0); n > 0 || err != nil {
				return n, err
			}
			unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
	return q.api.reap(q.ended[:], wait)
}

// took notes what a request has moved, and puts the rest of one that fell short.
func (q *Queue) took(c completion) (whole bool, err error) {
	r := q.requests[c.number]
	switch {
	case c.result == -int64(unix.EAGAIN) || c.result == -int64(unix.EINTR):
		c.result = 0
	case c.result < 0:
		return false, &RequestError{r.Owner, unix.Errno(-c.result)}
	case c.result == 0 && !r.Write:
		return false, &RequestError{r.Owner, io.ErrUnexpectedEOF}
	case c.result == 0:
		return false, &RequestError{r.Owner, io.ErrShortWrite}
	}
	moved := q.moved[c.number] + int(c.result)
	if moved == len(r.Data) {
		return true, nil
	}
	q.moved[c.number] = moved
	r.Data, r.Off = r.Data[moved:], r.Off+int64(moved)
	q.api.put(c.number, r)
	q.inside++
	return false, nil
}

// cancelTimeout is how long Cancel waits for the kernel.
const cancelTimeout = 5 * time.Second

// Cancel gives up the list. It waits until the kernel does not use the memory any more, and reports
// whether that came true.
func (q *Queue) Cancel() bool {
	q.inside -= q.api.drop()
	for deadline := time.Now().Add(cancelTimeout); q.inside > 0 && time.Now().Before(deadline); {
		n, err := q.api.reap(q.ended[:], 10*time.Millisecond)
		if err != nil {
			break
		}
		q.inside -= n
	}
	q.requests, q.next = nil, 0
	return q.inside == 0
}

// Close gives the queue back to the kernel.
func (q *Queue) Close() error { return q.api.close() }
