package file

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// inherited is a path of an open file, as a parent passes one on.
func inherited(t *testing.T, f *os.File) string {
	t.Helper()
	fd, err := unix.Dup(int(f.Fd()))
	must.Do(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fmt.Sprint("/proc/self/fd/", fd)
}

func opened(t *testing.T, path string, flag int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flag, 0o600)
	must.Do(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// What the shell has redirected is written to where it stands: a log keeps what is in it, and a file stays the one that
// is open.
func TestOpenFilesAreWrittenToAsTheyStand(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{"log": "earlier ", "file": "earlier ", "gone": ""})
	file := opened(t, root+"/file", os.O_WRONLY|os.O_TRUNC)
	if _, err := file.WriteString("header "); err != nil {
		t.Fatal(err)
	}
	gone := opened(t, root+"/gone", os.O_RDWR)
	must.Do(t, os.Remove(root+"/gone"))
	link := filepath.Join(root, "link")
	must.Do(t, os.Symlink(inherited(t, file), link))
	for _, path := range []string{inherited(t, opened(t, root+"/log", os.O_WRONLY|os.O_APPEND)), link, inherited(t, gone)} {
		if err := CanWrite(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if err := Write(path, text("new")); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := file.WriteString(" footer"); err != nil {
		t.Fatal(err)
	}
	if at, err := os.Readlink(link); err != nil {
		t.Errorf("%s: %v", at, err)
	} else {
		wantTree(t, root, map[string]string{"log": "earlier new", "file": "header new footer", "link": at})
	}
	if data, err := io.ReadAll(io.NewSectionReader(gone, 0, 100)); err != nil || string(data) != "new" {
		t.Errorf("a file without a name: %q, %v", data, err)
	}
}

// Pipes and sockets have no path but such a link.
func TestPipesAndSocketsWithoutPath(t *testing.T) {
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must.Do(t, err)
	ends := [2]*os.File{os.NewFile(uintptr(pair[0]), "reader"), os.NewFile(uintptr(pair[1]), "writer")}
	defer ends[0].Close()
	for _, c := range []struct{ w, r *os.File }{{w, r}, {ends[1], ends[0]}} {
		path := inherited(t, c.w)
		if err := CanWrite(path); err != nil {
			t.Errorf("%s: %v", c.w.Name(), err)
		}
		if err := Write(path, text("all")); err != nil {
			t.Fatalf("%s: %v", c.w.Name(), err)
		}
		c.w.Close()
		data := make([]byte, 10)
		if n, err := c.r.Read(data); err != nil || string(data[:n]) != "all" {
			t.Errorf("%s: %q, %v", c.w.Name(), data[:n], err)
		}
	}
}

// What is open for reading only, or not at all, is refused before anything is computed.
func TestOpenForReadingOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must.Do(t, os.WriteFile(path, []byte("input"), 0o600))
	for path, want := range map[string]string{
		inherited(t, opened(t, path, os.O_RDONLY)): "open for reading only", "/proc/self/fd/999": "no such file",
	} {
		if err := CanWrite(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		must.Fail(t, Write(path, text("new")), fault.Output, want)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "input" {
		t.Errorf("%q, %v", data, err)
	}
}

// The file that another process has open is appended to.
func TestOpenFilesOfOthers(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{"log": "earlier "})
	log := filepath.Join(root, "log")
	cmd := exec.Command("sleep", "60")
	cmd.Stdout = opened(t, log, os.O_WRONLY|os.O_APPEND)
	must.Do(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if err := Write(fmt.Sprintf("/proc/%d/fd/1", cmd.Process.Pid), text("new")); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(log); err != nil || string(data) != "earlier new" {
		t.Errorf("got %q, %v", data, err)
	}
}
