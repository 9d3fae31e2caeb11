package capi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// install puts empty files and folders below a temporary root.
func install(t *testing.T, paths ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, p := range paths {
		path := filepath.Join(root, p)
		dir := filepath.Dir(path)
		if strings.HasSuffix(p, "/") {
			dir = path
		}
		must.Do(t, os.MkdirAll(dir, 0o755))
		if dir == path {
			continue
		}
		must.Do(t, os.WriteFile(path, nil, 0o644))
	}
	return root
}

const (
	cu12 = ".nixl_cu12.mesonpy.libs/libnixl_capi.so"
	cu13 = ".nixl_cu13.mesonpy.libs/libnixl_capi.so"
)

func TestFind(t *testing.T) {
	const (
		venv   = "venv/lib/python3.12/site-packages/"
		conda  = "conda/lib/python3.11/site-packages/"
		dot    = "cwd/.venv/lib/python3.11/site-packages/"
		user   = "home/.local/lib/python3.9/site-packages/"
		local  = "usr/local/lib/python3.11/dist-packages/"
		system = "usr/lib/python3.11/site-packages/"
		built  = "usr/local/nixl/lib/x86_64-linux-gnu/libnixl_capi.so"
	)
	tests := []struct {
		name     string
		files    []string
		env      map[string]string // values below the root
		explicit string            // below the root
		loader   string
		want     string // below the root, or an error's words
	}{
		{name: "explicit wins", files: []string{"x.so", "y.so"}, explicit: "x.so",
			env: map[string]string{"NIXL_LIBRARY": "y.so"}, want: "x.so"},
		{name: "explicit folder", files: []string{"dir/libnixl_capi.so"}, explicit: "dir", want: "dir/libnixl_capi.so"},
		{name: "explicit site-packages", files: []string{"dir/" + cu12}, explicit: "dir", want: "dir/" + cu12},
		{name: "explicit missing", files: []string{venv + cu12}, explicit: "x.so",
			env: map[string]string{"VIRTUAL_ENV": "venv"}, want: "--nixl-lib"},
		{name: "variable before loader", files: []string{"y.so", "z.so"},
			env: map[string]string{"NIXL_LIBRARY": "y.so"}, loader: "z.so", want: "y.so"},
		{name: "variable missing", files: []string{"z.so"}, env: map[string]string{"NIXL_LIBRARY": "y.so"},
			loader: "z.so", want: "NIXL_LIBRARY"},
		{name: "loader before environment", files: []string{"z.so", venv + cu12},
			env: map[string]string{"VIRTUAL_ENV": "venv"}, loader: "z.so", want: "z.so"},
		{name: "virtual environment", files: []string{venv + cu12, conda + cu12},
			env: map[string]string{"VIRTUAL_ENV": "venv", "CONDA_PREFIX": "conda"}, want: venv + cu12},
		{name: "conda", files: []string{conda + cu13, user + cu12}, env: map[string]string{"CONDA_PREFIX": "conda"},
			want: conda + cu13},
		{name: "not ./.venv", files: []string{dot + cu12, user + cu12}, want: user + cu12},
		{name: "user", files: []string{user + cu12, local + cu12}, want: user + cu12},
		{name: "PYTHONUSERBASE", files: []string{"base/lib/python3.9/site-packages/" + cu12, user + cu12},
			env: map[string]string{"PYTHONUSERBASE": "base"}, want: "base/lib/python3.9/site-packages/" + cu12},
		{name: "system", files: []string{local + cu12}, want: local + cu12},
		{name: "built", files: []string{built}, want: built},
		{name: "newest of one place", files: []string{
			local + cu12, local + "nixl_cu12-1.4.9.dist-info/", local + cu13, local + "nixl_cu13-1.10.0.dist-info/",
			system + cu12, system + "nixl_cu12-1.5.1.dist-info/"}, want: local + cu13},
		{name: "cu12 of equals", files: []string{
			local + cu13, local + "nixl_cu13-1.5.1.dist-info/", local + cu12, local + "nixl_cu12-1.5.1.dist-info/",
		}, want: local + cu12},
		{name: "an old one in a better place", files: []string{
			user + cu12, user + "nixl_cu12-1.0.0.dist-info/", local + cu12, local + "nixl_cu12-1.5.1.dist-info/",
		}, want: user + cu12},
		{name: "a folder with the file's name", files: []string{local + cu12 + "/x"}, want: "no libnixl_capi.so found"},
		{name: "LD_LIBRARY_PATH", files: []string{"lib/libnixl_capi.so", "z.so"},
			env: map[string]string{"LD_LIBRARY_PATH": "lib"}, loader: "z.so", want: "lib/libnixl_capi.so"},
		{name: "a folder without it in LD_LIBRARY_PATH", files: []string{"lib/x", "z.so"},
			env: map[string]string{"LD_LIBRARY_PATH": "lib"}, loader: "z.so", want: "z.so"},
		{name: "a broken one of the system", loader: "broken", want: "NIXL does not load: libucs.so.0"},
		{name: "another than the broken one of the system", files: []string{user + cu12}, loader: "broken", want: user + cu12},
		{name: "nothing", want: "no libnixl_capi.so found"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := install(t, append(test.files, "cwd/")...)
			t.Chdir(filepath.Join(root, "cwd"))
			below := func(path string) string {
				if path == "" {
					return ""
				}
				return filepath.Join(root, path)
			}
			s := search{
				root: root,
				getenv: func(name string) string {
					if name == "HOME" {
						return below("home")
					}
					return below(test.env[name])
				},
				loader: func(string) (string, error) {
					if test.loader == "broken" {
						return "", errors.New("libucs.so.0: cannot open shared object file: No such file or directory")
					}
					return below(test.loader), nil
				},
			}
			path, err := s.find(below(test.explicit))
			if err != nil {
				if !strings.Contains(err.Error(), test.want) || fault.KindOf(err) != fault.Engine ||
					!strings.Contains(fault.HintOf(err), "pip install nixl-cu12") {
					t.Errorf("got %v (%s): want %q in it", err, fault.HintOf(err), test.want)
				}
				return
			}
			if !filepath.IsAbs(path) {
				path = filepath.Join(root, "cwd", path)
			}
			if path != below(test.want) {
				t.Errorf("got %s, want %s", path, below(test.want))
			}
		})
	}
}

