package wire

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A link notices within seven seconds that the other host is gone or cut off. While it is idle the kernels probe each
// other (keep-alive). While bytes are not acknowledged the kernel sends them again, or asks for room, and sends no
// keep-alive: after TCP_USER_TIMEOUT it would give up, but it would as well if the other host answers and only the rank
// there is stopped. So on links this package asks the kernel itself whether anything was answered.

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 4}

const (
	userTimeout = 6 * time.Second // of connections that are no links
	answerCheck = time.Second
	answerLimit = 5 * time.Second // noticed one or two checks later
	// repeatPause is the longest pause between two repeats of what is not acknowledged, the least that Linux can be
	// told. Without it the pauses double: the repeat after 3 s is the last before 6.2 s, when a link counts as cut off,
	// though the network may be back since long before.
	repeatPause = time.Second
)

// limitSilence bounds how long a connection waits for acknowledgements.
func limitSilence(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		// Linux before 6.15 does not know it.
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS, int(repeatPause.Milliseconds()))
		setUserTimeout(fd, userTimeout)
	})
}

// setUserTimeout bounds the time that sent bytes may stay unacknowledged, or that the peer
// may have no room for them. 0 means the kernel's default: about a quarter of an hour for
// the first, no bound for the second.
func setUserTimeout(fd uintptr, limit time.Duration) error {
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
}

// SetUserTimeout ends a connection when the other host does not acknowledge bytes within
// limit. A process that is slow or stopped does not count as long as its kernel has room
// for more bytes.
func SetUserTimeout(conn net.Conn, limit time.Duration) {
	if c := tcp(conn); c != nil {
		if raw, err := c.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { setUserTimeout(fd, limit) })
		}
	}
}

// watchAnswers ends links whose other host answers no more.
func (t *TCP) watchAnswers() {
	tick := time.NewTicker(answerCheck)
	defer tick.Stop()
	for {
		select {
		case <-t.life.Done():
			return
		case now := <-tick.C:
			t.mu.Lock()
			links := slices.Collect(maps.Keys(t.links))
			t.mu.Unlock()
			for _, l := range links {
				l.checkAnswers(now, answerLimit)
			}
		}
	}
}

// checkAnswers ends the link if the kernel has repeated itself for longer than limit without an answer.
func (l *link) checkAnswers(now time.Time, limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	info, err := unix.GetsockoptTCPInfo(l.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return
	}
	repeating := info.Unacked > 0 && info.Retransmits > 0 || info.Probes > 0
	silence := time.Duration(info.Last_ack_recv) * time.Millisecond
	if !repeating || !l.repeating.IsZero() && silence < now.Sub(l.repeating) {
		l.repeating = time.Time{} // or it has got an answer since
	}
	if !repeating {
		return
	}
	if l.repeating.IsZero() {
		l.repeating = now
	}
	if now.Sub(l.repeating) >= limit {
		l.end(fmt.Errorf("no answer for %v: %w", silence.Round(time.Second), unix.ETIMEDOUT))
	}
}

// flushWait bounds the wait for the last acknowledgements.
const flushWait = 500 * time.Millisecond

// flush waits until the other hosts have what was sent. The kernel would forget it where bytes have come that were
// not read, since it then resets the connection instead of closing it.
func flush(links []*link) {
	until := time.Now().Add(flushWait)
	for _, l := range links {
		for !l.flushed() && time.Now().Before(until) {
			time.Sleep(time.Millisecond)
		}
	}
}

func (l *link) flushed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return true
	}
	waiting, err := unix.IoctlGetInt(l.fd, unix.SIOCOUTQ)
	return err != nil || waiting == 0
}
