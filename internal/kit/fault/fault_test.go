package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The manual lists every exit code with its kind, and no other.
func TestManualListsExitCodes(t *testing.T) {
	data, err := os.ReadFile("../../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	list, kinds := string(data), 0
	for code := 1; code < 256; code++ {
		name := Kind(code).String()
		if name == fmt.Sprint("kind ", code) {
			continue
		}
		kinds++
		if item := fmt.Sprintf("\n- %d (%s): ", code, name); !strings.Contains(list, item) {
			t.Errorf("the list of exit codes lacks %q", item)
		}
	}
	if items := strings.Count(list, "\n- "); kinds < 10 || items != kinds+1 { // and 0
		t.Errorf("%d items for %d kinds", items, kinds)
	}
}

// However an error is wrapped, its causes, its kind and its hint are found.
func TestWrapping(t *testing.T) {
	inner := New(Resource, "no memory").WithHint("buy some")
	for name, c := range map[string]struct {
		err  error
		text string
		kind Kind
	}{
		"wrapped":            {Wrap(inner, "prepare %s", "ring"), "prepare ring: no memory", Resource},
		"with another kind":  {New(Usage, "--size: %w", inner), "--size: no memory", Usage},
		"one cause":          {New(Engine, "rank 1: %w", inner), "rank 1: no memory", Engine},
		"two causes":         {New(Launch, "%w; %w", fs.ErrNotExist, inner), "file does not exist; no memory", Launch},
		"joined":             {errors.Join(fs.ErrClosed, inner), "file already closed\nno memory", Resource},
		"through plain ones": {fmt.Errorf("a: %w", fmt.Errorf("b: %w", inner)), "a: b: no memory", Resource},
	} {
		if c.err.Error() != c.text || KindOf(c.err) != c.kind || HintOf(c.err) != "buy some" || !errors.Is(c.err, inner) {
			t.Errorf("%s: %v of kind %v, hint %q", name, c.err, KindOf(c.err), HintOf(c.err))
		}
	}
	if err := New(Launch, "%w; %w", fs.ErrNotExist, inner); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v has lost its first cause", err)
	}
	if err := Wrap(fs.ErrExist, "x"); KindOf(err) != Internal || HintOf(err) != "" || err.Error() != "x: file already exists" {
		t.Errorf("got %v", err)
	}
	if err := Wrap(inner, "x").WithHint("steal some"); HintOf(err) != "steal some" || HintOf(nil) != "" {
		t.Errorf("hint %q", HintOf(err))
	}
}

// A file for which no descriptor is left is not to blame for that, whatever its error would advise.
func TestNoDescriptorLeft(t *testing.T) {
	for _, c := range []struct {
		kind, want Kind
		cause      error
		hint       string
	}{
		{Input, Resource, unix.EMFILE, "raise the limit on open files: ulimit -n 1024"},
		{Output, Resource, unix.ENFILE, "raise the system's limit on open files: sysctl fs.file-max"},
		{Output, Output, unix.ENOSPC, "name another file"},
		{Launch, Launch, unix.EMFILE, "name another file"},
	} {
		inner := fmt.Errorf("folder .: %w", &fs.PathError{Op: "open", Path: "x", Err: c.cause})
		err := Wrap(New(c.kind, "cannot use it: %w", inner).WithHint("name another file"), "--result")
		if err.Kind != c.want || HintOf(err) != c.hint || !errors.Is(err, c.cause) {
			t.Errorf("%v and %v: kind %v, hint %q", c.kind, c.cause, err.Kind, HintOf(err))
		}
	}
}
