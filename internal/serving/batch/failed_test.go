package batch

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

func TestLastFailed(t *testing.T) {
	began := func(tasks string) string {
		return `{"event":"began","tasks":["` + strings.ReplaceAll(tasks, " ", `","`) + `"]}` + "\n"
	}
	event := func(name, task, more string) string {
		return `{"event":"` + name + `","task":"` + task + `"` + more + "}\n"
	}
	recorded := func(task, state string) string { return event("recorded", task, `,"state":"`+state+`"`) }
	for name, c := range map[string]struct{ ledger, want string }{
		"none":        {began("a b") + recorded("a", "passed") + recorded("b", "unjudged"), ""},
		"one":         {began("a b") + event("submitted", "a", "") + recorded("a", "failed") + recorded("b", "passed"), "a"},
		"interrupted": {began("a b c") + recorded("a", "passed") + event("submitted", "b", ""), "b c"},
		"cleaned":     {began("a") + event("submitted", "a", "") + event("cancelled", "a", "") + `{"event":"finished"}` + "\n", "a"},
		"stopped":     {began("a") + event("submitted", "a", "") + recorded("a", "passed") + event("stopping", "a", ""), ""},
		"resumed":     {began("a b") + recorded("a", "failed") + `{"event":"resumed","tasks":["a","b"]}` + "\n" + recorded("b", "passed"), "a"},
		"of others":   {began("a b") + recorded("a", "failed") + recorded("b", "passed") + began("b") + recorded("b", "failed") + began("b") + recorded("b", "passed"), "a"},
		"repeated":    {began("a a#2 b b#2") + recorded("a", "passed") + recorded("a#2", "failed") + recorded("b", "passed") + recorded("b#2", "passed"), "a"},
		"only once":   {began("a a#2") + recorded("a", "passed") + recorded("a#2", "failed") + began("a") + recorded("a", "passed"), ""},
		"older":       {`{"event":"began"}` + "\n" + event("submitted", "a", "") + recorded("b", "failed"), "a b"},
		"cut":         {began("a") + recorded("a", "failed") + `{"event":"beg`, "a"},
	} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "jobs.jsonl"), []byte(c.ledger), 0o600))
		got, err := LastFailed(dir)
		maps.DeleteFunc(got, func(_ string, failed bool) bool { return !failed })
		if ids := strings.Join(slices.Sorted(maps.Keys(got)), " "); err != nil || ids != c.want {
			t.Errorf("%s: %q, %v, want %q", name, ids, err, c.want)
		}
	}
	if _, err := LastFailed(t.TempDir()); err == nil || !strings.Contains(err.Error(), "there was no run in this folder") {
		t.Error(err)
	}
}
