package wire

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"
)

// redialPause is how long a rank waits after a handshake that came to no answer, at first and at most.
const (
	firstRedialPause = 10 * time.Millisecond
	redialPause      = 200 * time.Millisecond
)

// redialWarning is how long handshakes come to no answer before the log has a warning.
const redialWarning = 5 * time.Second

// maxRebuffs is how often in a row a rank is rebuffed before it gives up, which takes two minutes. They are counted: a
// rank that was itself stopped must not hold that time against the other.
const maxRebuffs = int(2 * time.Minute / redialPause)

// redials are the attempts of a search for a rank that came to no answer.
type redials struct {
	rank  int
	limit int // maxRebuffs
	log   *slog.Logger

	pause   time.Duration
	began   time.Time
	last    error
	rebuffs int // in a row
	warned  bool
}

// next takes the error of an attempt, and returns how long to wait before the next one, or why there is none.
func (r *redials) next(err error, now time.Time) (wait time.Duration, over error) {
	if r.last == nil {
		r.began = now
	}
	r.last = err
	if r.rebuffs++; !rebuffed(err) {
		r.rebuffs = 0
	}
	if r.rebuffs >= r.limit {
		return 0, fmt.Errorf("each of %d connections was closed before it was greeted, as by another program: %w", r.rebuffs, err)
	}
	if elapsed := now.Sub(r.began); elapsed >= redialWarning && !r.warned {
		r.warned = true
		r.log.Warn("no answer yet", "peer", r.rank, "reason", err, "elapsed", elapsed)
	}
	wait = r.pause
	r.pause = min(2*r.pause, redialPause)
	return wait, nil
}

// rebuffed reports whether an attempt has met the rank at none of its addresses. A rank that is slow or stopped, whose
// handshake outlasts the dialer's limit, has not rebuffed it. Nor has one among many strangers, which greets before it
// may have to close the connection.
func rebuffed(err error) bool {
	all, ok := errors.AsType[attempts](err)
	if !ok {
		all = attempts{err}
	}
	for _, e := range all {
		if u, ok := errors.AsType[unanswered](e); ok {
			if !hungUpUngreeted(u.error) {
				return false
			}
		} else if late, ok := errors.AsType[net.Error](e); ok && late.Timeout() {
			return false
		}
	}
	return true
}

func hungUpUngreeted(err error) bool {
	return errors.Is(err, errNoGreeting) && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET))
}
