package disagg

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/plaintext"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/judge"
	"perigee/internal/serving/plan"
)

// Names in a result folder, and in the output folder.
const (
	resultFile = "result.json"
	junitFile  = "junit.xml"
)

// casesBelow reads the cases below an output folder, in the order of time.
func casesBelow(dir string) ([]judge.Case, error) {
	logs := filepath.Join(dir, judge.LogsFolder)
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
		together := ""
		if first[c.ID].Sound() && c.Sound() { // others have no figures
			together = "their figures are taken together"
		}
		c.Warnings = append(slices.Clip(c.Warnings), strings.TrimSuffix(what+", and "+together, ", and "))
		if said[c.ID] {
			continue
		}
		said[c.ID] = true
		if _, err := fmt.Fprintf(w, "warning: %s: %s\n", plaintext.Escape(cli.Shortened(c.ID)),
			plaintext.Escape(strings.TrimSuffix(what+"; "+together, "; "))); err != nil {
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
	for _, p := range pairs {
		if p.first != p.later {
			return cli.Shortened(fmt.Sprintf("%s is %v in some runs and %v in others", p.name, p.first, p.later))
		}
	}
	if a.Config != "" && b.Config != "" && a.Config != b.Config {
		what := "the configuration"
		if b.File != "" {
			what = filepath.Base(b.File)
		}
		return cli.Shortened(fmt.Sprintf("%s changed between job %s and %s%s", what, cmp.Or(a.Job, "?"),
			cmp.Or(b.Job, "?"), changedKeys(a.Dir, b.Dir)))
	}
	return ""
}

// changedKeys are the keys whose values differ in the configurations that lie in two result folders, in parentheses; ""
// where these cannot be read.
func changedKeys(first, later string) string {
	var trees [2]*conf.Value
	for i, dir := range []string{first, later} {
		text, err := plan.ReadEffective(dir)
		if err == nil {
			trees[i], err = conf.Parse(plan.Effective, text)
		}
		if err != nil {
			return ""
		}
	}
	keys := differing(trees[0], trees[1], "")
	if len(keys) == 0 {
		return ""
	}
	return " (" + strings.Join(plaintext.First(keys, 5, "%d more"), ", ") + ")"
}

// differing lists the paths of keys at which two documents differ.
func differing(a, b *conf.Value, path string) (keys []string) {
	if a == nil || b == nil || a.Kind != conf.Map || b.Kind != conf.Map {
		if a != nil && b != nil && reflect.DeepEqual(a.Plain(), b.Plain()) {
			return nil
		}
		return []string{path}
	}
	for _, key := range a.Keys() {
		keys = append(keys, differing(a.Get(key), b.Get(key), strings.TrimPrefix(path+"."+key, "."))...)
	}
	for _, key := range b.Keys() {
		if !a.Has(key) {
			keys = append(keys, strings.TrimPrefix(path+"."+key, "."))
		}
	}
	return keys
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
