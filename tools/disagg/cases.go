package disagg

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/plaintext"
	"perigee/tools/disagg/batch"
	"perigee/tools/disagg/judge"
)

// Names in a result folder, and in the output folder.
const (
	resultFile = "result.json"
	junitFile  = "junit.xml"
)

// casesBelow reads the cases below an output folder, in the order of time.
func casesBelow(dir string) ([]judge.Case, error) {
	logs := filepath.Join(dir, batch.LogsFolder)
	if _, err := os.Stat(logs); err != nil {
		return nil, fault.New(fault.Input, "%s: wanted the output folder of perigee disagg run: %w", dir, err)
	}
	var cases []judge.Case
	for _, folder := range append([]string{logs}, batch.Elsewhere(dir)...) {
		entries, err := os.ReadDir(folder)
		if err != nil && folder == logs {
			return nil, fault.New(fault.Input, "%w", err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), batch.FailedSuffix+file.Aside) {
				continue // what could not be removed of an earlier run
			}
			c, err := judge.ReadCase(filepath.Join(folder, e.Name()))
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
	slices.SortStableFunc(cases, func(a, b judge.Case) int { return a.Began.Compare(b.Began) })
	return cases, nil
}

// warnOfMixtures names cases of one id that did not do the same, on w and on the later ones: their figures have the
// same names.
func warnOfMixtures(w io.Writer, cases []judge.Case) error {
	first, said := map[string]*judge.Case{}, map[string]bool{}
	for i := range cases {
		c := &cases[i]
		if first[c.ID] == nil {
			first[c.ID] = c
			continue
		}
		what := difference(first[c.ID], c)
		if what == "" {
			continue
		}
		c.Warnings = append(slices.Clip(c.Warnings), what+", and their figures are taken together")
		if said[c.ID] {
			continue
		}
		said[c.ID] = true
		if _, err := fmt.Fprintf(w, "warning: %s: %s; their figures are taken together\n",
			plaintext.Escape(cli.Shortened(c.ID)), plaintext.Escape(what)); err != nil {
			return err
		}
	}
	return nil
}

// difference says what two cases of one id have not done in the same way, "" for nothing.
func difference(a, b *judge.Case) string {
	type pair struct {
		name         string
		first, later any
	}
	pairs := []pair{
		{"model", a.Model, b.Model}, {"input_length", a.Input, b.Input}, {"output_length", a.Output, b.Output},
		{"GPUs", a.GPUs, b.GPUs},
	}
	if a.Config != "" && b.Config != "" {
		pairs = append(pairs, pair{"the configuration", a.Config, b.Config})
	}
	for _, p := range pairs {
		if p.first != p.later {
			return cli.Shortened(fmt.Sprintf("%s is %v in some runs and %v in others", p.name, p.first, p.later))
		}
	}
	return ""
}

// caseOf reads the case that an earlier run has written of a task, if it fits; else it returns nil.
func caseOf(t *batch.Task, is func(*judge.Case) bool) *judge.Case {
	for _, dir := range []string{t.Dir, t.Dir + batch.FailedSuffix} {
		if c, err := judge.ReadCase(dir); err == nil && is(c) {
			return c
		}
	}
	return nil
}
