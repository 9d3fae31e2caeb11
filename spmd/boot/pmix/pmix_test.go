//go:build cgo

package pmix

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// Worlds over PMIx are tested under srun and mpirun, in e2e/launchers.
func TestUnusableLibraries(t *testing.T) {
	for path, want := range map[string]string{
		"libperigee-no-such.so.2": "libperigee-no-such.so.2",
		"/dev/null":               "/dev/null",
		"libc.so.6":               "it has no function PMIx_Init",
	} {
		_, err := Open(t.Context(), path)
		if e, ok := errors.AsType[*LoadError](err); !ok || e.Path != path || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		if err := Check(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("check of %s: %v", path, err)
		}
	}
}

// A call of the library that does not come back is given up.
func TestWaitsEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, errors.New("enough"))
	defer cancel()
	c := &Client{ctx}
	release := make(chan struct{})
	if err := c.call(func() error { <-release; return nil }); err == nil || err.Error() != "enough" {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := c.call(func() error { t.Error("called"); return nil }); err == nil {
		t.Error("a call after the end went well")
	}
}
