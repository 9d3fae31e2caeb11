package capi

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// TestSweepOld: files of earlier jobs go, whenever those were; what is young or in use, or is of others, stays.
func TestSweepOld(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	file := func(name string, age time.Duration) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = os.Chtimes(f.Name(), now.Add(-age), now.Add(-age))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	file("ucx_shm_posix_left", 48*time.Hour).Close()
	file("ucx_shm_posix_young", abandoned-time.Second).Close()
	file("ucx_shm_posix_open", time.Hour)
	file("sem.other", time.Hour).Close()
	if os.Geteuid() == 0 {
		f := file("ucx_shm_posix_foreign", time.Hour)
		if err := os.Chown(f.Name(), 65534, 65534); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	left, _, err := leftOver(dir, time.Time{}, now, abandoned)
	if err != nil {
		t.Fatal(err)
	}
	removed, err := remove("/proc", left)
	if want := []string{filepath.Join(dir, "ucx_shm_posix_left")}; err != nil || !slices.Equal(removed, want) {
		t.Errorf("removed %v, %v; want %v", removed, err, want)
	}
}

// TestSweepOldNeedsProof: nothing goes where a process of the same user cannot be looked into.
func TestSweepOldNeedsProof(t *testing.T) {
	own := strconv.Itoa(os.Geteuid())
	for _, c := range []struct {
		name, status string
		seen         bool // its descriptors and its memory can be
		removed      bool
	}{
		{"it can be seen", "State:\tS (sleeping)\nUid:\t" + own + "\t1\t1\t1\nThreads:\t3\n", true, true},
		{"private", "State:\tS (sleeping)\nUid:\t" + own + "\t1\t1\t1\nThreads:\t3\n", false, false},
		{"private, with the user's rights", "State:\tS (sleeping)\nUid:\t1\t1\t1\t" + own + "\nThreads:\t3\n", false, false},
		{"of another user", "State:\tS (sleeping)\nUid:\t-7\t-7\t-7\t-7\nThreads:\t3\n", false, true},
		{"it has ended", "State:\tZ (zombie)\nUid:\t" + own + "\t1\t1\t1\nThreads:\t1\n", false, true},
		{"its first thread has ended", "State:\tZ (zombie)\nUid:\t" + own + "\t1\t1\t1\nThreads:\t2\n", true, false},
	} {
		proc, dir := t.TempDir(), t.TempDir()
		p := filepath.Join(proc, "17")
		if err := os.MkdirAll(filepath.Join(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if c.seen {
			if err := os.Mkdir(filepath.Join(p, "fd"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(p, "maps"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		} else { // an error other than that of a process which has ended
			for _, name := range []string{"fd", "maps"} {
				if err := os.Symlink(name, filepath.Join(p, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.WriteFile(filepath.Join(p, "status"), []byte(c.status), 0o600); err != nil {
			t.Fatal(err)
		}
		f := filepath.Join(dir, "ucx_shm_posix_left")
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		left, _, err := leftOver(dir, time.Time{}, time.Now().Add(time.Hour), abandoned)
		if err != nil {
			t.Fatal(err)
		}
		removed, err := sweepOld(proc, left)
		if (len(removed) == 1) != c.removed || (err == nil) != c.removed {
			t.Errorf("%s: removed %v, %v", c.name, removed, err)
		}
	}
}
