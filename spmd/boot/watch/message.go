package watch

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"perigee/internal/kit/version"
	"perigee/spmd/wire"
)

// maxText bounds the names and causes that a rank may report.
const maxText = 4 << 10

// message is a line between a rank and the coordinator.
type message struct {
	Is      string   `json:"is"`
	Rank    int      `json:"rank,omitempty"`
	Size    int      `json:"size,omitempty"`
	Host    string   `json:"host,omitempty"`
	Card    []byte   `json:"card,omitempty"`
	Phase   string   `json:"phase,omitempty"`
	Answer  bool     `json:"answer,omitempty"` // of a phase: it wants an answer
	Secret  []byte   `json:"secret,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
	// Build is that of the sender of secret and of hello; nil: it is of before there was this.
	Build *version.Build `json:"build,omitempty"`
}

// Storing is the phase of a rank 0 that writes the result of a failed job, for which it needs more than its grace.
const Storing = "writing the result of the failed job"

// The kinds of messages. A rank sends hello, get, phase, abort, cause, alive and leave;
// the coordinator sends secret, ready, card, noted, probe and abort. The package comment says
// when.
const (
	isSecret = "secret"
	isHello  = "hello"
	isReady  = "ready"
	isGet    = "get"
	isCard   = "card"
	isPhase  = "phase"
	isNoted  = "noted"
	isAbort  = "abort"
	isCause  = "cause"
	isLeave  = "leave"
	isProbe  = "probe"
	isAlive  = "alive"
)

// flushTimeout bounds the last writes to an end that no longer reads.
const flushTimeout = time.Second

// writer writes messages to a connection.
type writer struct {
	net.Conn
	mu     sync.Mutex // held while one is written
	failed atomic.Pointer[error]
}

// write returns when the message is in the hands of the kernel. After an error it writes nothing: that might continue a
// line that was begun.
func (w *writer) write(m message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed.Load() != nil {
		return
	}
	if err := json.NewEncoder(w.Conn).Encode(m); err != nil {
		w.failed.Store(&err)
	}
}

// reason is why reading from the connection has failed with err. The kernel reports an error once: where a write gets
// it, reading only sees the end.
func (w *writer) reason(err error) error {
	if failed := w.failed.Load(); failed != nil && isEnd(err) && wire.IsSilence(*failed) {
		return *failed
	}
	return err
}

// limit bounds the time for all further messages.
func (w *writer) limit() { w.SetWriteDeadline(time.Now().Add(flushTimeout)) }

// isEnd reports whether a connection was ended at its other end.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// outbox writes messages in the background: a rank that does not read does not hold up the coordinator.
type outbox struct {
	writer
	queue chan *message
	ended chan struct{}
	end   func() // lets run write what is queued, and return
}

// maxQueue is more than what a rank is sent that does not read: it has to read an answer before it asks again.
const maxQueue = 64

func newOutbox(conn net.Conn) *outbox {
	o := &outbox{writer: writer{Conn: conn}, queue: make(chan *message, maxQueue), ended: make(chan struct{})}
	o.end = sync.OnceFunc(func() {
		o.limit()
		close(o.ended)
	})
	return o
}

func (o *outbox) send(m message) {
	select {
	case o.queue <- &m:
	default:
	}
}

// run writes until end is called. Then it closes the connection.
func (o *outbox) run() {
	defer o.Close()
	for {
		select {
		case m := <-o.queue:
			o.write(*m)
		case <-o.ended:
			for range len(o.queue) {
				o.write(*<-o.queue)
			}
			return
		}
	}
}

// signal leaves a token in a channel of capacity 1, if there is none.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
