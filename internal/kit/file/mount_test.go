package file

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// A file that is mounted alone, as containers get one, is refused before anything is made for it.
func TestFileThatIsAMount(t *testing.T) {
	dir := t.TempDir()
	path, outside, link := filepath.Join(dir, "r.json"), filepath.Join(dir, "outside.json"), filepath.Join(dir, "link.json")
	for _, name := range []string{path, outside} {
		must.Do(t, os.WriteFile(name, []byte("old"), 0o600))
	}
	must.Do(t, os.Symlink("r.json", link))
	if err := unix.Mount(outside, path, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mounting a file needs the capability CAP_SYS_ADMIN: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, 0); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{path, link} {
		filled := false
		err := Write(name, func(w io.Writer) error { filled = true; return nil })
		if filled || fault.KindOf(err) != fault.Output || !strings.Contains(err.Error(), "mount its folder") {
			t.Errorf("%s: %v, filled %v", name, err, filled)
		}
		if err := CanWrite(name); err == nil || !strings.Contains(err.Error(), "mount its folder") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CanWrite(outside); err != nil {
		t.Error(err)
	}
}
