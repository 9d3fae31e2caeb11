package run

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/version"
)

// The variables that stand for --log-level and --log-dir.
const (
	EnvLogLevel = "PERIGEE_LOG_LEVEL"
	EnvLogDir   = "PERIGEE_LOG_DIR"
)

// logOff is the level at which nothing is logged.
const logOff = "off"

var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// logChoice says which events are logged, and where.
type logChoice struct {
	Level string // off, debug, info, warn or error; "" is info with Dir, else off
	Dir   string // for a file per rank; "" is standard error
}

// logChoiceFrom reads the user's choice from variables.
func logChoiceFrom(env func(key string) (string, bool)) logChoice {
	var c logChoice
	c.Level, _ = env(EnvLogLevel)
	c.Dir, _ = env(EnvLogDir)
	return c
}

// silent reports whether nothing is to be logged.
func (c logChoice) silent() bool { return c.Level == logOff || c.Level == "" && c.Dir == "" }

func (c logChoice) level() (slog.Level, error) {
	if c.Level == "" {
		return slog.LevelInfo, nil
	}
	if l, ok := logLevels[c.Level]; ok {
		return l, nil
	}
	return 0, fault.New(fault.Usage, "there is no log level %q", c.Level).
		WithHint("--log-level (%s) is one of debug, info, warn, error and %s", EnvLogLevel, logOff)
}

// logWriter names the process that writes a log.
type logWriter struct {
	Rank     int // -1 for the launcher, which is none
	Host     string
	Launcher string // what has started the ranks
}

func (w logWriter) label() string {
	switch {
	case w.unnumbered():
		return "-"
	case w.Rank < 0:
		return "launcher"
	}
	return fmt.Sprint(w.Rank)
}

// unnumbered reports whether it is a rank that gets its number only when it meets the others.
func (w logWriter) unnumbered() bool { return w.Rank < 0 && w.Launcher == "etcd" }

// file is the name of its file.
func (w logWriter) file() string {
	switch {
	case w.unnumbered():
		return fmt.Sprintf("rank-%s-%d.log", w.Host, os.Getpid())
	case w.Rank < 0:
		return "launcher.log"
	}
	return fmt.Sprintf("rank-%04d.log", w.Rank)
}

// jobLog lets each process of a job write down what it does and why, for the operator who looks for the reason of a
// failure or of a wrong choice: one line of text per event, with the time of day, the rank, its host, and key=value
// pairs. docs/logs.md explains the keys.
//
// A line is written before the program goes on, without a buffer, so that the last ones of a process that is killed are
// there. Where writing takes too long (standard error is a pipe that is not read, a file server hangs) logging ends,
// and the job goes on.
//
// Lines hold no secret, and of variables of the environment only the names.
type jobLog struct {
	*slog.Logger
	out  *logSink // nil if it is silent
	file *os.File // nil if it has none
}

// silentLog logs nothing.
func silentLog() *jobLog { return &jobLog{Logger: slog.New(slog.DiscardHandler)} }

// startLog begins the log of a process. Where it fails a silent log comes back beside the error. The first line that
// cannot be written later on ends the log, with one message on stderr.
func startLog(c logChoice, who logWriter, stderr io.Writer) (*jobLog, error) {
	if c.silent() {
		return silentLog(), nil
	}
	level, err := c.level()
	if err != nil {
		return silentLog(), err
	}
	l := &jobLog{out: &logSink{to: stderr, complain: io.Discard, limit: mostWrite}}
	if c.Dir != "" {
		header := fmt.Sprintf("# perigee %s, log of %s on %s, launcher %s, process %d, level %s\n",
			version.Get().Version, who.noun(), who.Host, who.Launcher, os.Getpid(), strings.ToLower(level.String()))
		l.file, err = openLogFile(c.Dir, who)
		if err == nil {
			l.out = &logSink{to: l.file, complain: stderr, who: who.noun(), limit: mostWrite}
			err = withoutFolder(l.out.put([]byte(header)))
		}
		if err != nil {
			l.Close()
			return silentLog(), fault.New(fault.Output, "cannot write logs into %s: %w", c.Dir, err).
				WithHint("--log-dir (%s) is a folder that every rank can write to; it is made if it is not there",
					EnvLogDir)
		}
	}
	l.Logger = slog.New(slog.NewTextHandler(l.out, &slog.HandlerOptions{Level: level})).With("rank", who.label(),
		"host", who.Host)
	return l, nil
}

func (w logWriter) noun() string {
	switch {
	case w.unnumbered():
		return "a rank"
	case w.Rank < 0:
		return "the launcher"
	}
	return fmt.Sprint("rank ", w.Rank)
}

// openLogFile opens a file for lines at its end. Those of earlier jobs stay.
func openLogFile(dir string, who logWriter) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, withoutFolder(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, who.file()), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	return f, withoutFolder(err)
}

// withoutFolder leaves out the name of the file, or of the folder, where it is that of the message.
func withoutFolder(err error) error {
	if e, ok := err.(*os.PathError); ok {
		return fmt.Errorf("%s: %w", filepath.Base(e.Path), e.Err)
	}
	return err
}

// Close ends the log. What comes after it is lost.
func (l *jobLog) Close() {
	if l.out == nil {
		return
	}
	l.out.end()
	if l.file != nil {
		l.file.Close()
	}
}

// mostWrite is how long a line may take to be written.
const mostWrite = 2 * time.Second

// logSink writes lines as long as that works.
type logSink struct {
	to       io.Writer
	complain io.Writer     // hears, once, that it does not
	who      string        // writes
	limit    time.Duration // for a line

	mu   sync.Mutex
	over bool
}

func (s *logSink) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// Write writes a line, or drops it where lines cannot be written any more.
func (s *logSink) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return len(line), nil
	}
	if err := s.put(line); err != nil {
		s.over = true
		go fmt.Fprintf(s.complain, "perigee: the log of %s ends here: %v\n", s.who, err)
	}
	return len(line), nil
}

// put writes a line, if that is possible in time.
func (s *logSink) put(line []byte) error {
	line = slices.Clone(line) // a writer that hangs keeps it
	done := make(chan error, 1)
	go func() {
		_, err := s.to.Write(line)
		done <- err
	}()
	late := time.NewTimer(s.limit)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return fmt.Errorf("a line took more than %v", s.limit)
	}
}
