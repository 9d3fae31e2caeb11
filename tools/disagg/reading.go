package disagg

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/cli"
	"perigee/internal/conf"
	"perigee/internal/fault"
	"perigee/internal/heap"
	"perigee/internal/regular"
	"perigee/internal/size"
)

// allowance is what a command that only reads may take. Each input has bounds, but what they allow multiplies, as with
// patterns that are searched in logs: so the whole has a bound, too.
type allowance struct {
	time    time.Duration // of all processors
	read    time.Duration // more for each GiB that is read: logs are long. Links may lead to long files, too
	written time.Duration // more for each MiB that is written
	live    int64         // bytes in use
	heap    int64         // bytes in use, and garbage
}

// allowed is more than the largest inputs take that are no attack: 3 s, 2 s for each GiB of a log, 0.2 s for each MiB
// of job scripts, and 250 MiB. It is a variable for tests.
var allowed = allowance{45 * time.Second, 10 * time.Second, time.Second, 310 << 20, 400 << 20}

// reading runs a command that reads files which may have come from a stranger, and leaves it to itself where it takes
// too much: then this process has to end.
func reading(s cli.Streams, command func(cli.Streams) error) error {
	defer heap.Limit(conf.MaxMemory)() // so that garbage does not come on top
	most, out := allowed, &counted{w: s.Out}
	s.Out = out
	first, live, began := regular.Opened(), heap.Live(), processorTime()
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				ended <- defect(p)
			}
		}()
		ended <- command(s)
	}()
	tooMuch := heap.Watch(done, func(_ time.Duration, grown func() int64) error {
		read := regular.Opened() - first
		refuse := func(what string) error {
			return fault.New(fault.Input, "gave up: to read %s has taken more than %s", size.BinaryRounded(read), what).
				WithHint("files of strangers may be made for that; others take less in parts")
		}
		limit := most.time + time.Duration(float64(most.read)*float64(read)/(1<<30)+
			float64(most.written)*float64(out.n.Load())/(1<<20))
		if processorTime()-began > limit {
			return refuse(limit.Round(time.Second).String() + " of the processors' time")
		}
		if heap.Live()-live > most.live || grown() > most.heap {
			return refuse(size.Binary(most.live) + " of memory")
		}
		return nil
	})
	if tooMuch != nil {
		return tooMuch
	}
	return <-ended
}

// defect is the error of a panic, which the deferred function that calls it has recovered from.
func defect(p any) *fault.Error {
	at := "somewhere"
	callers := make([]uintptr, 100)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for panicked, more := false, true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if own := strings.HasPrefix(f.Function, "perigee/"); own && panicked {
			at = fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
			break
		}
		panicked = panicked || f.Function == "runtime.gopanic"
	}
	return fault.New(fault.Internal, "panic: %v, at %s", p, at).
		WithHint("this is a defect of perigee; please report it with what it read")
}

// processorTime is what this process has taken of all processors.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0 // it does not fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n atomic.Int64
}

func (c *counted) Write(data []byte) (int, error) {
	n, err := c.w.Write(data)
	c.n.Add(int64(n))
	return n, err
}
