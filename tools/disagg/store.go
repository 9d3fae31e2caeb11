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

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/tools/disagg/batch"
	"perigee/tools/disagg/verdict"
)

// store puts the verdict and the result of a task into its folder, which has another name then if the case has failed.
// A folder that does not take them, as a job may remove its own or make it read-only, fails this case alone: they go
// into a folder apart, and if there can be none, the verdict is in the ledger and the reports only.
func (r *session) store(t *batch.Task, d *done) error {
	err := r.storeFiles(t, d)
	if err != nil && !d.apart && !r.ends(err) {
		d.Reasons = append(d.Reasons, cli.Shortened("its folder does not take the verdict: "+err.Error()))
		d.State, d.kept, d.apart = verdict.Failed, false, true
		err = r.storeFiles(t, d)
	}
	switch {
	case err == nil:
		return r.rename(t, d)
	case r.ends(err):
		return err
	}
	d.unkept, d.dir = true, t.Dir
	fmt.Fprintf(r.log, "warning: %s: its verdict is kept in no folder: %v\n", t.Name, err)
	return nil
}

// storeFiles writes the files that store keeps.
func (r *session) storeFiles(t *batch.Task, d *done) error {
	if d.apart {
		d.dir = t.Dir + batch.FailedSuffix
		if err := errors.Join(free(d.dir), os.MkdirAll(d.dir, 0o777)); err != nil {
			return fault.New(fault.Output, "%w", err)
		}
	}
	c := r.summary(t)
	if !d.kept {
		text, err := encodeCase(&c)
		if v := unwritable(err); v != nil {
			d.Verdict = v
			c = r.summary(t)
			text, err = encodeCase(&c)
		}
		if err == nil {
			err = file.Write(filepath.Join(d.dir, verdictFile), func(w io.Writer) error {
				_, err := w.Write(text)
				return err
			})
		}
		if err != nil {
			return err
		}
	}
	if t.Tree == nil { // there is no configuration to keep
		return nil
	}
	return writeResult(filepath.Join(d.dir, resultFile), c, t.Tree)
}

// rename gives the folder of a case that has failed the name that says so.
func (r *session) rename(t *batch.Task, d *done) error {
	if d.State != verdict.Failed || d.dir != t.Dir {
		return nil
	}
	to := t.Dir + batch.FailedSuffix
	err := free(to)
	if err == nil {
		err = os.Rename(t.Dir, to)
	}
	switch {
	case err == nil:
		d.dir = to
	case r.ends(err):
		return fault.New(fault.Output, "%w", err)
	default:
		fmt.Fprintf(r.log, "warning: %s: its folder keeps its name: %v\n", t.Name, err)
	}
	return nil
}

// free removes a folder of an earlier run. What cannot be removed, as of a job that has made a part of it read-only,
// stays under another name.
func free(dir string) error {
	aside, err := file.MoveAside(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	os.RemoveAll(aside) // as far as that goes
	return nil
}

// ends reports whether an error of a case's folder ends the run: there is no room, or the output folder itself is not
// to be written to. Otherwise the error is a matter of the case.
func (r *session) ends(err error) bool { return batch.NoRoom(err) || r.writable() != nil }

// writable finds out whether the output folder can be written to.
func (r *session) writable() error {
	for _, dir := range []string{r.dir, filepath.Join(r.dir, batch.LogsFolder)} {
		if err := tryFolder(dir); err != nil {
			return fault.New(fault.Output, "the output folder cannot be written to: %w",
				err).WithHint("--output or OUTPUT_PATH names another one")
		}
	}
	return nil
}

// tryFolder finds out whether files can be made in a folder.
func tryFolder(dir string) error {
	trial, err := os.CreateTemp(dir, ".perigee-tmp-")
	if err != nil {
		return err
	}
	_, err = trial.Write(make([]byte, 4096))
	return errors.Join(err, trial.Close(), os.Remove(trial.Name()))
}

// tooMuch is the error of a verdict that holds more than its readers take.
type tooMuch struct{ error }

// encodeCase returns a case as it stands in its result folder, if its readers take it.
func encodeCase(c *Case) ([]byte, error) {
	if err := c.bounded(); err != nil {
		return nil, tooMuch{err}
	}
	var b bytes.Buffer
	if c.atLeast() <= mostVerdict {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(c); err != nil {
			return nil, err
		}
	}
	if b.Len() == 0 || b.Len() > mostVerdict || elementsIn(b.Bytes()) > mostElements {
		return nil, tooMuch{fmt.Errorf("wanted at most %d MiB and %d elements, got more", mostVerdict>>20, mostElements)}
	}
	return b.Bytes(), nil
}

// atLeast is a number of bytes that the figures and scores of a case have in JSON in any case. What has more than any
// verdict is not encoded: that takes several times as much memory.
func (c *Case) atLeast() (n int) {
	const (
		level  = len(`{"concurrency": 1, "complete": true, "metrics": {}}`)
		metric = len("\n        \"\": 1,")
		score  = len(`{"run": 1, "task": "", "filter": "", "metric": "", "value": 1}`)
	)
	for _, l := range c.Levels {
		n += level
		for name := range l.Metrics {
			n += metric + len(name)
		}
	}
	for _, s := range c.Accuracy {
		n += score + len(s.Task) + len(s.Filter) + len(s.Metric) + len(s.Text)
	}
	return n
}

// unwritable is the verdict on a case whose figures its folder cannot hold, as JSON holds no NaN and no reader takes
// more than it should: they end no run. For any other error it is nil.
func unwritable(err error) *verdict.Verdict {
	if _, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
		return noFigures("the verdict has a figure that is no finite number: " + err.Error())
	}
	if _, ok := errors.AsType[tooMuch](err); ok {
		return noFigures("the verdict is left out, as it is too long: " + err.Error())
	}
	return nil
}
