package disagg

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/regular"
	"perigee/tools/disagg/batch"
	"perigee/tools/disagg/verdict"
)

// A defect ends the command with an error that names the place.
func TestDefect(t *testing.T) {
	err := reading(cli.Streams{Out: io.Discard, Err: io.Discard}, func(cli.Streams) error {
		var none []int
		return fmt.Errorf("%d", none[0])
	})
	if fault.KindOf(err) != fault.Internal || fault.HintOf(err) == "" || !regexp.MustCompile(`^panic: .*index out of range .*, at reading_test.go:\d+$`).MatchString(err.Error()) {
		t.Error(err)
	}
}

// In a run it fails its own case.
func TestDefectInARun(t *testing.T) {
	log, err := openRunLog(t.TempDir(), time.Now(), io.Discard)
	must(t, err)
	defer log.Close()
	r, d := &session{RunCmd: &RunCmd{}, log: log}, &done{}
	task := &batch.Task{Name: "a"} // without a configuration
	r.alone(task, d, func() { r.judge(task, d) })
	if d.Verdict == nil || d.State != verdict.Failed || !strings.HasPrefix(d.Reasons[0], "panic: ") {
		t.Errorf("%+v", d.Verdict)
	}
}

var readingTests atomic.Int64

// A command that only reads ends where it takes too much, whatever it is busy with; what is read and written allows more.
func TestReadingIsBounded(t *testing.T) {
	before := allowed
	defer func() { allowed = before }()
	allowed = allowance{0, 1000 * time.Hour, time.Hour, 32 << 20, 48 << 20}
	const little = 200 * time.Millisecond
	var current atomic.Int32 // one that is left to itself ends with its case
	busy := func(took time.Duration) {
		of := current.Load()
		for began := processorTime(); processorTime()-began < took && current.Load() == of; {
		}
	}
	fill := func(mib int, took time.Duration) {
		of, began := current.Load(), time.Now()
		var kept [][]byte
		for i := 0; i < mib && current.Load() == of; i++ {
			kept = append(kept, make([]byte, 1<<20))
		}
		for time.Since(began) < took && current.Load() == of {
			time.Sleep(time.Millisecond)
		}
		runtime.KeepAlive(kept)
	}
	large := filepath.Join(t.TempDir(), "large")
	must(t, os.WriteFile(large, make([]byte, readingTests.Add(4<<20)), 0o600)) // larger than another of its number was
	open := func() error {
		f, err := regular.Open(large)
		return errors.Join(err, f.Close())
	}
	own := errors.New("its own")
	for _, c := range []struct {
		what    string
		command func(cli.Streams) error
		says    string // of the error; "" for its own
		time    time.Duration
	}{
		{"little", func(cli.Streams) error { return own }, "", little},
		{"time", func(cli.Streams) error { busy(time.Minute); return own }, "more than 0s of the processors' time", little},
		{"memory", func(cli.Streams) error { fill(256, time.Minute); return own }, "more than 32 MiB of memory", time.Minute},
		{"time, and much written", func(s cli.Streams) error {
			_, err := s.Out.Write(make([]byte, 4<<20))
			busy(500 * time.Millisecond)
			return errors.Join(own, err)
		}, "", little},
		{"time, and much read", func(cli.Streams) error { err := open(); busy(500 * time.Millisecond); return errors.Join(own, err) }, "", little},
		{"time, and the same read again", func(cli.Streams) error { err := open(); busy(time.Minute); return errors.Join(own, err) }, "time", little},
		{"garbage", func(cli.Streams) error {
			for range 64 {
				fill(1, 10*time.Millisecond)
			}
			return own
		}, "", time.Minute},
	} {
		runtime.GC()
		allowed.time = c.time
		err := reading(cli.Streams{Out: io.Discard, Err: io.Discard}, c.command)
		current.Add(1)
		if (c.says == "") != errors.Is(err, own) || c.says != "" && (fault.KindOf(err) != fault.Input || fault.HintOf(err) == "" || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, wanted %q", c.what, err, c.says)
		}
	}
}
