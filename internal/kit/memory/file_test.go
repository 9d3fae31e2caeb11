package memory

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/must"
)

// create makes a sealed memory file.
func create(t *testing.T, name string, size int64, flags int) int {
	t.Helper()
	fd, err := CreateFile(name, flags)
	must.Do(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must.Do(t, errors.Join(unix.Ftruncate(fd, size), SealFile(fd)))
	return fd
}

func TestOpen(t *testing.T) {
	fd := create(t, "a", 4096, 0)
	var want unix.Stat_t
	must.Do(t, unix.Fstat(fd, &want))
	for _, flag := range []int{os.O_RDONLY, os.O_RDWR} {
		own, got, err := OpenFile(os.Getpid(), fd, "a", flag)
		if err != nil || got.Ino != want.Ino || got.Dev != want.Dev || got.Size != 4096 {
			t.Fatalf("%+v, %v", got, err)
		}
		if _, err := unix.Pwrite(own, []byte("x"), 0); (err == nil) != (flag == os.O_RDWR) {
			t.Errorf("flag %d: write: %v", flag, err)
		}
		if err := errors.Join(unix.Ftruncate(own, 0), unix.Ftruncate(fd, 8192)); err == nil {
			t.Error("its size can change")
		}
		unix.Close(own)
	}
	fd, err := CreateFile("big", HugePages)
	if err != nil {
		t.Skip("no huge pages: ", err)
	}
	defer unix.Close(fd)
	must.Do(t, SealFile(fd))
	own, _, err := OpenFile(os.Getpid(), fd, "big", os.O_RDWR)
	must.Do(t, err)
	unix.Close(own)
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file, err := os.OpenFile(filepath.Join(dir, "memfd:a (deleted)"), os.O_RDWR|os.O_CREATE, 0o600)
	must.Do(t, err)
	defer file.Close()
	unsealed, err := CreateFile("a", 0)
	must.Do(t, err)
	defer unix.Close(unsealed)
	seen, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must.Do(t, err)
	defer unix.Close(seen)
	if _, err := unix.InotifyAddWatch(seen, file.Name(), unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	var pipe [2]int
	must.Do(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	good := create(t, "a", 10, 0)
	for name, c := range map[string]struct {
		pid, fd int
		want    error
	}{
		"file": {os.Getpid(), int(file.Fd()), ErrOtherFile}, "not sealed": {os.Getpid(), unsealed, ErrOtherFile},
		"pipe": {os.Getpid(), pipe[0], ErrOtherFile}, "another name": {os.Getpid(), create(t, "ab", 10, 0), ErrOtherFile},
		"no such file": {os.Getpid(), 1 << 20, unix.ENOENT}, "no such process": {1<<31 - 1, good, unix.ENOENT},
		"negative": {-1, good, unix.ENOENT},
	} {
		if own, _, err := OpenFile(c.pid, c.fd, "a", os.O_RDWR); !errors.Is(err, c.want) || own != -1 {
			t.Errorf("%s: %d, %v, want %v", name, own, err, c.want)
		}
	}
	if n, err := unix.Read(seen, make([]byte, 1024)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("the file was opened, if only to be refused: %d, %v", n, err)
	}
}

// A user finds the files of their other processes, and not those of others.
func TestOpenAsUser(t *testing.T) {
	if task := os.Getenv("MEMFILE_TEST_OPEN"); task != "" {
		must.Do(t, unix.Setresuid(65533, 65533, 65533))
		own := create(t, "a", 10, 0)
		if fd, _, err := OpenFile(os.Getpid(), own, "a", os.O_RDWR); err != nil {
			t.Error(err)
		} else {
			unix.Close(fd)
		}
		var pid, fd int
		fmt.Sscan(task, &pid, &fd)
		if _, _, err := OpenFile(pid, fd, "a", os.O_RDWR); !errors.Is(err, unix.EACCES) {
			t.Errorf("a file of root: %v", err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestOpenAsUser$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("MEMFILE_TEST_OPEN=%d %d", os.Getpid(), create(t, "a", 10, 0)))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
