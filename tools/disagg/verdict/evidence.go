package verdict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee/internal/fault"
	"perigee/internal/regular"
	"perigee/tools/disagg/accuracy"
	"perigee/tools/disagg/benchlog"
)

func usage(format string, args ...any) error { return fault.New(fault.Usage, format, args...) }

// The logs of a result folder, by their newer and older names.
var (
	benchmarkLogs = []string{"6_bench.log", "bench.log", "benchmark_result.log"}
	accuracyLogs  = []string{"7_accuracy_eval_*.log", "accuracy_eval.log"}
)

// EndMark is the pattern of the file that a job writes last.
const EndMark = "8_done_*.txt"

// Cut is a file that ends within a line.
type Cut struct{ Name, LastLine string }

// Evidence is what the logs of a case hold.
type Evidence struct {
	Log         *benchlog.Log
	Scores      []accuracy.Score
	NoBenchmark string // why there is no benchmark log
	Cut         []Cut
	Growing     []string
	Files       []string

	open func(path string) (*os.File, error)
}

// Patience is how long to wait for a log to be complete.
type Patience struct {
	Quiet time.Duration // a log that has not changed for so long is complete
	Limit time.Duration // in all
}

// Gather reads a log, or the logs of a result folder. A log that is missing in a
// folder is evidence, too; a path that cannot be read is an error.
func Gather(path string, want Expect, p Patience) (*Evidence, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.New(fault.Input, "%s: %w", path,
			errors.Unwrap(err)).WithHint("wanted a log, or the folder of a case")
	}
	e := &Evidence{Log: &benchlog.Log{Whole: true}, open: regular.Open}
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return nil, fault.New(fault.Input, "%s: wanted a regular file or a folder", path)
		}
		e.settle(path, p)
		if err := e.benchmark(path, want); err != nil {
			return nil, err
		}
		return e, e.accuracy([]string{path})
	}
	// The folder may have come from a stranger: its links lead to no file elsewhere, which reasons would quote.
	inside := regular.Inside(path)
	e.open = func(path string) (*os.File, error) {
		file, err := inside.Open(path)
		if errors.Is(err, regular.ErrOutside) {
			err = fault.New(fault.Input, "%w", err).WithHint("perigee disagg parse FILE reads a log anywhere")
		}
		return file, err
	}
	return e, e.folder(path, want, p)
}

// folder reads the logs of a case.
func (e *Evidence) folder(dir string, want Expect, p Patience) error {
	names := benchmarkLogs
	if want.Custom != nil && want.Custom.LogFile != "" {
		names = []string{want.Custom.LogFile}
	}
	marks, _ := filepath.Glob(filepath.Join(glob(dir), EndMark)) // the pattern is valid
	if len(marks) > 0 {
		p = Patience{}
	}
	i := slices.IndexFunc(names, func(name string) bool { return isFile(filepath.Join(dir, name)) })
	if i < 0 {
		e.NoBenchmark = fmt.Sprintf("benchmark log not found: there is no %s in %s", strings.Join(names, ", "), dir)
	} else {
		file := filepath.Join(dir, names[i])
		e.settle(file, p)
		if err := e.benchmark(file, want); err != nil {
			return err
		}
	}
	patterns := accuracyLogs
	if want.AccuracyLog != "" {
		patterns = []string{want.AccuracyLog}
	}
	for _, pattern := range patterns {
		files, _ := filepath.Glob(filepath.Join(glob(dir), pattern))
		if len(files) > 0 {
			slices.Sort(files)
			return e.accuracy(files)
		}
	}
	return nil
}

// glob quotes a folder for filepath.Glob.
func glob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// settle waits until a file that was written a moment ago has stopped growing.
func (e *Evidence) settle(path string, p Patience) {
	for limit := time.Now().Add(p.Limit); ; {
		info, err := os.Stat(path)
		if err != nil {
			return
		}
		left := p.Quiet - time.Since(info.ModTime())
		if left <= 0 || left > p.Quiet { // quiet, or of the future
			return
		}
		if time.Now().After(limit) {
			e.Growing = append(e.Growing, filepath.Base(path))
			return
		}
		time.Sleep(left)
	}
}

// benchmark reads a client's log.
func (e *Evidence) benchmark(path string, want Expect) error {
	file, err := e.open(path)
	if err != nil {
		return fault.New(fault.Input, "%w", err)
	}
	defer file.Close()
	e.Files = append(e.Files, filepath.Base(path))
	if e.Log, err = benchlog.Read(file); err != nil {
		return fault.New(fault.Input, "%s: %w", path, err)
	}
	if want.Custom != nil && want.Custom.Pattern != nil {
		if err := e.custom(file, want); err != nil {
			return fault.New(fault.Input, "%s: %w", path, err)
		}
	}
	if !e.Log.Whole {
		e.Cut = append(e.Cut, Cut{filepath.Base(path), e.Log.LastLine})
	}
	return nil
}

// mostCustom is how long a log may be that a custom pattern searches: it has to be
// in memory as a whole.
const mostCustom = 64 << 20

// custom takes the metrics from a pattern instead.
func (e *Evidence) custom(file *os.File, want Expect) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(file, mostCustom+1))
	if err != nil {
		return err
	}
	if len(text) > mostCustom {
		return fmt.Errorf("the log is longer than %d MiB, too long for a custom pattern", mostCustom>>20)
	}
	matches, err := want.Custom.Pattern.FindAll(bytes.ReplaceAll(text, []byte("\r"), []byte("\n")))
	if err != nil {
		return err
	}
	marked := len(e.Log.Levels) > 0
	for i := range e.Log.Levels {
		e.Log.Levels[i].Metrics = map[string]float64{}
	}
	for _, match := range matches {
		levels, concurrency := e.Log.Levels, match.Concurrency
		i := e.Log.At(int64(match.Offset))
		if concurrency == 0 && i < 0 && !marked && len(want.Levels) == 1 {
			concurrency = want.Levels[0]
		}
		if i < 0 || concurrency != 0 && levels[i].Concurrency != concurrency { // printed behind all levels, say
			i = len(levels) - 1
			for i >= 0 && levels[i].Concurrency != concurrency {
				i--
			}
		}
		switch {
		case i >= 0:
			e.Log.Levels[i].Metrics = match.Values
		case marked && match.Concurrency == 0:
			// outside of the levels: a warm-up
		default: // the log has no lines that begin and end levels: a match is one
			e.Log.Levels = append(e.Log.Levels, benchlog.Level{Concurrency: concurrency, Complete: true,
				Metrics: match.Values,
				Total:   -1, Successful: -1, Failed: -1, Generated: -1})
		}
	}
	return nil
}

// accuracy reads the logs of evaluations as one.
func (e *Evidence) accuracy(files []string) error {
	var readers []io.Reader
	for _, path := range files {
		file, err := e.open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fault.New(fault.Input, "%w", err)
		}
		defer file.Close()
		readers = append(readers, file, strings.NewReader("\n"))
		if name := filepath.Base(path); !slices.Contains(e.Files, name) {
			e.Files = append(e.Files, name)
		}
	}
	scores, err := accuracy.Read(io.MultiReader(readers...))
	if err != nil {
		return fault.New(fault.Input, "%s: %w", files[0], err)
	}
	e.Scores = scores
	return nil
}
