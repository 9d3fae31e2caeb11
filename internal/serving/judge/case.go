package judge

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/version"
	"perigee/internal/serving/probe"
)

// CaseName is the name of the file in a result folder that holds the case.
const CaseName = "verdict.json"

// LogsFolder is the folder in an output folder that holds the results of the jobs.
const LogsFolder = "slurm_logs"

// FiguresName is the name of the file in an output folder that collects the figures of all cases.
const FiguresName = "perf_script_test_results.csv"

// Case is a case's verdict with what was asked for and where it ran, as it stands
// in its result folder and in the list of a run.
type Case struct {
	ID        string        `json:"id"`
	Repeat    int           `json:"repeat"` // from 1
	File      string        `json:"file"`
	Model     string        `json:"model"`
	Input     int           `json:"input_length"`
	Output    int           `json:"output_length"`
	GPUs      int           `json:"gpus,omitempty"`          // of all servers; 0: the config does not say
	Config    string        `json:"config_sha256,omitempty"` // of effective.yaml
	Dir       string        `json:"dir"`
	Job       string        `json:"job,omitempty"`
	Slurm     string        `json:"slurm_state,omitempty"`
	Preempted bool          `json:"preempted,omitempty"`
	Suspended bool          `json:"suspended,omitempty"`
	Stopped   string        `json:"stopped,omitempty"` // why the run has cancelled it
	Nodes     string        `json:"nodes,omitempty"`
	Began     time.Time     `json:"submitted"`
	Ended     time.Time     `json:"ended"`
	QueueS    float64       `json:"queue_s"`
	Pending   string        `json:"pending_reason,omitempty"` // why it was last waiting
	RunS      float64       `json:"run_s"`
	Detail    string        `json:"diagnosis,omitempty"` // of a part that has ended before its time, with its log
	Probe     *probe.Result `json:"probe,omitempty"`
	Perigee   version.Build `json:"perigee"`
	*Verdict
}

// IsCase reports whether a folder is that of a case: it has a log by one of its names, an end mark, a verdict, or the
// log of a part that has died.
func IsCase(dir string) bool {
	for _, pattern := range slices.Concat(benchmarkLogs, accuracyLogs, []string{EndMark, CaseName}) {
		if names, _ := fs.Glob(os.DirFS(dir), pattern); len(names) > 0 {
			return true
		}
	}
	return FindDeath(dir, nil) != nil
}

// mostCase bounds the file of a case: 100 levels with their figures have 100 kB.
const mostCase = 64 << 20

// ReadCase reads the case in a result folder.
func ReadCase(dir string) (*Case, error) {
	path := filepath.Join(dir, CaseName)
	data, err := file.Read(path, mostCase)
	if err != nil {
		return nil, fault.New(fault.Input, "%w", err)
	}
	var c Case
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fault.New(fault.Input, "%s: wanted a verdict of perigee disagg: %w", path, err)
	}
	if c.Verdict == nil {
		return nil, fault.New(fault.Input, "%s: wanted a verdict of perigee disagg, got none", path).
			WithHint("parse the case again: %s", cli.CommandLine([]string{"perigee", "disagg", "parse", dir}))
	}
	c.Dir = dir // which has another name since, if the case has failed or was run again
	return &c, nil
}

// Write writes the case into a result folder. Figures that JSON cannot hold fail the case, see [Unwritable].
func (c *Case) Write(dir string) error {
	var text bytes.Buffer
	encode := func() error {
		text.Reset()
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(c)
	}
	err := encode()
	if v := Unwritable(err); v != nil {
		c.Verdict = v
		err = encode()
	}
	if err != nil {
		return err
	}
	return file.Write(filepath.Join(dir, CaseName), func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	})
}

// Unwritable returns the verdict on a case whose figures JSON does not hold, as it has no NaN; nil for any other error.
func Unwritable(err error) *Verdict {
	if _, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
		return NoFigures("the verdict has a figure that is no finite number: " + err.Error())
	}
	return nil
}
