package launch_test

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/spmd"
)

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "heard:", err)
	return int(fault.KindOf(err))
}

// misbehave ends this process in a bad way; all but "fail" do not return.
func misbehave(deed string, w *spmd.World) error {
	switch deed {
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "exit3":
		os.Exit(3)
	case "exit0":
		os.Exit(0)
	case "panic":
		panic("so it goes")
	case "hang":
		select {}
	}
	return fault.New(fault.Corrupt, "bytes differ").WithHint("look")
}

// pass lets time pass until the job fails.
func pass(meanwhile string, w *spmd.World) error {
	switch meanwhile {
	case "barrier":
		return w.All().Barrier()
	case "gather":
		_, err := w.All().AllGather(nil)
		return err
	case "stopped":
		if w.Rank() == 1 {
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			select {} // another thread may take the signal, a little later
		}
	case "deaf":
		if w.Rank() == 1 {
			signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
			select {}
		}
	}
	<-w.Context().Done()
	if meanwhile == "storing" && w.Rank() == 0 {
		w.Store()
		time.Sleep(1500 * time.Millisecond)
		fmt.Println("stored")
	}
	return w.Err()
}
