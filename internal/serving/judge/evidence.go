package judge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/serving/benchlog"
	"perigee/internal/serving/config"
)

// The logs of a result folder, by their newer and older names.
var (
	benchmarkLogs = []string{"6_bench.log", "bench.log", "benchmark_result.log", "profile_export_aiperf.json",
		"profile_export_genai_perf.json"}
	accuracyLogs = []string{"7_accuracy_eval_*.log", "accuracy_eval.log"}
)

// EndMark is the pattern of the file that a job writes last.
const EndMark = "8_done_*.txt"

// Cut is a file that ends within a line.
type Cut struct{ Name, LastLine string }

// Evidence holds the contents of the folder of a case.
type Evidence struct {
	Log         *benchlog.Log
	Scores      []Score
	NoBenchmark string // why there is no benchmark log
	Cut         []Cut
	Growing     []string
	Files       []string

	Marked bool     // the job has written its end mark
	Death  *Death   // of a part before its time, nil for none
	Left   []string // tasks of servers that have ended well during the benchmark
}

// Patience bounds the wait for a log to be complete.
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
	e := &Evidence{Log: &benchlog.Log{Whole: true}}
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return nil, fault.New(fault.Input, "%s: wanted a regular file or a folder", path)
		}
		e.settle(path, p, "")
		if err := e.benchmark(path, want); err != nil {
			return nil, err
		}
		return e, e.accuracy([]string{path})
	}
	if err := e.folder(path, want, p); err != nil {
		return nil, err
	}
	e.Marked, e.Death, e.Left = Done(path), FindDeath(path, nil), left(path)
	return e, nil
}

// folder reads the logs of a case.
func (e *Evidence) folder(dir string, want Expect, p Patience) error {
	if Done(dir) {
		p = Patience{}
	}
	names := benchmarkLogs
	if want.Custom != nil && want.Custom.LogFile != "" {
		names = []string{want.Custom.LogFile}
	}
	i := slices.IndexFunc(names, func(name string) bool { return isFile(filepath.Join(dir, name)) })
	if i < 0 {
		e.NoBenchmark = fmt.Sprintf("benchmark log not found: there is no %s in %s", strings.Join(names, ", "), dir)
	} else {
		file := filepath.Join(dir, names[i])
		e.settle(file, p, "")
		if err := e.benchmark(file, want); err != nil {
			return err
		}
	}
	patterns := accuracyLogs
	if want.AccuracyLog != "" {
		patterns = []string{want.AccuracyLog}
	}
	for _, pattern := range patterns {
		files, _ := filepath.Glob(filepath.Join(glob(dir), pattern)) // sorted
		if len(files) == 0 {
			continue
		}
		for _, file := range files {
			e.settle(file, p, accuracyPrefix)
		}
		return e.accuracy(files)
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

// settle waits until a file that was written a moment ago has stopped growing. The name of one that does not is put
// behind a prefix.
func (e *Evidence) settle(path string, p Patience, prefix string) {
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
			e.Growing = append(e.Growing, prefix+filepath.Base(path))
			return
		}
		time.Sleep(left)
	}
}

// benchmark reads a client's log.
func (e *Evidence) benchmark(path string, want Expect) error {
	file, err := file.Open(path)
	if err != nil {
		return fault.New(fault.Input, "%w", err)
	}
	defer file.Close()
	e.Files = append(e.Files, filepath.Base(path))
	if want.Custom != nil && want.Custom.Pattern != nil {
		err = e.custom(file, want)
	} else if e.Log, err = benchlog.Read(file); err == nil && want.known {
		e.unmarkedOf(want.Levels)
	}
	if err != nil {
		return fault.New(fault.Input, "%s: %w", path, err)
	}
	if !e.Log.Whole {
		e.Cut = append(e.Cut, Cut{filepath.Base(path), e.Log.LastLine})
	}
	return nil
}

// unmarkedOf keeps, of a log whose result blocks are its levels, those of the wanted concurrencies: others are
// warm-ups. The one result of a JSON file is that of the only level.
func (e *Evidence) unmarkedOf(wanted []int) {
	log := e.Log
	if !log.Unmarked || len(wanted) == 0 {
		return
	}
	if log.JSON && len(log.Levels) == 1 && len(wanted) == 1 && log.Levels[0].Concurrency == 0 {
		log.Levels[0].Concurrency = wanted[0]
	}
	all := len(log.Levels)
	log.Levels = slices.DeleteFunc(log.Levels, func(l benchlog.Level) bool {
		return !slices.Contains(wanted, l.Concurrency)
	})
	log.Warmups += all - len(log.Levels)
}

// mostCustom bounds a log that a custom pattern searches, in bytes: it has to be
// in memory as a whole.
const mostCustom = 64 << 20

