package run

import (
	"errors"
	"path/filepath"
	"testing"

	"perigee/internal/fault"
	"perigee/internal/result"
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
