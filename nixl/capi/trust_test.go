//go:build cgo

package capi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/nixl"
)

// UCX's own settings are read from two folders. Those of others are refused before the library is loaded.
func TestSettingsOfOthers(t *testing.T) {
	home, here := t.TempDir(), t.TempDir()
	t.Chdir(here)
	if err := checkSettings(home, ""); err != nil {
		t.Errorf("without settings: %v", err)
	}
	for _, dir := range []string{home, here} {
		path := filepath.Join(dir, "ucx.conf")
		if err := os.WriteFile(path, []byte("UCX_TLS=tcp\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkSettings(home, ""); err != nil && dir == home {
			t.Errorf("own settings in %s: %v", dir, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		err := checkSettings(home, "")
		if fault.KindOf(err) != fault.Engine || !strings.Contains(err.Error(), "ucx.conf can be written by its group or by others") {
			t.Errorf("settings in %s that all may write: %v", dir, err)
		}
		if _, err := Load(filepath.Join(here, "none.so")); dir == here && (err == nil || !strings.Contains(err.Error(), "UCX would read")) {
			t.Errorf("the library is loaded all the same: %v", err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(path, 65534, 65534); err != nil {
				t.Fatal(err)
			}
			if err := checkSettings(home, ""); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
				t.Errorf("settings of another user in %s: %v", dir, err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Settings in the current folder may have come with it from a stranger, who owns no file any more: they are for those
// who name them.
func TestSettingsInTheCurrentFolder(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	if err := os.WriteFile("ucx.conf", []byte("UCX_MODULE_DIR=modules\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{"", t.TempDir(), "missing"} {
		wantFault(t, checkSettings(home, ""), fault.Engine, "ucx.conf in the current folder")
		wantFault(t, checkSettings(home, t.TempDir()), fault.Engine, "ucx.conf in the current folder")
		for _, named := range []string{".", here} {
			if err := checkSettings(home, named); err != nil {
				t.Errorf("home %q, UCX_CONFIG_DIR=%s: %v", home, named, err)
			}
		}
	}
	if err := checkSettings(here, ""); err != nil {
		t.Errorf("at home: %v", err)
	}
}

// UCX_CONFIG_DIR is looked at as well, and NIXL's own settings.
func TestOtherSettings(t *testing.T) {
	home, named := t.TempDir(), t.TempDir()
	t.Chdir(t.TempDir())
	if err := checkSettings(home, named); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".nixl.cfg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(home, ".nixl.cfg"), 0o666); err != nil {
		t.Fatal(err)
	}
	wantFault(t, checkSettings(home, named), fault.Engine, ".nixl.cfg can be written by its group or by others")
	if err := os.Chmod(named, 0o1777); err != nil {
		t.Fatal(err)
	}
	wantFault(t, checkSettings(t.TempDir(), named), fault.Engine, "UCX_CONFIG_DIR", named)
}

// A home that may not be entered is told from one without settings.
func TestSettingsOutOfReach(t *testing.T) {
	home := t.TempDir()
	if err := settingsOutOfReach(home); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(home, 0o600); err != nil {
		t.Fatal(err)
	}
	// Root may enter any folder, but not as another user.
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with this goroutine
		if os.Getuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				done <- err
				return
			}
		}
		done <- settingsOutOfReach(home)
	}()
	if err := <-done; !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

// reader is a library that puts settings where UCX would find them, as another user might between the check and the
// loading, and then looks for them, both when it is loaded and when a backend is made: in the current folder if which
// has the bit 1, and at home if it has the bit 2.
func prying(t *testing.T, home, here string, which int) string {
	const source = `#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int read_settings(void) {
	int found = 0;
	char path[4096];
	close(open("%s/ucx.conf", O_WRONLY | O_CREAT, 0644));
	close(open("%s/ucx.conf", O_WRONLY | O_CREAT, 0644));
	if (access("./ucx.conf", F_OK) == 0) found |= 1;
	if (getenv("HOME")) {
		snprintf(path, sizeof path, "%%s/ucx.conf", getenv("HOME"));
		if (access(path, F_OK) == 0) found |= 2;
	}
	unlink("%s/ucx.conf");
	unlink("%s/ucx.conf");
	return found & %d;
}
static int when_loaded;
__attribute__((constructor)) static void load(void) { when_loaded = read_settings(); }
int nixl_capi_create_configured_agent(const char *n, void *c, void **a) { *a = "agent"; return 0; }
int nixl_capi_create_backend() { return when_loaded || read_settings() ? -2 : 0; }
`
	return imitation(t, "prying", map[string]string{
		"nixl_capi_create_configured_agent": fmt.Sprintf(source, here, home, here, home, which),
		"nixl_capi_create_backend":          " ",
	})
}

// What comes into the home or into the current folder after the check is not read, if others could have put it there.
// The process stays where it is, and keeps its home.
func TestSettingsThatComeLater(t *testing.T) {
	source, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	const sticky = os.ModeSticky | 0o777
	for name, c := range map[string]struct {
		home, here os.FileMode
		which      int
		read       bool
	}{
		"own folders":           {0o700, 0o700, 3, true},
		"home of all":           {0o777, 0o700, 2, false},
		"home in a sticky one":  {sticky, 0o700, 2, false},
		"here in a sticky one":  {0o700, sticky, 1, false},
		"current folder of all": {0o700, 0o777, 1, false},
		"both of all":           {sticky, 0o777, 3, false},
	} {
		home, here := t.TempDir(), t.TempDir()
		if err := errors.Join(os.Chmod(home, c.home), os.Chmod(here, c.here)); err != nil {
			t.Fatal(err)
		}
		t.Chdir(source)
		library := prying(t, home, here, c.which)
		t.Setenv("HOME", home)
		t.Chdir(here)
		if library, err = filepath.Rel(here, library); err != nil {
			t.Fatal(err)
		}
		e, err := Load(library)
		if err != nil {
			t.Fatal(err)
		}
		a, err := e.NewAgent(nixl.AgentConfig{Name: "a", OneHost: true})
		if read := err != nil; read != c.read {
			t.Errorf("%s: settings are read: %v, want %v", name, read, c.read)
		}
		if err == nil {
			a.Close()
		}
		if wd, err := os.Getwd(); err != nil || wd != here {
			t.Errorf("%s: in %s afterwards, %v", name, wd, err)
		}
		if got := variable("HOME"); got != home {
			t.Errorf("%s: the library's HOME is %q afterwards, want %q", name, got, home)
		}
	}
}

// Where a thread cannot have a current folder to itself, the process leaves its own for a moment.
func TestInRoot(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	var there string
	if err := inRoot(func() { there, _ = os.Readlink("/proc/self/cwd") }); err != nil || there != "/" {
		t.Errorf("in %s, %v; want /", there, err)
	}
	if back, err := os.Readlink("/proc/self/cwd"); err != nil || back != here {
		t.Errorf("then in %s, %v; want %s", back, err, here)
	}
}
