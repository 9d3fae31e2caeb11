package capi

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/internal/regular"
)

// untrusted reports who else than root and this user could have put a library where it is, or anything that is loaded
// with it: its plugins, UCX's modules, and what all of them find in the folders that they name themselves (RPATH).
func untrusted(path string) error {
	l := loads{folders: map[string]map[string]bool{}, files: map[string]bool{}}
	l.file(path)
	for _, plugins := range []string{filepath.Join(filepath.Dir(path), "plugins"), os.Getenv("NIXL_PLUGIN_DIR")} {
		if plugins != "" && exists(plugins) {
			if err := l.folder(plugins); err != nil {
				return err
			}
			l.glob(filepath.Join(plugins, "*.so"))
		}
	}
	for len(l.queue) > 0 {
		file := l.queue[0]
		l.queue = l.queue[1:]
		if err := l.guarded(file); err != nil {
			return err
		}
		if idle(file) {
			continue
		}
		if err := l.needs(file); err != nil {
			return err
		}
	}
	for dir := range l.folders {
		if err := settingsBeside(dir); err != nil {
			return err
		}
	}
	return nil
}

// settingsBeside reports who else could have written, or could write, the settings that UCX reads beside a folder of
// libraries, if its own are there: LIBRARIES/../etc/ucx/ucx.conf.
func settingsBeside(libraries string) error {
	real, err := filepath.EvalSymlinks(libraries)
	if err != nil {
		return nil // it is missing, and so is what is beside it
	}
	path := filepath.Join(filepath.Dir(real), "etc", "ucx", ucxSettings)
	if exists(path) {
		return regular.Guarded(path)
	}
	return regular.GuardedFolder(existing(filepath.Dir(path)))
}

// existing is a folder, or the nearest one above it that is there.
func existing(dir string) string {
	for !exists(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}

// loads is what loading a library loads: the folders in which libraries are looked for, and the files that are there.
type loads struct {
	folders map[string]map[string]bool // with the names in them
	files   map[string]bool
	queue   []string // files that have not been looked at
}

// idle reports whether a file is a plugin that perigee asks NIXL for nothing of: it is not loaded.
func idle(file string) bool {
	name, plugin := strings.CutPrefix(filepath.Base(file), "libplugin_")
	return plugin && !slices.Contains([]string{"UCX.so", "POSIX.so", "GDS.so", "GDS_MT.so"}, name)
}

// guarded is regular.Guarded, which is not asked again about the way to a folder.
func (l *loads) guarded(file string) error {
	var st unix.Stat_t
	if l.folders[filepath.Dir(file)] != nil && unix.Lstat(file, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG &&
		(st.Uid == 0 || int(st.Uid) == os.Geteuid()) && !regular.OthersMayWrite(file, st.Mode, st.Gid) {
		return nil
	}
	return regular.Guarded(file)
}

func (l *loads) file(path string) {
	if !l.files[path] {
		l.files[path] = true
		l.queue = append(l.queue, path)
	}
}

func (l *loads) glob(pattern string) {
	found, _ := filepath.Glob(pattern) // a malformed pattern finds nothing, and the loader has none
	for _, path := range found {
		l.file(path)
	}
}

// folder takes a folder in which the loader looks. Where it is missing, others may be able to make it.
func (l *loads) folder(dir string) error {
	if l.folders[dir] != nil {
		return nil
	}
	names := map[string]bool{}
	l.folders[dir] = names
	if err := regular.GuardedFolder(existing(dir)); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		names[e.Name()] = true
	}
	if modules := filepath.Join(dir, "ucx"); names["ucx"] {
		l.glob(filepath.Join(modules, "*.so*"))
		return l.folder(modules)
	}
	return nil
}

// needs takes the folders and libraries that a library names. The loader refuses what is none.
func (l *loads) needs(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	origin, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return err
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		paths, _ := f.DynString(tag) // a library without such a section needs nothing
		for dir := range strings.SplitSeq(strings.Join(paths, ":"), ":") {
			dir = strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(dir)
			switch {
			case dir == "" || strings.Contains(dir, "$"): // the others stand for folders of the system
				continue
			case !filepath.IsAbs(dir):
				return fmt.Errorf("%s looks for libraries in %s, below the current folder", file, dir)
			}
			if err := l.folder(filepath.Clean(dir)); err != nil {
				return err
			}
		}
	}
	names, _ := f.ImportedLibraries()
	for _, name := range names {
		for dir, there := range l.folders {
			if there[name] {
				l.file(filepath.Join(dir, name))
			}
		}
	}
	return nil
}

// UCX reads ucx.conf in the home and in the current folder, and in that of UCX_CONFIG_DIR; it may name a folder of
// modules, whose code UCX runs. NIXL reads .nixl.cfg in the home.
const (
	ucxSettings  = "ucx.conf"
	nixlSettings = ".nixl.cfg"
)

// checkSettings refuses to go on where UCX or NIXL would read settings that another user could have written. Those that
// come later are kept from them by apart. Settings in the current folder may have come with it in an archive of a
// stranger, although this user owns them now: the user has to name them.
func checkSettings(home, named string) error {
	for _, path := range []string{
		filepath.Join(home, ucxSettings), filepath.Join(home, nixlSettings), ucxSettings,
		filepath.Join(named, ucxSettings),
	} {
		if !exists(path) {
			continue
		}
		if err := regular.Guarded(path); err != nil {
			return fault.New(fault.Engine, "NIXL and UCX would read %s, and run what it names: %w", path, err).
				WithHint("remove it, or take it over (chown, chmod go-w), or start in another folder")
		}
	}
	if exists(ucxSettings) && !isHere(home) && !isHere(named) {
		return fault.New(fault.Engine, "UCX would read %s in the current folder, and run what it names, though no variable names it",
			ucxSettings).
			WithHint("UCX_CONFIG_DIR=. has it read; else remove it, or start in another folder")
	}
	if named == "" {
		return nil
	}
	if err := regular.GuardedFolder(named); err != nil {
		return fault.New(fault.Engine, "UCX would read settings in UCX_CONFIG_DIR, where others can put some: %w", err).
			WithHint("take the folder over (chown, chmod go-w), or unset the variable")
	}
	return nil
}

// settingsOutOfReach is the error of a home that this user may not look into: NIXL gives up there, without a word.
func settingsOutOfReach(home string) error {
	if _, err := os.Lstat(filepath.Join(home, nixlSettings)); errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// mayAppear reports whether others could put a file of settings into a folder that it is missing from.
func mayAppear(dir, name string) bool {
	return !exists(filepath.Join(dir, name)) && regular.GuardedFolder(dir) != nil
}

// isHere reports whether a folder is the current one.
func isHere(dir string) bool {
	here, err := os.Stat(".")
	if err != nil || dir == "" {
		return false
	}
	st, err := os.Stat(dir)
	return err == nil && os.SameFile(here, st)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
