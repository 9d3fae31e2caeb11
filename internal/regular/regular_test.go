package regular

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("12345"), 0o600), syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(file, 5); err != nil || string(data) != "12345" {
		t.Errorf("got %q, %v", data, err)
	}
	for path, want := range map[string]error{pipe: ErrNotRegular, link: ErrNotRegular, "/dev/zero": ErrNotRegular, "/proc/self/status": ErrNotRegular, "/sys/kernel/mm/transparent_hugepage/enabled": ErrNotRegular, dir: syscall.EISDIR, filepath.Join(dir, "no"): os.ErrNotExist} {
		if _, err := Read(path, 5); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if _, err := Read(file, 4); err == nil || !strings.Contains(err.Error(), "it is larger than 4 bytes") {
		t.Errorf("got %v", err)
	}
}

// What a file system of the kernel's own holds only looks like a file, and what lies in memory is one.
func TestFileSystemsOfTheKernel(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]bool{
		"proc": true, "sysfs": true, "cgroup2": true, "configfs": true, "pstore": true, "efivarfs": true, "fusectl": true,
		"binfmt_misc": true, "bpf": true, "tracefs": true, "debugfs": true, "securityfs": true, "mqueue": true,
		"selinuxfs": true, "resctrl": true, "rpc_pipefs": true, "nfsd": true, "tmpfs": false, "ramfs": false, "hugetlbfs": false,
	} {
		if err := unix.Mount(name, dir, name, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			t.Logf("%s: %v", name, err) // not a part of this kernel, or this process may not mount it
			continue
		}
		f, err := os.Open(dir)
		must(t, err)
		if got := OfKernel(f); got != want {
			t.Errorf("%s: of the kernel %v", name, got)
		}
		must(t, f.Close(), unix.Unmount(dir, 0))
	}
	for _, path := range []string{"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/cpu/tasks"} {
		if _, err := Read(path, 1<<20); !errors.Is(err, ErrNotRegular) && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
