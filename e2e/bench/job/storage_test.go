package job

import (
	"os"
	"path/filepath"
	"testing"

	"perigee/internal/kit/must"
	"perigee/nixl/nixltest"
)

// What fio reports of a small file is understood.
func TestFio(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must.Do(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	apis := nixltest.FileAPIs(t)
	for _, op := range []string{"read", "write"} {
		for _, api := range apis {
			for _, depth := range []int{1, 4} {
				got, err := fio(path, load{block: 4096, batch: 256, depth: depth}, api, op)
				if err != nil || got < 1e4 || got > 1e12 {
					t.Errorf("%s %s, depth %d: %v bytes per second, %v", api, op, depth, got, err)
				}
			}
		}
	}
	for _, text := range []string{"", "{}", `{"jobs":[{}]}`, `{"jobs":[{"read":{"bw_bytes":0}}]}`, `{"jobs":[{"read":{"bw_bytes":1}}]}`} {
		if _, err := bandwidth([]byte(text), load{depth: 1}, "read"); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
