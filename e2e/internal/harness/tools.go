package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Engines are those on which every transfer is tested.
var Engines = []string{"shm", "nixl"}

// ForEngines runs a test on each engine.
func ForEngines(t *testing.T, f func(t *testing.T, engine string)) {
	for _, e := range Engines {
		t.Run(e, func(t *testing.T) {
			if e == "nixl" {
				NeedNIXL(t)
			}
			f(t, e)
		})
	}
}

// NeedNIXL returns NIXL's library. It fails a test that cannot do its work.
func NeedNIXL(t testing.TB) string {
	t.Helper()
	lib := os.Getenv("NIXL_LIBRARY")
	if lib == "" {
		t.Fatal("this test moves bytes with NIXL, and NIXL_LIBRARY is not set.\n" +
			"Run `make test`, which installs the library and sets it, or:\n" +
			"  python3 -m venv .venv && .venv/bin/pip install nixl-cu12\n" +
			"  export NIXL_LIBRARY=$(ls -d $PWD/.venv/lib/python3*/site-packages/.nixl_cu12.mesonpy.libs/libnixl_capi.so)")
	}
	return lib
}

// Need fails a test that lacks commands of a Debian package.
func Need(t testing.TB, pkg string, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if _, err := exec.LookPath(c); err != nil {
			t.Fatalf("this test needs %s: %v\nRun `make test`, which installs it, or: apt-get install %s", c, err, pkg)
		}
	}
}

// Files writes files, name -> contents, into a fresh directory.
func Files(t testing.TB, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Names lists a directory.
func Names(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// Script is the path of a file in the test package's testdata.
func Script(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Hostname is the name of this machine.
func Hostname(t testing.TB) string {
	t.Helper()
	h, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Contains fails the test if a text lacks one of those wanted.
func Contains(t testing.TB, where, text string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("%s lacks %q:\n%s", where, w, text)
		}
	}
}

// Signal sends a signal to a process, or to a group if pid is negative.
func Signal(t testing.TB, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// WaitFor waits for something that is not a process of a test.
func WaitFor(what string, ready func() bool) error {
	for deadline := time.Now().Add(Patience); !ready(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not come", what)
		}
	}
	return nil
}

// Mount puts a file system, tmpfs or ramfs, over a folder while the test lasts. It needs
// the capability CAP_SYS_ADMIN.
func Mount(t testing.TB, kind, dir, options string) {
	t.Helper()
	mount(t, kind, dir, options)
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}

func mount(t testing.TB, kind, dir, options string) {
	t.Helper()
	if err := syscall.Mount(kind, dir, kind, 0, options); err != nil {
		t.Fatalf("this test needs the capability CAP_SYS_ADMIN, to mount a file system (docker run --cap-add SYS_ADMIN): mount %s: %v", dir, err)
	}
}

// Fill puts a small file system over a folder and fills it: a new file gets a
// name there, but no contents. It needs what Mount needs.
func Fill(t testing.TB, dir string) {
	t.Helper()
	Mount(t, "tmpfs", dir, "size=64k")
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 64<<10), 0o644); err != nil {
		t.Fatal(err)
	}
}
