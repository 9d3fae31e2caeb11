package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var rank3 = logWriter{Rank: 3, Host: "node1", Launcher: "slurm"}

// all writes a line at each level.
func all(l *jobLog) {
	l.Debug("d")
	l.Info("i")
	l.Warn("w")
	l.Error("e", "key", "two words")
}

func TestLevels(t *testing.T) {
	for level, want := range map[string]string{"debug": "diwe", "info": "iwe", "warn": "we", "error": "e", "off": "", "": ""} {
		var out bytes.Buffer
		l, err := startLog(logChoice{Level: level}, rank3, &out)
		must.Do(t, err)
		all(l)
		l.Close()
		l.Error("after the end")
		var got string
		for line := range strings.Lines(out.String()) {
			m := regexp.MustCompile(`^time=\d{4}-\d\d-\d\dT\S+ level=[A-Z]+ msg=(.) rank=3 host=node1( key="two words")?\n$`).FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("level %s: line %q", level, line)
			}
			got += m[1]
		}
		if got != want {
			t.Errorf("level %q lets pass %q, want %q", level, got, want)
		}
	}
}

// Each process has its file, and the lines of earlier jobs stay.
func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	for range 2 {
		for _, who := range []logWriter{rank3, {Rank: -1, Host: "front", Launcher: "local"}, {Rank: 12345, Host: "node2", Launcher: "pmix"}, {Rank: -1, Host: "node2", Launcher: "etcd"}} {
			l, err := startLog(logChoice{Dir: dir}, who, io.Discard)
			must.Do(t, err)
			all(l)
			l.Close()
		}
	}
	for name, header := range map[string]string{
		"rank-0003.log": "log of rank 3 on node1, launcher slurm", "launcher.log": "log of the launcher on front, launcher local",
		"rank-12345.log": "log of rank 12345 on node2, launcher pmix",
		fmt.Sprintf("rank-node2-%d.log", os.Getpid()): "log of a rank on node2, launcher etcd",
	} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		once := fmt.Sprintf(`# perigee \S+, %s, process %d, level info\n.* msg=i .*\n.* msg=w .*\n.* msg=e .*\n`, header, os.Getpid())
		if !regexp.MustCompile("^" + once + once + "$").Match(data) {
			t.Errorf("%s has:\n%s", name, data)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
	off := filepath.Join(t.TempDir(), "off")
	if l, err := startLog(logChoice{Level: logOff, Dir: off}, rank3, io.Discard); err != nil || l.Enabled(t.Context(), 100) {
		t.Errorf("off: %v, %v", l, err)
	}
	if _, err := os.Stat(off); !errors.Is(err, os.ErrNotExist) {
		t.Error("a folder was made for nothing")
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for _, name := range []string{"folder/rank-0003.log", "long"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	for _, c := range []struct {
		choice logChoice
		kind   fault.Kind
		want   string
	}{
		{logChoice{Level: "loud"}, fault.Usage, `there is no log level "loud"`},
		{logChoice{Level: "INFO"}, fault.Usage, `there is no log level "INFO"`},
		{logChoice{Level: "loud", Dir: dir}, fault.Usage, `"loud"`},
		{logChoice{Dir: filepath.Join(dir, "file")}, fault.Output, "file: not a directory"},
		{logChoice{Dir: filepath.Join(dir, "file", "below")}, fault.Output, "file: not a directory"},
		{logChoice{Dir: filepath.Join(dir, "folder")}, fault.Output, "rank-0003.log: is a directory"},
		{logChoice{Dir: dir + "\x00"}, fault.Output, "invalid argument"},
	} {
		l, err := startLog(c.choice, rank3, io.Discard)
		if err == nil || fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.HintOf(err), "PERIGEE_LOG_") {
			t.Errorf("%+v: got %v (%v), want %s", c.choice, err, fault.HintOf(err), c.want)
		}
		all(l)
		l.Close()
	}
}

// Lines of several goroutines stay whole.
func TestWholeLines(t *testing.T) {
	dir := t.TempDir()
	l, err := startLog(logChoice{Dir: dir}, rank3, io.Discard)
	must.Do(t, err)
	const writers, lines = 8, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range lines {
				l.Info("x", "text", strings.Repeat(fmt.Sprint(w), 100+i))
			}
		})
	}
	wg.Wait()
	l.Close()
	data := must.Read(t, filepath.Join(dir, "rank-0003.log"))
	whole := regexp.MustCompile(`(?m)^time=\S+ level=INFO msg=x rank=3 host=node1 text=(0+|1+|2+|3+|4+|5+|6+|7+)$`)
	if n := len(whole.FindAll(data, -1)); n != writers*lines {
		t.Errorf("%d of %d lines are whole", n, writers*lines)
	}
}

// heard is a writer that others can wait for.
type heard chan string

func (h heard) Write(p []byte) (int, error) {
	h <- string(p)
	return len(p), nil
}

// stuckWriter never returns, until it is let go.
type stuckWriter struct{ goOn chan struct{} }

func (w stuckWriter) Write(p []byte) (int, error) {
	<-w.goOn
	return len(p), nil
}

// A log that cannot be written says so once, and does not block its writers.
func TestLost(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must.Do(t, err)
	defer full.Close()
	hanging := stuckWriter{make(chan struct{})}
	defer close(hanging.goOn)
	for want, to := range map[string]io.Writer{"no space left on device": full, "a line took more than 1ms": hanging} {
		said := make(heard, 2)
		s := &logSink{to: to, complain: said, who: "rank 3", limit: time.Millisecond}
		if to == full {
			s.limit = time.Minute
		}
		for range 3 {
			if n, err := s.Write([]byte("line\n")); n != 5 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		if got := <-said; !strings.HasPrefix(got, "perigee: the log of rank 3 ends here: ") || !strings.Contains(got, want) {
			t.Errorf("said %q, want %q", got, want)
		}
		select {
		case got := <-said:
			t.Errorf("said more: %q", got)
		default:
		}
	}
}

func TestChoiceFrom(t *testing.T) {
	env := map[string]string{EnvLogLevel: "warn", EnvLogDir: "d"}
	got := logChoiceFrom(func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	if want := (logChoice{Level: "warn", Dir: "d"}); got != want {
		t.Errorf("got %+v", got)
	}
}
