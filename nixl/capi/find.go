package capi

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
)

// libraryName is the file name of NIXL's C interface.
const libraryName = "libnixl_capi.so"

const installHint = "install it with `pip install nixl-cu12` (no GPU needed), " +
	"or name the file with --nixl-lib or NIXL_LIBRARY"

// ErrNone is the cause of Find's error where no place has a library and the user has named none.
var ErrNone = errors.New("no " + libraryName + " found")

// Find returns the file to Load. The first of these places that has the library wins:
//
//  1. explicit, if not empty: the file, or a folder that has it
//  2. NIXL_LIBRARY, if set: the same
//  3. where the dynamic loader looks: LD_LIBRARY_PATH, ld.so.cache
//  4. the active virtual environments VIRTUAL_ENV and CONDA_PREFIX
//  5. the user's and the system's site-packages and dist-packages
//  6. /usr/local/nixl and /opt/nvidia/nvda_nixl, where NIXL's own installation puts it
//
// A folder of site-packages has it where the wheels nixl-cu12 and nixl-cu13 keep it. Among several wheels in one place
// the newest wins. Symbolic links are resolved, because the library finds its neighbours by $ORIGIN.
func Find(explicit string) (string, error) {
	s := search{getenv: os.Getenv, loader: loaderPath}
	path, err := s.find(explicit)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path, nil
}

// search is Find with its surroundings as values.
type search struct {
	root   string // in front of absolute system folders, for tests
	getenv func(string) string
	loader func(name string) (path string, err error) // see loaderPath
}

func (s search) find(explicit string) (string, error) {
	if explicit != "" {
		return named("--nixl-lib", explicit)
	}
	if path := s.getenv("NIXL_LIBRARY"); path != "" {
		return named("NIXL_LIBRARY", path)
	}
	// The loader would not resolve a symbolic link, and would pass over a library that does not load without a word.
	if folders := s.getenv("LD_LIBRARY_PATH"); folders != "" {
		for dir := range strings.SplitSeq(strings.ReplaceAll(folders, ";", ":"), ":") {
			if path := filepath.Join(cmp.Or(dir, "."), libraryName); isFile(path) {
				return path, nil
			}
		}
	}
	path, broken := s.loader(libraryName)
	if path != "" {
		return path, nil
	}
	looked := []string{"the loader's path"}
	for _, place := range s.places() {
		looked = append(looked, place.name)
		if path := newest(place.folders...); path != "" {
			return path, nil
		}
	}
	if broken != nil {
		return "", fault.New(fault.Engine, "the system's NIXL does not load: %w", broken).WithHint(installHint)
	}
	return "", fault.New(fault.Engine, "%w; looked in %s", ErrNone, strings.Join(looked, ", ")).WithHint(installHint)
}

// named finds the library at a path that the user has given by an option or a variable.
func named(by, path string) (string, error) {
	if isFile(path) {
		return path, nil
	}
	if found := newest(path); found != "" {
		return found, nil
	}
	err := fault.New(fault.Engine, "%s: %s is neither %s nor a folder that has it", by, path, libraryName)
	if _, denied := os.Stat(path); errors.Is(denied, fs.ErrPermission) {
		err = fault.New(fault.Engine, "%s: %w", by, denied)
	}
	return "", err.WithHint(installHint)
}

// place is a group of folders among which the newest library wins.
type place struct {
	name    string
	folders []string // patterns
}

// pythonPackages leads from a root to the folders in which Python's packages are installed.
const pythonPackages = "/lib*/python3*/*-packages"

func (s search) places() []place {
	var list []place
	add := func(name string, folders ...string) { list = append(list, place{name, folders}) }
	for _, env := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := s.getenv(env); root != "" {
			add(fmt.Sprintf("%s (%s)", root, env), root+pythonPackages)
		}
	}
	home := s.getenv("HOME")
	if user := cmp.Or(s.getenv("PYTHONUSERBASE"), filepath.Join(home, ".local")); filepath.IsAbs(user) {
		add(user, user+pythonPackages)
	}
	add("the system's Python packages", s.root+"/usr/local"+pythonPackages, s.root+"/usr"+pythonPackages)
	for _, root := range []string{"/usr/local/nixl", "/opt/nvidia/nvda_nixl"} {
		add(root, s.root+root+"/lib*", s.root+root+"/lib/*-linux-gnu")
	}
	return list
}

// isFile reports whether a path leads to a regular file.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// newest returns the library with the highest version in folders, directly in them or in the wheels that are installed
// there: the first of equals, "" for none. A folder may be a pattern of several.
func newest(folders ...string) string {
	var found []string
	for _, folder := range folders {
		for _, name := range []string{libraryName, ".nixl*.mesonpy.libs/" + libraryName} {
			paths, _ := filepath.Glob(filepath.Join(folder, name)) // only a malformed pattern is an error
			found = append(found, paths...)
		}
	}
	found = slices.DeleteFunc(found, func(path string) bool { return !isFile(path) })
	if len(found) == 0 {
		return ""
	}
	return slices.MaxFunc(found, func(a, b string) int { return compareVersions(versionOf(a), versionOf(b)) })
}

// unknownVersion is the version of a library that does not stand beside a wheel's description.
const unknownVersion = "unknown"

// versionOf reads the version of a library from the name of its wheel's dist-info folder: the library
// in .nixl_cu12.mesonpy.libs belongs to nixl_cu12-1.5.1.dist-info.
func versionOf(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	dir := filepath.Dir(path)
	versions := []string{unknownVersion}
	if wheel, ok := strings.CutSuffix(strings.TrimPrefix(filepath.Base(dir), "."), ".mesonpy.libs"); ok {
		infos, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), wheel+"-*.dist-info"))
		for _, info := range infos {
			version := strings.TrimPrefix(filepath.Base(info), wheel+"-")
			versions = append(versions, strings.TrimSuffix(version, ".dist-info"))
		}
	}
	return slices.MaxFunc(versions, compareVersions)
}

// compareVersions compares dotted numbers. A part that is no number counts less than any, and so does a missing one.
// An unknown version is the lowest of all.
func compareVersions(a, b string) int {
	number := func(part string) int {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return -1
		}
		return int(n)
	}
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		return cmp.Compare(number(x), number(y))
	})
}

// Plugin is one of the library's.
type Plugin struct {
	Name    string
	Files   bool     // it reaches storage
	Objects bool     // which are objects
	keys    []string // of its parameters, as far as it lists them
}
