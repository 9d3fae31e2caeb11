package watch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// maxLine bounds a line, cards included.
const maxLine = 64 << 10

// maxText bounds the names and causes that a rank may report, so that a message
// always fits a line.
const maxText = 4 << 10

// message is a line between a rank and the coordinator.
type message struct {
	Is      string   `json:"is"`
	Rank    int      `json:"rank,omitempty"`
	Size    int      `json:"size,omitempty"`
	Host    string   `json:"host,omitempty"`
	Card    []byte   `json:"card,omitempty"`
	Again   bool     `json:"again,omitempty"` // of a hello: the one before it may have arrived
	Phase   string   `json:"phase,omitempty"`
	Answer  bool     `json:"answer,omitempty"` // of a phase: it wants an answer
	Secret  []byte   `json:"secret,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
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

// messageWriter queues messages so that a slow reader never blocks the coordinator.
type messageWriter struct {
	mu     sync.Mutex
	queue  []message
	err    error // why nothing can be written any more
	wake   chan struct{}
	once   sync.Once
	closed chan struct{}
	idle   chan struct{} // closed when the writing goroutine has ended
}

func newMessageWriter(conn net.Conn) *messageWriter {
	w := &messageWriter{wake: make(chan struct{}, 1), closed: make(chan struct{}), idle: make(chan struct{})}
	go w.run(conn)
	return w
}

func (w *messageWriter) send(m message) {
	select {
	case <-w.closed:
		return
	default:
	}
	w.mu.Lock()
	w.queue = append(w.queue, m)
	w.mu.Unlock()
	signal(w.wake)
}

// signal leaves a token in a channel of capacity 1, if there is none.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (w *messageWriter) run(conn net.Conn) {
	defer close(w.idle)
	defer w.once.Do(func() { close(w.closed) }) // no reader is left: queue no more
	enc := json.NewEncoder(conn)
	for closing := false; ; {
		w.mu.Lock()
		batch := w.queue
		w.queue = nil
		w.mu.Unlock()
		for _, m := range batch {
			if err := enc.Encode(m); err != nil {
				w.mu.Lock()
				w.err = err
				w.mu.Unlock()
				return
			}
		}
		if closing {
			return
		}
		select {
		case <-w.wake:
		case <-w.closed:
			closing = true
		}
	}
}

// failureWait is enough for a writer to note the error of a write that has returned.
const failureWait = 20 * time.Millisecond

// failure returns the error with which writing has ended, if it has. The kernel reports
// an error once: to the writer, after which the reader only sees the end.
func (w *messageWriter) failure() error {
	select {
	case <-w.closed:
	case <-time.After(failureWait):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// close writes what is queued and ends the writer.
func (w *messageWriter) close() {
	w.once.Do(func() { close(w.closed) })
	<-w.idle
}

type messageReader struct{ scanner *bufio.Scanner }

func newMessageReader(r io.Reader) *messageReader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4<<10), maxLine)
	return &messageReader{s}
}

func (r *messageReader) next() (message, error) {
	if !r.scanner.Scan() {
		if err := r.scanner.Err(); err != nil {
			return message{}, err
		}
		return message{}, io.EOF
	}
	var m message
	if err := json.Unmarshal(r.scanner.Bytes(), &m); err != nil {
		return message{}, fmt.Errorf("not a line of the protocol: %w", err)
	}
	return m, nil
}
