package run

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that is about to exit keeps its exit code when it is told to end, and can still be ended. Signals that follow
// the first at once are no second one.
func TestSignalsAtTheEnd(t *testing.T) {
	const variable = "PERIGEE_TEST_SIGNALS"
	if task := os.Getenv(variable); task != "" {
		runtime.LockOSThread()
		interrupt := func() { unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTERM) } // has come when it returns
		ctx, again, stop := UntilSignal(t.Context())
		go func() {
			<-again
			os.Exit(3)
		}()
		if task != "after" && task != "until it ends" {
			interrupt()
			<-ctx.Done()
		}
		switch task {
		case "at once again":
			interrupt()
			time.Sleep(oneWord / 2)
		case "later again":
			time.Sleep(oneWord)
			interrupt()
			select {}
		}
		stop()
		stop()
		interrupt()
		for task == "until it ends" {
			time.Sleep(time.Millisecond)
			interrupt()
		}
		os.Exit(7)
	}
	for task, want := range map[string]string{
		"after": "exit status 7", "during and after": "exit status 7", "until it ends": "signal: terminated",
		"at once again": "exit status 7", "later again": "exit status 3",
	} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestSignalsAtTheEnd$")
		cmd.Env = append(os.Environ(), variable+"="+task)
		if out, err := cmd.CombinedOutput(); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s\n%s", task, err, want, out)
		}
	}
}