// custom reads a log, and takes the metrics from a pattern instead.
func (e *Evidence) custom(file io.Reader, want Expect) error {
	text, err := io.ReadAll(io.LimitReader(file, mostCustom+1))
	if err != nil {
		return err
	}
	if len(text) > mostCustom {
		return fmt.Errorf("the log is longer than %d MiB, too long for a custom pattern", mostCustom>>20)
	}
	text = universal(text)
	if e.Log, err = benchlog.Read(bytes.NewReader(text)); err != nil {
		return err
	}
	if inside, err := e.inLevels(text, want.Custom.Pattern); inside || err != nil {
		return err
	}
	matches, err := want.Custom.Pattern.FindAll(text)
	if err != nil {
		return err
	}
	if log := e.Log; log.Unmarked || len(log.Levels) == 0 {
		log.Warmups, log.Levels, log.Unmarked = log.Warmups+len(log.Levels), nil, false
		return e.unmarked(matches[0], want)
	}
	for _, m := range matches[0] {
		if i := e.Log.At(int64(m.From), int64(m.To)); i >= 0 && of(m, e.Log.Levels[i]) { // it begins before
			e.Log.Levels[i].Metrics = m.Values
		} else if i := e.Log.Ended(int64(m.From), m.Concurrency); i >= 0 { // the client prints them behind the levels
			give(&e.Log.Levels[i], m.Values)
		}
	}
	return nil
}

// inLevels takes the metrics of each level from its own text, where the last match counts: no match reaches from one
// level into the next. It reports whether there is a match; then those outside of levels are of a warm-up, or a check.
func (e *Evidence) inLevels(text []byte, p *config.LogPattern) (inside bool, err error) {
	if e.Log.Unmarked || len(e.Log.Levels) == 0 {
		return false, nil
	}
	parts := make([][2]int64, len(e.Log.Levels))
	for i := range e.Log.Levels {
		e.Log.Levels[i].Metrics = map[string]float64{}
		parts[i][0], parts[i][1] = e.Log.Levels[i].Text()
	}
	matches, err := p.FindAll(text, parts...)
	if err != nil {
		return false, err
	}
	for i, list := range matches {
		for _, m := range list {
			if of(m, e.Log.Levels[i]) {
				e.Log.Levels[i].Metrics, inside = m.Values, true
			}
		}
	}
	return inside, nil
}

// universal ends lines by \n alone, as Python reads text.
func universal(text []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// of reports whether a match that stands in a level may be of it.
func of(m config.Match, l benchlog.Level) bool {
	return m.Concurrency == 0 || m.Concurrency == l.Concurrency
}

// unmarked takes the matches of a log that has no lines which begin and end levels: each concurrency is a level.
func (e *Evidence) unmarked(matches []config.Match, want Expect) error {
	at := map[int]int{} // the level of a concurrency
	for _, m := range matches {
		concurrency := m.Concurrency
		if concurrency == 0 && len(want.Levels) == 1 {
			concurrency = want.Levels[0]
		}
		i, known := at[concurrency]
		switch {
		case !known && len(at) == benchlog.MaxLevels:
			return fmt.Errorf("the pattern finds more than %d concurrencies: its last group, or the one called "+
				"concurrency, may hold something else", benchlog.MaxLevels)
		case !known:
			at[concurrency] = len(e.Log.Levels)
			l := benchlog.NewLevel()
			l.Concurrency, l.Complete, l.Metrics = concurrency, true, m.Values
			e.Log.Levels = append(e.Log.Levels, l)
		case m.Concurrency == 0:
			e.Log.Levels[i].Metrics = m.Values // the last counts, as in a level
		default:
			give(&e.Log.Levels[i], m.Values)
		}
	}
	return nil
}

// give gives a level figures that nothing but their concurrency ties to it. Others than those that it has may be of a
// warm-up, and nothing says which are.
func give(l *benchlog.Level, values map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if before, ok := l.Metrics[name]; ok && before != values[name] && l.Mixed == "" {
			l.Mixed = fmt.Sprintf("%s %g and %g", name, before, values[name])
		}
	}
	l.Metrics = values
}

// accuracy reads the logs of evaluations as one.
func (e *Evidence) accuracy(files []string) error {
	var t tables
	for _, path := range files {
		file, err := file.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fault.New(fault.Input, "%w", err)
		}
		rest, err := t.read(file)
		file.Close()
		if err != nil {
			return fault.New(fault.Input, "%s: %w", path, err)
		}
		name := filepath.Base(path)
		if slices.Contains(e.Files, name) {
			continue // it holds the benchmark, too, as whose log it was looked at
		}
		e.Files = append(e.Files, name)
		if last := benchlog.LastLine(rest); last != "" {
			e.Cut = append(e.Cut, Cut{accuracyPrefix + name, last})
		}
	}
	e.Scores = t.inOrder()
	return nil
}