// What is no regular file is no library: opening a pipe would wait.
func TestFindRefusesDevices(t *testing.T) {
	path := "/dev/zero"
	if found, err := (search{getenv: os.Getenv}).find(path); err == nil || found != "" ||
		!strings.Contains(err.Error(), "neither libnixl_capi.so nor a folder") {
		t.Errorf("%s: %q, %v", path, found, err)
	}
}

// The library of LD_LIBRARY_PATH is found without the loader, an empty part means the current folder, and links are
// resolved.
func TestFindInLibraryPath(t *testing.T) {
	root := install(t, "a/"+cu12, "b/", "c/")
	library, link := filepath.Join(root, "a", cu12), filepath.Join(root, "b", libraryName)
	must.Do(t, os.Symlink(library, link))
	t.Setenv("NIXL_LIBRARY", "")
	t.Chdir(filepath.Join(root, "b"))
	for _, folders := range []string{filepath.Dir(library), "/nowhere:" + filepath.Dir(link), filepath.Join(root, "c") + ";/nowhere;;"} {
		t.Setenv("LD_LIBRARY_PATH", folders)
		if got, err := Find(""); err != nil || got != library {
			t.Errorf("LD_LIBRARY_PATH=%s: got %s, %v; want %s", folders, got, err, library)
		}
	}
}

func TestVersionOf(t *testing.T) {
	root := install(t, "a/"+cu12, "a/nixl_cu12-1.5.1.dist-info/", "a/nixl_cu12-1.10.0.dist-info/",
		"a/nixl_cu13-9.dist-info/", "b/"+cu12, "c/libnixl_capi.so")
	for path, want := range map[string]string{"a/" + cu12: "1.10.0", "b/" + cu12: "unknown",
		"c/libnixl_capi.so": "unknown"} {
		if got := versionOf(filepath.Join(root, path)); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	ascending := []string{"unknown", "0.9", "1", "1.0", "1.4.9", "1.5.1", "1.5.10", "1.10", "2"}
	for i, a := range ascending {
		for j, b := range ascending {
			if got, want := compareVersions(a, b), sign(i-j); got != want {
				t.Errorf("compareVersions(%s, %s) = %d, want %d", a, b, got, want)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if compareVersions(a, b) != -compareVersions(b, a) || compareVersions(a, a) != 0 {
			t.Errorf("no order between %q and %q", a, b)
		}
	})
}

func sign(n int) int { return min(max(n, -1), 1) }
