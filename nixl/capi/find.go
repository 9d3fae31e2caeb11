package capi

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/fault"
)

// libraryName is the file name of NIXL's C interface.
const libraryName = "libnixl_capi.so"

const installHint = "install it with `pip install nixl-cu12` (no GPU needed), " +
	"or name the file with --nixl-lib or NIXL_LIBRARY"

// Find returns the file to Load. The first of these places that has the library wins:
//
//  1. explicit, if not empty: the file, or a folder that has it
//  2. NIXL_LIBRARY, if set: the same
//  3. where the dynamic loader looks: LD_LIBRARY_PATH, ld.so.cache
//  4. the active virtual environments VIRTUAL_ENV and CONDA_PREFIX
//  5. the user's and the system's site-packages and dist-packages
//  6. /usr/local/nixl and /opt/nvidia/nvda_nixl, where NIXL's own installation puts it
//
// A folder of site-packages has it where the wheels nixl-cu12 and nixl-cu13 keep it. Among
// several wheels in one place the newest wins. tried lists where Find has looked, for messages.
//
// Loading a library runs code. The first two places are the user's own words; in the others a library that someone
// else could have put there, or could replace, is passed over (see untrusted).
func Find(explicit string) (path string, tried []string, err error) {
	s := search{getenv: os.Getenv, loader: loaderPath}
	return s.find(explicit)
}

// search is Find with its surroundings as values.
type search struct {
	root   string // in front of absolute system folders, for tests
	getenv func(string) string
	loader func(name string) string // where the loader finds a name, or ""
}

func (s search) find(explicit string) (path string, tried []string, err error) {
	for _, named := range []struct{ by, path string }{{"--nixl-lib", explicit},
		{"NIXL_LIBRARY", s.getenv("NIXL_LIBRARY")}} {
		if named.path == "" {
			continue
		}
		tried = append(tried, fmt.Sprintf("%s (%s)", named.path, named.by))
		if found := named.path; isFile(found) {
			return found, tried, nil
		}
		if found := newest(inFolder(named.path)); found != "" {
			return found, tried, nil
		}
		return "", tried, fault.New(fault.Engine, "%s: %s is neither %s nor a folder that has it", named.by,
			named.path, libraryName).
			WithHint(installHint)
	}
	// The loader is not asked about a library that it must not load: to ask is to load.
	if found, reason := s.loaderDanger(); reason != nil {
		tried = append(tried, passedOver(found, reason))
	} else {
		tried = append(tried, "the loader's path")
		if found := s.loader(libraryName); found != "" {
			return found, tried, nil
		}
	}
	for _, place := range s.places() {
		tried = append(tried, place.name)
		var found []string
		for _, pattern := range place.patterns {
			dirs, _ := filepath.Glob(pattern) // only a malformed pattern is an error
			for _, dir := range dirs {
				for _, path := range inFolder(dir) {
					if reason := untrusted(path); reason != nil {
						tried = append(tried, passedOver(path, reason))
						continue
					}
					found = append(found, path)
				}
			}
		}
		if path := newest(found); path != "" {
			return path, tried, nil
		}
	}
	return "", tried, fault.New(fault.Engine, "no %s found; looked in %s", libraryName, strings.Join(tried, ", ")).
		WithHint(installHint)
}

func passedOver(path string, reason error) string {
	return fmt.Sprintf("%s (passed over: %v; if you trust it, name it with --nixl-lib)", path, reason)
}

// loaderDanger finds the first library of LD_LIBRARY_PATH, if it is not to be trusted. An
// empty or relative part of that variable means the current folder.
func (s search) loaderDanger() (path string, reason error) {
	folders := s.getenv("LD_LIBRARY_PATH")
	if folders == "" {
		return "", nil
	}
	for dir := range strings.SplitSeq(strings.ReplaceAll(folders, ";", ":"), ":") {
		if path := filepath.Join(cmp.Or(dir, "."), libraryName); isFile(path) {
			return path, untrusted(path)
		}
	}
	return "", nil
}

// place is a group of folders among which the newest library wins.
type place struct {
	name     string
	patterns []string
}

func (s search) places() []place {
	var list []place
	python := func(name string, roots ...string) {
		p := place{name: name}
		for _, root := range roots {
			for _, lib := range []string{"lib", "lib64"} {
				for _, packages := range []string{"site-packages", "dist-packages"} {
					p.patterns = append(p.patterns, filepath.Join(root, lib, "python3*", packages))
				}
			}
		}
		list = append(list, p)
	}
	for _, env := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := s.getenv(env); root != "" {
			python(fmt.Sprintf("%s (%s)", root, env), root)
		}
	}
	home := s.getenv("HOME")
	if user := cmp.Or(s.getenv("PYTHONUSERBASE"), filepath.Join(home, ".local")); filepath.IsAbs(user) {
		python(user, user)
	}
	python("the system's Python packages", s.root+"/usr/local", s.root+"/usr")
	for _, root := range []string{"/usr/local/nixl", "/opt/nvidia/nvda_nixl"} {
		list = append(list, place{name: root, patterns: []string{
			filepath.Join(s.root+root, "lib"), filepath.Join(s.root+root, "lib64"), filepath.Join(s.root+root, "lib",
				"*-linux-gnu"),
		}})
	}
	return list
}

// inFolder lists the libraries of a folder: directly in it, or in the wheels that are installed there.
func inFolder(dir string) []string {
	var found []string
	for _, pattern := range []string{libraryName, ".nixl_cu1[0-9].mesonpy.libs/" + libraryName,
		".nixl*.mesonpy.libs/" + libraryName} {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, p := range paths {
			if isFile(p) && !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	return found
}

// isFile reports whether a path leads to a regular file.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// newest returns the path with the highest version, the first of equals, or "".
func newest(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return slices.MaxFunc(paths, func(a, b string) int { return compareVersions(versionOf(a), versionOf(b)) })
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
	wheel, ok := strings.CutSuffix(strings.TrimPrefix(filepath.Base(dir), "."), ".mesonpy.libs")
	if !ok {
		return unknownVersion
	}
	infos, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), wheel+"-*.dist-info"))
	best := unknownVersion
	for _, info := range infos {
		version := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(info), ".dist-info"), wheel+"-")
		if best == unknownVersion || compareVersions(version, best) > 0 {
			best = version
		}
	}
	return best
}

// compareVersions compares dotted numbers; a part that is no number counts less than any, and so
// does a missing one. An unknown version is the lowest of all.
func compareVersions(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if c := cmp.Compare(number(x), number(y)); c != 0 {
			return c
		}
	}
	return 0
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
