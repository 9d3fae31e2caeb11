package run

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/spmd"
	"perigee/spmd/boot/watch"
)

// reporter prints the job's failure for the user, once.
type reporter struct {
	err      io.Writer
	rank     int
	launched bool // by perigee's own launcher, which reports failures itself
	world    atomic.Pointer[spmd.World]
	once     sync.Once
}

// report prints a failure where no launcher of perigee's does: at rank 0, and at ranks that detected it without
// rank 0. The caller closes the world afterwards, not before: then the other ranks end, and launchers may kill this
// one.
func (r *reporter) report(err error) {
	f, _ := errors.AsType[watch.Failure](err)
	if r.rank > 0 && (r.launched || !f.Alone) || r.launched && !f.Alone {
		return
	}
	if r.print(err) && r.rank > 0 && !r.launched {
		time.Sleep(passOn)
	}
}

// passOn is how long a rank that reports instead of rank 0 stays after that. Where a task
// has died of a signal srun may drop what others write right before they end; a few milliseconds would do.
const passOn = 50 * time.Millisecond

// print prints a failure, unless this rank or another of this host has done so, and returns whether it did.
func (r *reporter) print(err error) (printed bool) {
	r.once.Do(func() {
		if w := r.world.Load(); w == nil || w.IsHostLeader() {
			cli.PrintError(r.err, faultOf(err))
			printed = true
		}
	})
	return printed
}

// note prints what this rank waits for, which others may have had a say in.
func (r *reporter) note(why string) { fmt.Fprintln(r.err, "perigee:", plaintext.Escape(why)) }

// output is a rank's standard output. Where it cannot be written to any more, the
// job is over.
type output struct {
	to   io.Writer
	lost func(error)
	once sync.Once
}

// Width is that of the output.
func (o *output) Width() int { return plaintext.Width(o.to) }

// Write passes on data, and calls lost with the first error.
func (o *output) Write(data []byte) (int, error) {
	n, err := o.to.Write(data)
	if err != nil {
		o.once.Do(func() { o.lost(cli.LostOutput(err)) })
	}
	return n, err
}
