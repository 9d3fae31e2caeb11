package capi

import (
	"os"
	"path/filepath"

	"perigee/internal/fault"
	"perigee/internal/regular"
)

// untrusted reports who else than root and this user could have put a library, or its plugins, where they are.
func untrusted(path string) error {
	paths := []string{path}
	if plugins := filepath.Join(filepath.Dir(path), "plugins"); exists(plugins) {
		paths = append(paths, plugins)
	}
	for _, p := range paths {
		if err := regular.Guarded(p); err != nil {
			return err
		}
	}
	return nil
}

// checkSettings refuses to go on where UCX would read a ucx.conf that another user could have written: it may name a
// folder of modules, whose code UCX runs. UCX looks into home and into the current folder. What is put there after this
// is not noticed.
func checkSettings(home string) error {
	for _, dir := range []string{home, "."} {
		path := filepath.Join(dir, "ucx.conf")
		if dir == "" || !exists(path) {
			continue
		}
		if err := untrusted(path); err != nil {
			return fault.New(fault.Engine, "UCX would read %s, and run the modules that it names: %w", path, err).
				WithHint("remove it, or take it over (chown, chmod go-w), or start in another folder")
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
