package capi

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTight(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		dir    string
		agents int
		want   string
	}{
		{dir, 1, ""},
		{dir, 1 << 40, "MiB free, and UCX takes 5497558138880 MiB for 1099511627776 agents"},
		{filepath.Join(dir, "missing"), 1, "UCX cannot make files in " + filepath.Join(dir, "missing") + " (no such file or directory)"},
		{"/proc/self/fd", 1, "/proc/self/fd"},
	} {
		if got := tight(c.dir, c.agents); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s, %d agents: %q, want %q", c.dir, c.agents, got, c.want)
		}
	}
}
