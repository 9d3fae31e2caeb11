package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"perigee/internal/kit/must"
)

// A tree of hundreds of configurations is read as one of a few: T5 of the trials.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	files := make([]Source, 600)
	for i := range files {
		name := fmt.Sprintf("%03d", i)
		file := filepath.Join(dir, name+".yaml")
		if err := os.Link(golden, file); err != nil {
			must.Do(t, os.WriteFile(file, []byte(base(t)), 0o644))
		}
		files[i] = Source{Ident{"disagg", "perf", name}, file}
	}
	all := LoadAll(files, Options{Rules: Strict})
	if len(all) != len(files) {
		t.Fatalf("%d cases of %d files", len(all), len(files))
	}
	for _, c := range all {
		if !c.Valid() {
			t.Fatalf("%s: %s", c.File, problems(c))
		}
	}
}
