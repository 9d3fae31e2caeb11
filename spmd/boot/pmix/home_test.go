package pmix

import (
	"os"
	"path/filepath"
	"testing"
)

// PMIx runs what is in a home: only one in which no other user has put anything, and can, is shown to it.
func TestHomesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	const stranger = 65533
	for name, c := range map[string]struct {
		change func(home string) error
		safe   bool
	}{
		"own":                {func(string) error { return nil }, true},
		"another user's":     {func(home string) error { return os.Chown(home, stranger, stranger) }, false},
		"open to all":        {func(home string) error { return os.Chmod(home, 0o777) }, false},
		"sticky":             {func(home string) error { return os.Chmod(home, 0o777|os.ModeSticky) }, false},
		"settings of others": {func(home string) error { return os.Lchown(home+"/.pmix/mca-params.conf", stranger, stranger) }, false},
		"components of others": {func(home string) error {
			return os.Chown(home+"/.pmix/components/pmix_mca_gds_x.so", stranger, stranger)
		}, false},
		"components open to all": {func(home string) error { return os.Chmod(home+"/.pmix/components", 0o777) }, false},
		"no settings":            {func(home string) error { return os.RemoveAll(home + "/.pmix") }, true},
	} {
		home := t.TempDir()
		components := filepath.Join(home, ".pmix", "components")
		if err := os.MkdirAll(components, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{home + "/.pmix/mca-params.conf", components + "/pmix_mca_gds_x.so"} {
			if err := os.WriteFile(file, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.change(home); err != nil {
			t.Fatal(err)
		}
		if got := safeHome(home); got != c.safe {
			t.Errorf("%s: safe is %v", name, got)
		}
	}
	if safeHome(filepath.Join(t.TempDir(), "none")) {
		t.Error("a home that is not there is safe")
	}
}
