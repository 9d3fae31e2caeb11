package file

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// childVariable makes the test binary a process that can be limited or killed.
const childVariable = "FILE_TEST_CHILD"

func TestMain(m *testing.M) {
	if task := os.Getenv(childVariable); task != "" {
		os.Exit(child(task, os.Getenv("FILE_TEST_PATH")))
	}
	os.Exit(m.Run())
}

// child does one task on path. It exits with 0 only if the task went as the
// tests want it to.
func child(task, path string) int {
	switch task {
	case "limit file", "limit folder":
		signal.Ignore(unix.SIGXFSZ) // so that writing fails instead of killing
		limit := unix.Rlimit{Cur: 8192, Max: 8192}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			fmt.Println(err)
			return 3
		}
		err := writeMuch(path, task == "limit folder", nil)
		fmt.Println(err)
		if !errors.Is(err, unix.EFBIG) {
			return 4
		}
	case "hang file", "hang folder":
		fmt.Println(writeMuch(path, task == "hang folder", func() {
			fmt.Println("half")
			io.Copy(io.Discard, os.Stdin) // until killed
		}))
		return 5
	}
	return 0
}

// writeMuch writes 1 MB as a file or as the second file of a folder, and calls
// half, if it is not nil, in the midst of it.
func writeMuch(path string, folder bool, half func()) error {
	fill := func(w io.Writer) error {
		for n := range 100 {
			if n == 50 && half != nil {
				half()
			}
			if _, err := w.Write(bytes.Repeat([]byte("new "), 2500)); err != nil {
				return err
			}
		}
		return nil
	}
	if !folder {
		return Write(path, fill)
	}
	_, err := WriteDir(context.Background(), path, Discard, func(d *Dir) error {
		if err := d.Write("a", 0o644, text("small")); err != nil {
			return err
		}
		return d.Write("b", 0o644, fill)
	})
	return err
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// tree lists what lies under root: names of folders with a slash, files with
// their text.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case e.IsDir():
			found[name+"/"] = ""
		case e.Type()&fs.ModeSymlink != 0:
			found[name], err = os.Readlink(path)
		default:
			var b []byte
			b, err = os.ReadFile(path)
			found[name] = string(b)
		}
		return err
	})
	must.Do(t, err)
	return found
}

func wantTree(t *testing.T, root string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// plant makes files under root from their names and texts; a name with a slash
// at its end is an empty folder.
func plant(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		folder := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			folder = path
		}
		must.Do(t, os.MkdirAll(folder, 0o755))
		if folder == path {
			continue
		}
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

func TestWrite(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "f")
	for _, s := range []string{"first", "second, longer", ""} {
		must.Do(t, Write(path, text(s)))
		wantTree(t, root, map[string]string{"f": s})
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&^0o666 != 0 {
		t.Errorf("permissions %v, %v; wanted no more than 0666", info.Mode(), err)
	}
}

func TestWriteFollowsLinks(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{"d/target": "old"})
	must.Do(t, os.Symlink("d/target", filepath.Join(root, "link")))
	must.Do(t, Write(filepath.Join(root, "link"), text("new")))
	wantTree(t, root, map[string]string{"d/": "", "d/target": "new", "link": "d/target"})
}

// What comes to a new file's place while it is written stays, and the file takes the next place.
func TestWriteClaimed(t *testing.T) {
	root := t.TempDir()
	places, n := []string{"file", "folder", "free"}, 0
	claim := func(taken bool) (string, bool) {
		if taken {
			n++
		}
		return filepath.Join(root, places[n]), true
	}
	put, err := WriteClaimed(t.Context(), claim, func(w io.Writer) error {
		plant(t, root, map[string]string{"file": "theirs", "folder/": ""})
		return text("mine")(w)
	})
	must.Do(t, err)
	wantTree(t, root, map[string]string{"file": "theirs", "folder/": "", "free": "mine"})
	if info, err := os.Stat(filepath.Join(root, "free")); err != nil || !os.SameFile(info, put) {
		t.Errorf("%v: it put another file there than it says", err)
	}
}

