package capi

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestSweep leaves alone what is older than the job, too new, in use, or of another kind.
func TestSweep(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	started := now.Add(-time.Minute)
	file := func(name string, made time.Time) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		if err == nil {
			err = os.Chtimes(f.Name(), made, made)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	then := now.Add(-10 * time.Second)
	file("ucx_shm_posix_left", then).Close()
	file("ucx_shm_posix_older", started.Add(-time.Second)).Close()
	file("ucx_shm_posix_new", now).Close()
	file("sem.other", then).Close()
	file("ucx_shm_posix_open", then)
	mapped := file("ucx_shm_posix_mapped", then)
	memory, err := syscall.Mmap(int(mapped.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(memory)
	mapped.Close()
	file("target", then).Close()
	if err := os.Symlink("target", filepath.Join(dir, "ucx_shm_posix_link")); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		f := file("ucx_shm_posix_foreign", then)
		f.Close()
		if err := os.Chown(f.Name(), 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	removed, young, err := sweep(dir, "/proc", started, now)
	if want := []string{filepath.Join(dir, "ucx_shm_posix_left")}; err != nil || !young || !slices.Equal(removed,
		want) {
		t.Errorf("removed %v, %v; want %v", removed, err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "ucx_shm_posix_left")); err == nil {
		t.Error("it is still there")
	}
	if removed, young, err := sweep(filepath.Join(dir, "none"), "/proc", started, now); err != nil || young ||
		removed != nil {
		t.Errorf("no folder: %v, %v", removed, err)
	}
}
