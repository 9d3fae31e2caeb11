package disagg

import (
	"io"
	"runtime"
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
// patterns that are searched in logs: so the whole has a bound, too, which grows with what is read and written.
type allowance struct {
	time    time.Duration // of all processors
	perMiB  time.Duration // and so much more for each MiB
	heap    int64         // bytes
	perByte int64         // and so many more for each byte
}

// allowed are some ten times what honest inputs take. It is a variable for tests.
var allowed = allowance{45 * time.Second, 15 * time.Second, 440 << 20, 64}

// reading runs a command that reads files which may have come from a stranger, and leaves it to itself where it takes
// too much: then this process has to end.
func reading(s cli.Streams, command func(cli.Streams) error) error {
	defer heap.Limit(conf.MaxMemory)() // so that garbage does not come on top
	most, out := allowed, &counted{w: s.Out}
	s.Out = out
	first, began := regular.Opened(), processorTime()
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		ended <- command(s)
	}()
	tooMuch := heap.Watch(done, func(_ time.Duration, grown func() int64) error {
		n := regular.Opened() - first + out.n.Load()
		refuse := func(what string) error {
			return fault.New(fault.Input, "gave up: to read and write %s has taken more than %s", size.BinaryRounded(n), what).
				WithHint("files of strangers may be made for that; others take less in parts")
		}
		if limit := most.time + time.Duration(float64(most.perMiB)*float64(n)/(1<<20)); processorTime()-began > limit {
			return refuse(limit.Round(time.Second).String() + " of the processors' time")
		}
		limit := most.heap + most.perByte*n
		if grown() > limit {
			runtime.GC() // what is no longer used does not count
		}
		if grown() > limit {
			return refuse(size.BinaryRounded(limit) + " of memory")
		}
		return nil
	})
	if tooMuch != nil {
		return tooMuch
	}
	return <-ended
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