// Where a file goes to another folder in the end, it is that folder whose new entry is flushed.
func TestFolderOfAnotherPlaceIsFlushed(t *testing.T) {
	defer func(before func(*os.File) error) { flush = before }(flush)
	var flushed []string
	flush = func(f *os.File) error {
		if info, err := f.Stat(); err == nil && info.IsDir() {
			flushed = append(flushed, f.Name())
		}
		return f.Sync()
	}
	root := t.TempDir()
	plant(t, root, map[string]string{"one/": "", "two/": ""})
	for name, paths := range map[string][]string{"one": {"one/f"}, "two": {"one/f", "two/f"}} {
		flushed = nil
		claim := func(bool) (string, bool) {
			path := filepath.Join(root, paths[0])
			paths = paths[min(1, len(paths)-1):]
			return path, false
		}
		if _, err := WriteClaimed(t.Context(), claim, text("mine")); err != nil {
			t.Fatal(err)
		}
		if want := []string{filepath.Join(root, name)}; !slices.Equal(flushed, want) {
			t.Errorf("flushed %v, want %v", flushed, want)
		}
	}
	wantTree(t, root, map[string]string{"one/": "", "one/f": "mine", "two/": "", "two/f": "mine"})
}

// A new file replaces nothing.
func TestPlaceOfNewFile(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{"temp": "mine", "file": "theirs"})
	temp := opened(t, filepath.Join(root, "temp"), os.O_WRONLY)
	if err := place(temp, filepath.Join(root, "file"), true); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	if err := place(temp, filepath.Join(root, "free"), true); err != nil {
		t.Error(err)
	}
	wantTree(t, root, map[string]string{"temp": "mine", "file": "theirs", "free": "mine"})
}

func TestWriteToDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, unix.Mkfifo(path, 0o600))
	got := make(chan string, 1)
	go func() {
		b, _ := os.ReadFile(path)
		got <- string(b)
	}()
	must.Do(t, Write(path, text("through")))
	if s := <-got; s != "through" {
		t.Errorf("the reader of the pipe got %q", s)
	}
	err := Write("/dev/full", text("x"))
	if !errors.Is(err, unix.ENOSPC) || fault.KindOf(err) != fault.Output {
		t.Errorf("a full device: got %v of kind %v", err, fault.KindOf(err))
	}
}

func TestWriteErrors(t *testing.T) {
	root := t.TempDir()
	before := map[string]string{"f": "old", "d/": "", "d/x": "old", "loop": "loop"}
	plant(t, root, map[string]string{"f": "old", "d/x": "old"})
	must.Do(t, os.Symlink("loop", filepath.Join(root, "loop")))
	mine := fault.New(fault.Input, "bad cell")
	tests := []struct {
		name, path string
		fill       func(io.Writer) error
		kind       fault.Kind
		says       string
	}{
		{"fill fails", "f", func(w io.Writer) error { text("half")(w); return errors.New("no more") }, fault.Output, "f: no more"},
		{"fill fails with a fault", "f", func(io.Writer) error { return mine }, fault.Input, "bad cell"},
		{"folder", "d", text("x"), fault.Output, "d: it is a folder"},
		{"no parent", "none/f", text("x"), fault.Output, "none/f: no such file or directory"},
		{"file as parent", "f/f", text("x"), fault.Output, "f/f: "},
		{"loop of links", "loop", text("x"), fault.Output, "loop: too many symbolic links"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Write(filepath.Join(root, tt.path), tt.fill)
			must.Fail(t, err, tt.kind, tt.says)
			if err != nil && strings.Contains(err.Error(), TempMark) {
				t.Errorf("the message shows a temporary name: %v", err)
			}
			wantTree(t, root, before)
		})
	}
}

func TestPanicLeavesNothing(t *testing.T) {
	root := t.TempDir()
	run := func(write func()) {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		write()
	}
	run(func() { Write(filepath.Join(root, "f"), func(io.Writer) error { panic("f") }) })
	run(func() { WriteDir(t.Context(), filepath.Join(root, "d"), Refuse, func(*Dir) error { panic("d") }) })
	wantTree(t, root, map[string]string{})
}

