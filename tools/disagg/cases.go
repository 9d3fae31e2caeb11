package disagg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/plaintext"
	"perigee/internal/version"
	"perigee/tools/disagg/accuracy"
	"perigee/tools/disagg/batch"
	"perigee/tools/disagg/benchlog"
	"perigee/tools/disagg/probe"
	"perigee/tools/disagg/record"
	"perigee/tools/disagg/verdict"
)

// Names in a result folder, and in the output folder.
const (
	verdictFile = "verdict.json"
	resultFile  = "result.json"
	junitFile   = "junit.xml"
)

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
	Detail    string        `json:"diagnosis,omitempty"`
	Probe     *probe.Result `json:"probe,omitempty"`
	Perigee   version.Build `json:"perigee"`
	*verdict.Verdict
}

// What a verdict may hold: 100 levels with their figures have 100 kB, and a log has 10,000 levels at most and 100,000
// scores.
const (
	mostVerdict  = 16 << 20 // bytes
	mostElements = 1 << 20  // of its lists and objects, as its commas count them; each of these counts as three more
	mostLevels   = benchlog.MaxLevels
	mostScores   = accuracy.MaxScores
	mostTexts    = 1000 // reasons, warnings, files
)

// What all verdicts may hold that a command reads. An element takes some 60 bytes, and an object or a list 200 more.
const (
	mostVerdicts    = 4 * mostVerdict
	mostAllElements = 2 * mostElements
)

// verdicts counts what the verdicts hold that have been read, and the figures beside them.
type verdicts struct {
	bytes, elements int
	figures         record.Figures
}

// readCase reads the verdict in a result folder.
func readCase(dir string) (*Case, error) { return new(verdicts).read(dir) }

func (v *verdicts) read(dir string) (*Case, error) {
	path := filepath.Join(dir, verdictFile)
	data, err := file.Read(path, mostVerdict)
	if err != nil {
		return nil, fault.New(fault.Input, "%w", err)
	}
	n := elementsIn(data)
	if n > mostElements {
		return nil, fault.New(fault.Input, "%s: wanted a verdict with at most %d elements, got more", path, mostElements)
	}
	v.bytes += len(data)
	if v.elements += n; v.bytes > mostVerdicts || v.elements > mostAllElements {
		return nil, fault.New(fault.Input, "%s: wanted verdicts of at most %d MiB and %d elements together, got more", path,
			mostVerdicts>>20, mostAllElements).WithHint("name fewer output folders at once")
	}
	var c Case
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fault.New(fault.Input, "%s: wanted a verdict of perigee disagg: %w", path, err)
	}
	got := c.Verdict
	if got == nil {
		return nil, fault.New(fault.Input, "%s: wanted a verdict of perigee disagg, got none", path).
			WithHint("parse the case again: %s", cli.CommandLine([]string{"perigee", "disagg", "parse", dir}))
	}
	if err := c.bounded(); err != nil {
		return nil, fault.New(fault.Input, "%s: %w", path, err)
	}
	c.Dir = dir // which has another name since, if the case has failed or was run again
	return &c, nil
}

// elementsIn counts what JSON holds, as mostElements does.
func elementsIn(data []byte) int {
	return bytes.Count(data, []byte(",")) + 3*(bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("["))) +
		bytes.Count(data, []byte("null")) // which may stand for an object
}

// bounded returns an error for a case whose lists are longer than those of any verdict.
func (c *Case) bounded() error {
	v := c.Verdict
	if len(v.Levels) > mostLevels || len(v.Accuracy) > mostScores || c.Probe != nil && len(c.Probe.Pairs) > mostTexts ||
		max(len(v.Reasons), len(v.Warnings), len(v.Files)) > mostTexts {
		return fmt.Errorf("wanted at most %d levels, %d scores and %d reasons, warnings, files and pairs, got more",
			mostLevels, mostScores, mostTexts)
	}
	return nil
}

// below reads the verdicts below an output folder, in the order of time.
func (v *verdicts) below(dir string) ([]Case, error) {
	logs := filepath.Join(dir, batch.LogsFolder)
	if _, err := os.Stat(logs); err != nil {
		return nil, fault.New(fault.Input, "%s: wanted the output folder of perigee disagg run: %w", dir, err)
	}
	var cases []Case
	for _, folder := range append([]string{logs}, batch.Elsewhere(dir)...) {
		entries, err := os.ReadDir(folder)
		if err != nil && folder == logs {
			return nil, fault.New(fault.Input, "%w", err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), batch.FailedSuffix+file.Aside) {
				continue // what could not be removed of an earlier run
			}
			c, err := v.read(filepath.Join(folder, e.Name()))
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
				continue // a case that still runs, or a file
			}
			if err != nil {
				if f, ok := errors.AsType[*fault.Error](err); ok && f.Hint == "" {
					f.WithHint("without the folder %s, the others can be read", filepath.Join(folder, e.Name()))
				}
				return nil, err
			}
			cases = append(cases, *c)
		}
	}
	slices.SortStableFunc(cases, func(a, b Case) int { return a.Began.Compare(b.Began) })
	return cases, nil
}

// warnOfMixtures names cases of one id that did not do the same, on w and on the later ones: their figures have the
// same names.
func warnOfMixtures(w io.Writer, cases []Case) error {
	first := map[string]*Case{}
	said := map[string]bool{}
	for i := range cases {
		c := &cases[i]
		a := first[c.ID]
		if a == nil {
			first[c.ID] = c
			continue
		}
		what := ""
		for _, d := range []struct {
			name         string
			ours, theirs any
		}{
			{"model", c.Model, a.Model}, {"input_length", c.Input, a.Input}, {"output_length", c.Output, a.Output},
			{"GPUs", c.GPUs, a.GPUs}, {"the configuration", c.Config, a.Config},
		} {
			if d.name == "the configuration" && (c.Config == "" || a.Config == "") {
				continue
			}
			if d.ours != d.theirs {
				what = cli.Shortened(fmt.Sprintf("%s is %v in some runs and %v in others", d.name, d.theirs, d.ours))
				break
			}
		}
		if what == "" {
			continue
		}
		c.Verdict.Warnings = append(slices.Clip(c.Verdict.Warnings), what+", and their figures are taken together")
		if said[c.ID] {
			continue
		}
		said[c.ID] = true
		if _, err := fmt.Fprintf(w, "warning: %s: %s; their figures are taken together\n", plaintext.Escape(cli.Shortened(c.ID)), plaintext.Escape(what)); err != nil {
			return err
		}
	}
	return nil
}

// caseOf reads what an earlier run has written of a task, if it is what is looked for; else it returns nil.
func caseOf(t *batch.Task, is func(*Case) bool) *Case {
	for _, dir := range []string{t.Dir, t.Dir + batch.FailedSuffix} {
		if c, err := readCase(dir); err == nil && is(c) {
			return c
		}
	}
	return nil
}

// runOf returns the case of a task, and which of its runs that is, from 1.
func runOf(t *batch.Task) (id string, repeat int) {
	id, repeat = t.Ident.String(), 1
	if n, ok := strings.CutPrefix(t.Name, id+"#"); ok {
		fmt.Sscan(n, &repeat)
	}
	return id, repeat
}
