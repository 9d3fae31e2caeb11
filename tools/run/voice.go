package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"perigee/internal/cli"
	"perigee/spmd"
	"perigee/spmd/boot/watch"
)

// voice reports the job's failure to the user, once.
type voice struct {
	err      io.Writer
	rank     int
	launched bool // perigee's own launcher speaks
	world    atomic.Pointer[spmd.World]
	once     sync.Once
}

// speak reports a failure where no launcher of perigee's does: rank 0 does, and
// those who had to find out without it. It comes before the world is closed: then
// the other ranks go, and launchers may end this one.
func (v *voice) speak(err error) {
	f, _ := errors.AsType[watch.Failure](err)
	if v.rank > 0 && (v.launched || !f.Alone) || v.launched && !f.Alone {
		return
	}
	if v.say(err) && v.rank > 0 && !v.launched {
		time.Sleep(passOn)
	}
}

// passOn is how long a rank that speaks instead of rank 0 stays after that. Where a task
// has died of a signal srun may drop what others write right before they end; a few milliseconds would do.
const passOn = 50 * time.Millisecond

// say reports a failure, unless this rank or another of this host has done so. It
// returns whether it did.
func (v *voice) say(err error) (spoke bool) {
	v.once.Do(func() {
		if w := v.world.Load(); w == nil || w.IsHostLeader() {
			cli.Complain(v.err, reported(err))
			spoke = true
		}
	})
	return spoke
}

// mention says what this rank waits for.
func (v *voice) mention(why string) { fmt.Fprintln(v.err, "perigee:", why) }

// outlet is a rank's standard output. Where it cannot be written to any more, the
// job is over.
type outlet struct {
	to   io.Writer
	lost func(error)
	once sync.Once
}

// width is how many characters a line has, or 0 where the outlet is no terminal.
func (o *outlet) width() int {
	f, ok := o.to.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// Write passes on data, and the news of the first that could not be written.
func (o *outlet) Write(data []byte) (int, error) {
	n, err := o.to.Write(data)
	if err != nil {
		o.once.Do(func() { o.lost(cli.LostOutput(err)) })
	}
	return n, err
}

// heedBrokenPipes makes writing to a pipe without a reader an error, like any
// other, instead of the end of this process.
func heedBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