func TestWriteDir(t *testing.T) {
	old := map[string]string{"d/a": "old", "d/gone": "old", "d/sub/x": "old"}
	written := map[string]string{"d/": "", "d/a": "new", "d/b": "new"}
	kept := map[string]string{"d.old/": "", "d.old/a": "old", "d.old/gone": "old", "d.old/sub/": "", "d.old/sub/x": "old"}
	tests := []struct {
		name   string
		before map[string]string
		policy Old
		want   []map[string]string
		aside  string
	}{
		{"absent", nil, Refuse, []map[string]string{written}, ""},
		{"empty", map[string]string{"d/": ""}, Refuse, []map[string]string{written}, ""},
		{"discard", old, Discard, []map[string]string{written}, ""},
		{"set aside", old, SetAside, []map[string]string{written, kept}, "d.old"},
		{"set aside of nothing", nil, SetAside, []map[string]string{written}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			plant(t, root, tt.before)
			aside, err := WriteDir(t.Context(), filepath.Join(root, "d"), tt.policy, fillNew)
			must.Do(t, err)
			if aside != "" {
				aside, _ = filepath.Rel(root, aside)
			}
			if aside != tt.aside {
				t.Errorf("aside %q, wanted %q", aside, tt.aside)
			}
			want := map[string]string{}
			for _, m := range tt.want {
				for k, v := range m {
					want[k] = v
				}
			}
			wantTree(t, root, want)
		})
	}
}

func fillNew(d *Dir) error {
	return errors.Join(d.Write("a", 0o644, text("new")), d.Write("b", 0o644, text("new")))
}

// A folder that is given up, at whatever moment, leaves nothing.
func TestWriteDirGivenUp(t *testing.T) {
	root := t.TempDir()
	for files := range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := WriteDir(ctx, filepath.Join(root, "d"), Refuse, func(d *Dir) error {
			for i := range 3 {
				if i == files {
					cancel(errors.New("enough"))
				}
				err := d.Write(fmt.Sprint(i), 0o644, text("new"))
				if (err != nil) != (i >= files) {
					t.Errorf("given up at file %d, file %d: %v", files, i, err)
				}
			}
			return nil // the end of ctx counts, whatever fill returns
		})
		must.Fail(t, err, fault.Interrupt, "enough")
		wantTree(t, root, map[string]string{})
	}
}

func TestWriteDirMakesParents(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "p/q/d")
	if _, err := WriteDir(t.Context(), path, Refuse, func(*Dir) error { return errors.New("no") }); err == nil {
		t.Error("the error of fill was lost")
	}
	wantTree(t, root, map[string]string{"p/": "", "p/q/": ""})
	if _, err := WriteDir(t.Context(), path+"/", Refuse, fillNew); err != nil {
		t.Fatal(err)
	}
	wantTree(t, root, map[string]string{"p/": "", "p/q/": "", "p/q/d/": "", "p/q/d/a": "new", "p/q/d/b": "new"})
}

func TestWriteDirFollowsLinks(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{"far/d/x": "old"})
	must.Do(t, os.Symlink("far/d", filepath.Join(root, "link")))
	if _, err := WriteDir(t.Context(), filepath.Join(root, "link"), Discard, fillNew); err != nil {
		t.Fatal(err)
	}
	wantTree(t, root, map[string]string{"far/": "", "far/d/": "", "far/d/a": "new", "far/d/b": "new", "link": "far/d"})
}

func TestSetAsideTakesAFreeName(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{"d/x": "third", "d.old/x": "first", "d.old2": "a file"})
	aside, err := WriteDir(t.Context(), filepath.Join(root, "d"), SetAside, fillNew)
	if err != nil || filepath.Base(aside) != "d.old3" {
		t.Fatalf("set aside as %q, %v; wanted d.old3", aside, err)
	}
	wantTree(t, root, map[string]string{
		"d/": "", "d/a": "new", "d/b": "new",
		"d.old/": "", "d.old/x": "first", "d.old2": "a file", "d.old3/": "", "d.old3/x": "third",
	})
}

