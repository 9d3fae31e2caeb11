package capi

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/fault"
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
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == path {
			continue
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
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
				loader: func(string) string { return below(test.loader) },
			}
			path, tried, err := s.find(below(test.explicit))
			if len(tried) == 0 {
				t.Error("tried nothing")
			}
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

// What the kernel makes up is no library: reading /proc/kmsg, for one, waits for messages.
func TestFindRefusesFilesOfTheKernel(t *testing.T) {
	for _, path := range []string{"/proc/self/status", "/dev/zero"} {
		if found, _, err := (search{getenv: os.Getenv}).find(path); err == nil || found != "" ||
			!strings.Contains(err.Error(), "neither libnixl_capi.so nor a folder") {
			t.Errorf("%s: %q, %v", path, found, err)
		}
	}
}

// A library that someone else could have put there is not taken, wherever it is, but for one that the user names.
func TestFindPassesOver(t *testing.T) {
	const venv = "venv/lib/python3.12/site-packages/"
	spoil := map[string]func(t *testing.T, root string) error{
		"file for a group":   func(t *testing.T, root string) error { return forGroup(t, filepath.Join(root, venv+cu12), 0o664) },
		"folder for a group": func(t *testing.T, root string) error { return forGroup(t, filepath.Join(root, "venv/lib"), 0o775) },
		"folder for others": func(_ *testing.T, root string) error {
			return os.Chmod(filepath.Join(root, "venv"),
				0o757)
		},
		"plugins for others": func(_ *testing.T, root string) error {
			return os.Chmod(filepath.Join(root, filepath.Dir(venv+cu12), "plugins"), 0o777)
		},
		"a plugin for others": func(_ *testing.T, root string) error {
			plugin := filepath.Join(root, filepath.Dir(venv+cu12), "plugins", "libplugin_UCX.so")
			return errors.Join(os.WriteFile(plugin, nil, 0o600), os.Chmod(plugin, 0o666))
		},
		"what it needs, for others": func(_ *testing.T, root string) error {
			return os.Chmod(filepath.Join(root, venv, "nixl.libs/libneeded.so"), 0o666)
		},
		"the folder of what it needs, sticky for others": func(_ *testing.T, root string) error {
			return os.Chmod(filepath.Join(root, venv, "nixl.libs"), os.ModeSticky|0o777)
		},
		"UCX's modules for others": func(_ *testing.T, root string) error {
			modules := filepath.Join(root, venv, "nixl.libs/ucx")
			return errors.Join(os.Mkdir(modules, 0o700), os.Chmod(modules, 0o777))
		},
		"a module of UCX for others": func(_ *testing.T, root string) error {
			modules := filepath.Join(root, venv, "nixl.libs/ucx")
			module := filepath.Join(modules, "libuct_x.so.0")
			return errors.Join(os.Mkdir(modules, 0o700), os.WriteFile(module, nil, 0o600), os.Chmod(module, 0o666))
		},
		"UCX's settings beside what it needs, for others": func(_ *testing.T, root string) error {
			settings := filepath.Join(root, venv, "etc/ucx/ucx.conf")
			return errors.Join(os.MkdirAll(filepath.Dir(settings), 0o700), os.WriteFile(settings, nil, 0o600), os.Chmod(settings, 0o666))
		},
		"a folder for UCX's settings, for others": func(_ *testing.T, root string) error {
			folder := filepath.Join(root, venv, "etc")
			return errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o777))
		},
		"a folder that others can make": func(_ *testing.T, root string) error {
			site := filepath.Join(root, venv)
			return errors.Join(os.RemoveAll(filepath.Join(site, "nixl.libs")), os.Chmod(site, os.ModeSticky|0o777))
		},
		"another owner": func(t *testing.T, root string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a file away")
			}
			return os.Chown(filepath.Join(root, venv+cu12), 65534, 65534)
		},
		"link through a folder of others": func(_ *testing.T, root string) error {
			if err := os.Rename(filepath.Join(root, "venv"), filepath.Join(root, "real")); err != nil {
				return err
			}
			open := filepath.Join(root, "open")
			if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777),
				os.Symlink(filepath.Join(root, "real"), filepath.Join(open, "v"))); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(open, "v"), filepath.Join(root, "venv"))
		},
	}
	for name, f := range spoil {
		t.Run(name, func(t *testing.T) {
			root := install(t, venv+cu12, filepath.Dir(venv+cu12)+"/plugins/", venv+"nixl.libs/", "cwd/")
			linked(t, filepath.Join(root, venv+cu12), filepath.Join(root, venv, "nixl.libs/libneeded.so"), "$ORIGIN/../nixl.libs")
			library, dir := filepath.Join(root, venv+cu12), filepath.Dir(filepath.Join(root, venv+cu12))
			env := map[string]string{"VIRTUAL_ENV": filepath.Join(root, "venv")}
			asked := 0
			s := search{root: root, getenv: func(name string) string { return env[name] },
				loader: func(string) string { asked++; return "" }}
			if path, tried, err := s.find(""); err != nil || path != library {
				t.Fatalf("before: %s, %v, %v", path, tried, err)
			}
			if err := f(t, root); err != nil {
				t.Fatal(err)
			}
			_, _, err := s.find("")
			wantFault(t, err, fault.Engine, "passed over", "--nixl-lib")
			if path, _, err := s.find(library); err != nil || path != library {
				t.Errorf("named: %s, %v", path, err)
			}
			// The loader is not even asked, for it would load the library to answer.
			env["LD_LIBRARY_PATH"], env["VIRTUAL_ENV"], asked = "/nowhere:"+dir, "", 0
			if _, _, err := s.find(""); err == nil || !strings.Contains(err.Error(), "passed over") || asked != 0 {
				t.Errorf("LD_LIBRARY_PATH: got %v; the loader was asked %d times", err, asked)
			}
			t.Chdir(dir)
			env["LD_LIBRARY_PATH"] = ":/nowhere"
			if _, _, err := s.find(""); err == nil || !strings.Contains(err.Error(), "passed over") || asked != 0 {
				t.Errorf("LD_LIBRARY_PATH with an empty part: got %v; the loader was asked %d times", err, asked)
			}
		})
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

// forGroup lets a group write that is not this user's own.
func forGroup(t *testing.T, path string, mode os.FileMode) error {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	return errors.Join(os.Chown(path, -1, 65534), os.Chmod(path, mode))
}

// linked makes a library that needs another, and names the folder where that is.
func linked(t *testing.T, library, needed, folder string) {
	t.Helper()
	empty := filepath.Join(t.TempDir(), "empty.c")
	if err := os.WriteFile(empty, []byte("int nothing;"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-o", needed}, {"-o", library, "-Wl,--no-as-needed,-rpath," + folder, needed}} {
		args = append([]string{"-shared", "-fPIC", "-Wl,-soname," + filepath.Base(args[1]), empty}, args...)
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
}
