package wire

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Keep-alive finds a host that is gone or cut off while a link is idle. While bytes are not acknowledged the kernel
// sends them again, or asks for room, and sends no keep-alive: after TCP_USER_TIMEOUT it would give up, but it
// would as well if the other host answers and only the rank there is stopped. So this package asks the kernel
// itself whether anything was answered.

const (
	answerCheck = time.Second
	answerLimit = 5 * time.Second // noticed one or two checks later: within the seven seconds of keep-alive
)

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
