package result_test

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"perigee/internal/result"
)

// The bound grows with the files, goes when they are done with, and is never above the user's own.
func TestFrugal(t *testing.T) {
	const mine = 1 << 40
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(mine))
	path := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	restore := result.Frugal(path, path, path+"x")
	if got := debug.SetMemoryLimit(-1); got != 384<<20 {
		t.Errorf("%d bytes", got)
	}
	restore()
	if got := debug.SetMemoryLimit(-1); got != mine {
		t.Errorf("%d bytes afterwards", got)
	}
	debug.SetMemoryLimit(64 << 20)
	defer result.Frugal(path)()
	if got := debug.SetMemoryLimit(-1); got != 64<<20 {
		t.Errorf("%d bytes where the user has said 64 MiB", got)
	}
}
