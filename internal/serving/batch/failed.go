package batch

import (
	"errors"
	"io/fs"
	"path/filepath"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/lazyre"
	"perigee/internal/serving/judge"
)

// repetition matches what the name of a task has behind the id of its case, from the second one on.
var repetition = lazyre.New(`#[0-9]+$`)

// LastFailed lists the cases of an output folder that failed, or did not finish, in the last run that was about them,
// by their ids: a later run of other cases changes nothing, as in pytest. Of repetitions one is enough.
func LastFailed(output string) (map[string]bool, error) {
	path := filepath.Join(output, ledgerName)
	data, err := file.Read(path, mostLedger)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Input, "%s: there was no run in this folder", output).
			WithHint("--output or OUTPUT_PATH names the one whose cases failed")
	}
	if err != nil {
		return nil, fault.New(fault.Input, "%w", err)
	}
	events, _ := parse(data) // a last line may be cut
	run, runOf, bad := 0, map[string]int{}, map[string]map[string]bool{}
	note := func(task string, isBad bool) {
		id := repetition.ReplaceAllString(task, "")
		if runOf[id] != run || bad[id] == nil {
			runOf[id], bad[id] = run, map[string]bool{}
		}
		bad[id][task] = isBad
	}
	for _, e := range events {
		switch {
		case e.Event == began:
			run++
			for _, task := range e.Tasks {
				note(task, true) // until it is recorded
			}
		case e.Task != "" && e.Event != stopping:
			note(e.Task, e.Event != recorded || e.State == judge.Failed)
		}
	}
	failed := map[string]bool{}
	for id, tasks := range bad {
		for _, isBad := range tasks {
			failed[id] = failed[id] || isBad
		}
	}
	return failed, nil
}
