package run

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/cli"
	"perigee/internal/experiment"
	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/spmd"
)

// What a script may do to files is not taken from a result.
func TestRepeatAsksForIO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	d := result.New([]string{}, result.Scenario{}, 0, result.World{Size: 1})
	text := script{"x.lua", "return { run = print }"}
	d.Scenario = result.Scenario{Name: text.Name, Source: text.Source, SHA256: text.digest()}
	d.Job = &result.Job{Engine: "auto", AllowIO: true}
	if err := d.Write(path); err != nil {
		t.Fatal(err)
	}
	_, err := Job{Repeats: path}.read()
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Usage || f.Hint == "" {
		t.Errorf("got %v", err)
	}
	o, err := Job{Repeats: path, Flags: Flags{AllowIO: true}}.read()
	if err != nil || !o.Flags.AllowIO {
		t.Errorf("allowed: %v, %+v", err, o.Flags)
	}
}

// The name of a scenario that is repeated is a stranger's, and the first that is printed.
func TestHeaderOfAStranger(t *testing.T) {
	worlds, _ := spmd.NewInMemory(1)
	defer worlds[0].Close()
	var out bytes.Buffer
	k := &rank{world: worlds[0], streams: cli.Streams{Out: &out}, exp: &experiment.Experiment{Doc: &result.Document{Notes: []string{"x\x1b[2J\ny"}}}}
	k.header(script{Name: "a\x1b]0;b\a\n# note: forged\u202e.lua"})
	if got := out.String(); strings.ContainsAny(got, "\x1b\a\u202e") || strings.Count(got, "\n") != 2 || !strings.Contains(got, `a\x1b]0;b\a\n# note: forged\u202e, 1 rank`) {
		t.Errorf("got %q", got)
	}
}
