package disagg

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/regular"
)

// A command that only reads ends where it takes too much, whatever it is busy with; what is read and written allows more.
func TestReadingIsBounded(t *testing.T) {
	before := allowed
	defer func() { allowed = before }()
	allowed = allowance{200 * time.Millisecond, time.Hour, 32 << 20, 64}
	var current atomic.Int32 // one that is left to itself ends with its case
	busy := func(took time.Duration) {
		of := current.Load()
		for began := processorTime(); processorTime()-began < took && current.Load() == of; {
		}
	}
	fill := func(mib int) {
		var kept [][]byte
		for range mib {
			kept = append(kept, make([]byte, 1<<20))
		}
		time.Sleep(20 * time.Millisecond) // it is looked at every 5 ms
		runtime.KeepAlive(kept)
	}
	large := filepath.Join(t.TempDir(), "large")
	must(t, os.WriteFile(large, make([]byte, 4<<20), 0o600))
	open := func() error {
		f, err := regular.Open(large)
		return errors.Join(err, f.Close())
	}
	own := errors.New("its own")
	for _, c := range []struct {
		what    string
		command func(cli.Streams) error
		says    string // of the error; "" for its own
	}{
		{"little", func(cli.Streams) error { return own }, ""},
		{"time", func(cli.Streams) error { busy(time.Minute); return own }, "more than 0s of the processors' time"},
		{"memory", func(cli.Streams) error { fill(64); return own }, "more than 32.0 MiB of memory"},
		{"time, and much written", func(s cli.Streams) error {
			_, err := s.Out.Write(make([]byte, 4<<20))
			busy(time.Second)
			return errors.Join(own, err)
		}, ""},
		{"memory, and much read", func(cli.Streams) error { err := open(); fill(64); return errors.Join(own, err) }, ""},
		{"time, and the same read again", func(cli.Streams) error { err := open(); busy(time.Minute); return errors.Join(own, err) }, "time"},
		{"garbage", func(cli.Streams) error {
			for range 64 {
				fill(1)
			}
			return own
		}, ""},
	} {
		err := reading(cli.Streams{Out: io.Discard, Err: io.Discard}, c.command)
		current.Add(1)
		if (c.says == "") != errors.Is(err, own) || c.says != "" && (fault.KindOf(err) != fault.Input || fault.HintOf(err) == "" || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, wanted %q", c.what, err, c.says)
		}
	}
}
