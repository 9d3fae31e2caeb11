package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/internal/regular"
)

const attacker = 65533

// flip exchanges, until the process is killed, what has a name that another user is about to write, or that of a folder
// on the way.
func flip(shared string) int {
	if err := unix.Setresuid(attacker, attacker, attacker); err != nil {
		fmt.Println(err)
		return 1
	}
	victim := filepath.Join(filepath.Dir(shared), "victim")
	plant := map[string]func(path string) error{
		"file":   func(path string) error { return unix.Mknod(path, unix.S_IFREG|0o666, 0) },
		"folder": func(path string) error { return os.Mkdir(path, 0o777) },
		"pipe":   func(path string) error { return unix.Mkfifo(path, 0o666) },
		"device": func(path string) error { return os.Symlink("/dev/null", path) },
		"link":   func(path string) error { return os.Symlink(filepath.Join(victim, "file"), path) },
		"way":    func(path string) error { return os.Symlink(victim, path) },
	}
	for round := 0; ; round++ {
		for name, kinds := range map[string][]string{
			"x": {"file", "device", "link", "pipe"}, "d": {"folder", "way"}, "w": {"folder", "way"},
		} {
			for _, kind := range kinds {
				path := filepath.Join(shared, name+kind)
				plant[kind](path)
				unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, filepath.Join(shared, name), unix.RENAME_EXCHANGE)
			}
		}
		if round%100 == 0 { // what was written has taken the places of some
			for _, name := range []string{"xfile", "xdevice", "xlink", "xpipe", "dfolder", "dway", "wfolder", "wway"} {
				os.RemoveAll(filepath.Join(shared, name))
			}
			fmt.Print(".")
		}
	}
}

// Another user who changes names while they are looked at does not lead a file of this user astray.
func TestTimedAttack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	defer func(before func(*os.File) error) { flush = before }(flush)
	flush = func(*os.File) error { return nil }
	dir := t.TempDir()
	shared, victim := filepath.Join(dir, "shared"), filepath.Join(dir, "victim")
	for _, err := range []error{
		os.Chmod(filepath.Dir(dir), 0o711), os.Mkdir(shared, 0o777), os.Chmod(shared, 0o777), os.Mkdir(victim, 0o700),
		os.WriteFile(filepath.Join(victim, "file"), []byte("mine"), 0o600),
		os.WriteFile(filepath.Join(shared, "x"), nil, 0o666), os.Chown(filepath.Join(shared, "x"), attacker, attacker),
		os.Mkdir(filepath.Join(shared, "d"), 0o777), os.Mkdir(filepath.Join(shared, "w"), 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := childCommand(t, "flip", shared)
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	rounds := make(chan bool)
	go func() {
		for range 20 { // of a hundred rounds each
			if n, err := said.Read(make([]byte, 1)); n != 1 {
				t.Error("the attack has ended: ", err)
				break
			}
		}
		close(rounds)
	}()
	fill := text("stolen")
	refused := map[string]int{}
	writes := 0
	for attacked := false; !attacked || writes < 500; writes++ {
		select {
		case <-rounds:
			attacked = true
		default:
		}
		_, errDir := WriteDir(t.Context(), filepath.Join(shared, "w", "file"), Discard, func(d *Dir) error { return d.Write("file", 0o600, fill) })
		for _, err := range []error{Write(filepath.Join(shared, "x"), 0o600, fill), Write(filepath.Join(shared, "d", "file"), 0o600, fill), errDir} {
			if err != nil {
				if fault.KindOf(err) != fault.Output {
					t.Error(err)
				}
				_, why, _ := strings.Cut(err.Error(), shared)
				refused[why]++
			}
		}
		if f, err := regular.OpenOwn(filepath.Join(shared, "x"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
			f.WriteString("stolen")
			f.Close()
		}
		data, err := os.ReadFile(filepath.Join(victim, "file"))
		if err != nil || string(data) != "mine" {
			t.Fatalf("the victim holds %q, %v", data, err)
		}
	}
	if entries, err := os.ReadDir(victim); err != nil || len(entries) != 1 {
		t.Errorf("beside the victim lies something: %v, %v", entries, err)
	}
	t.Log(writes, refused)
}

// sticky tries to replace files of root as another user, and says what it hears.
func sticky(folder string) int {
	if err := unix.Setresuid(attacker, attacker, attacker); err != nil {
		fmt.Println(err)
		return 1
	}
	own := filepath.Join(folder, "own")
	fmt.Println(Write(own, 0o600, text("mine")), CanWrite(own), CanWrite(filepath.Join(folder, "root")))
	return 0
}

// What the kernel will not let be replaced is refused before anything is measured.
func TestStickyFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	dir := t.TempDir()
	folder := filepath.Join(dir, "sticky")
	for _, err := range []error{
		os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o711), os.Mkdir(folder, 0o777), os.Chmod(folder, 0o777|os.ModeSticky),
		os.WriteFile(filepath.Join(folder, "root"), nil, 0o666),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	said, err := childCommand(t, "sticky", folder).Output()
	want := "<nil> <nil> it belongs to another user (0), and in " + folder + ", a sticky folder, only owners replace their files\n"
	if err != nil || string(said) != want {
		t.Errorf("got %s, %v, want %s", said, err, want)
	}
	if err := CanWrite(filepath.Join(folder, "own")); err != nil {
		t.Errorf("root: %v", err) // may replace all
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	if said, err := childCommand(t, "sticky", folder).Output(); err != nil || string(said) != "<nil> <nil> <nil>\n" {
		t.Errorf("without the sticky bit: %s, %v", said, err)
	}
}

// A folder that another user has given the temporary name is not what was made, and stays.
func TestRemoveOnlyWhatWasMade(t *testing.T) {
	root := t.TempDir()
	keep := filepath.Join(root, "keep")
	if err := os.Mkdir(keep, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(keep, "thesis"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, old := range []Old{Refuse, Discard, SetAside} {
		var temp string
		_, err := WriteDir(t.Context(), filepath.Join(root, "d"), old, func(d *Dir) error {
			temp = filepath.Join(root, d.temp)
			if err := os.Rename(temp, filepath.Join(root, fmt.Sprint("moved", old))); err != nil {
				return err
			}
			if err := os.Rename(keep, temp); err != nil {
				return err
			}
			return errors.New("no")
		})
		if err == nil {
			t.Fatal("no error")
		}
		if err := os.Rename(temp, keep); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(keep, "thesis")); err != nil {
			t.Errorf("%v: %v", old, err)
		}
	}
}
