// Package given looks at what a path holds, so that one command takes whatever it is given: results of perigee, what
// clients of serving benchmarks and llm-d have written, output folders of perigee disagg, and traces.
package given

import (
	"bufio"
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"

	"perigee/internal/kit/fault"
	"perigee/internal/serving/judge"
	"perigee/internal/serving/runs"
	"perigee/internal/trace"
)

// Kind is what a path holds.
type Kind string

// The kinds, in words.
const (
	Result  Kind = "results of perigee" // also what is of no kind: their reader says what is wrong with it
	Serving Kind = "serving benchmarks"
	Disagg  Kind = "figures of perigee disagg"
	Trace   Kind = "a trace"
)

// Of looks at what a path holds. Names decide nothing but for the files of an output folder.
func Of(path string) Kind {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() { // a pipe can be read once
		return Result
	}
	if info.IsDir() {
		verdicts, _ := fs.Glob(os.DirFS(path), judge.LogsFolder+"/*/"+judge.CaseName)
		if _, err := os.Stat(filepath.Join(path, judge.FiguresName)); err == nil || len(verdicts) > 0 {
			return Disagg
		}
	} else if runs.HasResult(path) {
		return Result
	} else if hasFigures(path) {
		return Disagg
	} else if trace.Is(path) {
		return Trace
	}
	if runs.Holds(path) {
		return Serving
	}
	return Result
}

// hasFigures reports whether a file begins like one of figures, of perigee disagg or TensorRT-LLM's tests.
func hasFigures(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	header, _ := bufio.NewReader(file).ReadSlice('\n')
	return bytes.Contains(header, []byte("perf_case_name,")) && bytes.Contains(header, []byte("perf_metric,"))
}

// OfAll is Of for paths that are taken together. Several kinds are an error, of the kind Usage, that names two of them.
func OfAll(paths []string) (Kind, error) {
	kind := Of(paths[0])
	for _, path := range paths[1:] {
		if other := Of(path); other != kind {
			return "", fault.New(fault.Usage, "%s holds %s, and %s %s: wanted one kind", paths[0], kind, path, other).
				WithHint("give a command for each kind")
		}
	}
	return kind, nil
}

// Useless is the name of an option if it was given, for [Kind.Refuse].
func Useless(option string, wasGiven bool) string {
	if wasGiven {
		return option
	}
	return ""
}

// commands are those for a kind alone.
var commands = map[Kind]string{Serving: "sweep", Disagg: "disagg", Trace: "trace show"}

// Refuse is an error of the kind Usage that names the first useless option, nil if all are "". path holds the kind.
func (k Kind) Refuse(path string, useless ...string) error {
	option := cmp.Or(useless...)
	if option == "" {
		return nil
	}
	return fault.New(fault.Usage, "%s has no effect: %s holds %s", option, path, k).
		WithHint("perigee %s --help has what can be asked for", commands[k])
}
