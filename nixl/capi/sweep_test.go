package capi

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"perigee/internal/kit/must"
)

// TestSweep leaves alone what is older than the job, in use, or of another kind.
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
		must.Do(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	then := now.Add(-10 * time.Second)
	file("ucx_shm_posix_left", then).Close()
	file("ucx_shm_posix_older", started.Add(-time.Second)).Close()
	file("sem.other", then).Close()
	file("ucx_shm_posix_open", then)
	mapped := file("ucx_shm_posix_mapped", then)
	memory, err := syscall.Mmap(int(mapped.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
	must.Do(t, err)
	defer syscall.Munmap(memory)
	mapped.Close()
	file("target", then).Close()
	must.Do(t, os.Symlink("target", filepath.Join(dir, "ucx_shm_posix_link")))
	if os.Geteuid() == 0 {
		f := file("ucx_shm_posix_foreign", then)
		f.Close()
		must.Do(t, os.Chown(f.Name(), 65534, 65534))
	}
	removed := remove(leftOver(filepath.Join(dir, "ucx_shm_posix_*"), started, now))
	if want := []string{filepath.Join(dir, "ucx_shm_posix_left")}; !slices.Equal(removed, want) {
		t.Errorf("removed %v; want %v", removed, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "ucx_shm_posix_left")); err == nil {
		t.Error("it is still there")
	}
	if left := leftOver(filepath.Join(dir, "none", "ucx_shm_posix_*"), started, now); left != nil {
		t.Errorf("no folder: %v", left)
	}
}

// TestSweepOld: files of earlier jobs go, whenever those were; what is young or in use, or is of others, stays.
func TestSweepOld(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	file := func(name string, age time.Duration) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = os.Chtimes(f.Name(), now.Add(-age), now.Add(-age))
		}
		must.Do(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	file("ucx_shm_posix_left", 48*time.Hour).Close()
	file("ucx_shm_posix_young", abandoned-time.Second).Close()
	file("ucx_shm_posix_open", time.Hour)
	file("sem.other", time.Hour).Close()
	if os.Geteuid() == 0 {
		f := file("ucx_shm_posix_foreign", time.Hour)
		must.Do(t, os.Chown(f.Name(), 65534, 65534))
		f.Close()
	}
	removed := remove(leftOver(filepath.Join(dir, "ucx_shm_posix_*"), time.Time{}, now.Add(-abandoned)))
	if want := []string{filepath.Join(dir, "ucx_shm_posix_left")}; !slices.Equal(removed, want) {
		t.Errorf("removed %v; want %v", removed, want)
	}
}
