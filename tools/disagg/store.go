package disagg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/judge"
	"perigee/tools/disagg/report"
)

// store puts the verdict and the result of a task into its folder, which has another name then if the case has failed.
// A folder that does not take them, as a job may remove its own or make it read-only, fails this case alone: they go
// into a folder apart, and if there can be none, the verdict is in the ledger and the reports only.
func (r *session) store(t *batch.Task, o *outcome) error {
	err := r.storeFiles(t, o)
	if err != nil && !o.apart && !r.ends(err) {
		o.Reasons = append(o.Reasons, cli.Shortened("its folder does not take the verdict: "+err.Error()))
		o.State, o.kept, o.apart = judge.Failed, false, true
		err = r.storeFiles(t, o)
	}
	switch {
	case err == nil:
		return r.rename(t, o)
	case r.ends(err):
		return err
	}
	o.unkept, o.Dir = true, t.Dir
	fmt.Fprintf(r.log, "warning: %s: its verdict is kept in no folder: %v\n", t.Name, err)
	return nil
}

// storeFiles writes the files that store keeps.
func (r *session) storeFiles(t *batch.Task, o *outcome) error {
	if o.apart {
		o.Dir = t.Dir + batch.FailedSuffix
		if err := errors.Join(free(o.Dir), os.MkdirAll(o.Dir, 0o777)); err != nil {
			return fault.New(fault.Output, "%w", err)
		}
	}
	if !o.kept {
		r.measured(o)
		if err := o.Write(o.Dir); err != nil {
			return err
		}
	}
	if t.Tree == nil { // there is no configuration to keep
		return nil
	}
	return report.WriteResult(filepath.Join(o.Dir, resultFile), &o.Case, t.Tree)
}

// rename gives the folder of a case that has failed the name that says so.
func (r *session) rename(t *batch.Task, o *outcome) error {
	if o.State != judge.Failed || o.Dir != t.Dir {
		return nil
	}
	to := t.Dir + batch.FailedSuffix
	err := free(to)
	if err == nil {
		err = os.Rename(t.Dir, to)
	}
	switch {
	case err == nil:
		o.Dir = to
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
	for _, dir := range []string{r.dir, filepath.Join(r.dir, judge.LogsFolder)} {
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
