//go:build cgo

package capi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/fault"
)

// UCX's own settings are read from two folders. Those of others are refused before the library is loaded.
func TestSettingsOfOthers(t *testing.T) {
	home, here := t.TempDir(), t.TempDir()
	t.Chdir(here)
	if err := checkSettings(home); err != nil {
		t.Errorf("without settings: %v", err)
	}
	for _, dir := range []string{home, here} {
		path := filepath.Join(dir, "ucx.conf")
		if err := os.WriteFile(path, []byte("UCX_TLS=tcp\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkSettings(home); err != nil {
			t.Errorf("own settings in %s: %v", dir, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		err := checkSettings(home)
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
			if err := checkSettings(home); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
				t.Errorf("settings of another user in %s: %v", dir, err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