func TestWriteDirErrors(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{"d/x": "old", "e/x": "old", "f": "old"})
	before := tree(t, root)
	t.Chdir(filepath.Join(root, "d"))
	tests := []struct {
		name, path string
		policy     Old
		fill       func(*Dir) error
		says       string
	}{
		{"not empty", "../e", Refuse, fillNew, "e: the folder is not empty"},
		{"file in the way", "../f", Discard, fillNew, "there is a file of that name"},
		{"file as parent", "../f/d", Discard, fillNew, "not a directory"},
		{"where we stand", ".", Discard, fillNew, "the current folder"},
		{"above where we stand", root, Discard, fillNew, "the current folder or one above"},
		{"fill fails", "../new", Refuse, func(d *Dir) error { return errors.Join(fillNew(d), errors.New("no more")) }, "no more"},
		{"same file twice", "../new", Refuse, func(d *Dir) error { return errors.Join(fillNew(d), d.Write("a", 0o644, text(""))) }, "file exists"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := WriteDir(t.Context(), tt.path, tt.policy, tt.fill)
			must.Fail(t, err, fault.Output, tt.says)
			wantTree(t, root, before)
		})
	}
}

// TestFileSizeLimit makes the system refuse bytes in the middle of a file. It
// needs no rights, so it runs everywhere; TestFullDisk is its like on a real
// full disk.
func TestFileSizeLimit(t *testing.T) {
	for _, what := range []string{"file", "folder"} {
		t.Run(what, func(t *testing.T) {
			root := t.TempDir()
			before, path := plantOld(t, root, what)
			out, err := childCommand(t, "limit "+what, path).CombinedOutput()
			if err != nil {
				t.Errorf("the limited process: %v: %s", err, out)
			}
			wantTree(t, root, before)
		})
	}
}

// plantOld puts an old file or folder named x under root.
func plantOld(t *testing.T, root, what string) (before map[string]string, path string) {
	t.Helper()
	if what == "file" {
		plant(t, root, map[string]string{"x": "old"})
	} else {
		plant(t, root, map[string]string{"x/a": "old"})
	}
	return tree(t, root), filepath.Join(root, "x")
}

func childCommand(t *testing.T, task, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+task, "FILE_TEST_PATH="+path)
	return cmd
}

func TestFullDisk(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("none", root, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("mounting a small disk needs the capability CAP_SYS_ADMIN (%v); TestFileSizeLimit has tried the same without it", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, 0); err != nil {
			t.Error(err)
		}
	})
	for _, what := range []string{"file", "folder"} {
		before, path := plantOld(t, root, what)
		for range 3 { // what is left behind would fill the disk
			err := writeMuch(path, what == "folder", nil)
			if !errors.Is(err, unix.ENOSPC) || fault.KindOf(err) != fault.Output {
				t.Errorf("%s: got %v of kind %v, wanted no space left", what, err, fault.KindOf(err))
			}
			wantTree(t, root, before)
		}
		must.Do(t, os.RemoveAll(path))
	}
}

func TestKill(t *testing.T) {
	for _, what := range []string{"file", "folder"} {
		t.Run(what, func(t *testing.T) {
			root := t.TempDir()
			before, path := plantOld(t, root, what)
			cmd := childCommand(t, "hang "+what, path)
			stdin, err := cmd.StdinPipe()
			must.Do(t, err)
			defer stdin.Close()
			stdout, err := cmd.StdoutPipe()
			must.Do(t, err)
			must.Do(t, cmd.Start())
			line, _ := bufio.NewReader(stdout).ReadString('\n')
			cmd.Process.Signal(syscall.SIGKILL)
			cmd.Wait()
			if line != "half\n" {
				t.Fatalf("the process said %q before it was killed", line)
			}
			after, left := map[string]string{}, 0
			for name, text := range tree(t, root) {
				if strings.Contains(name, TempMark) {
					left++
					continue
				}
				after[name] = text
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("after a kill (-before +after):\n%s", diff)
			}
			if (left == 0) != (what == "file") {
				t.Errorf("%d temporary names are left of an unfinished %s", left, what)
			}
		})
	}
}
