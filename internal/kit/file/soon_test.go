package file

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/kit/must"
)

// TestWriteAfterTheEnd lets the disk take seconds: the file must be in place long before that.
func TestWriteAfterTheEnd(t *testing.T) {
	defer func(before func(*os.File) error) { flush = before }(flush)
	for _, tt := range []struct {
		name   string
		disk   time.Duration
		placed time.Duration // when, at the latest
		fails  bool
	}{
		{"fast disk", 10 * time.Millisecond, 10 * time.Millisecond, false},
		{"slow disk", 5 * time.Second, hurry, false},
		{"slow disk that fails", 5 * time.Second, hurry, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			synctest.Test(t, func(t *testing.T) {
				flush = func(f *os.File) error {
					time.Sleep(tt.disk)
					if tt.fails {
						return os.ErrDeadlineExceeded
					}
					return f.Sync()
				}
				ended, end := context.WithCancel(t.Context())
				end()
				start := time.Now()
				placed := make(chan string, 1)
				time.AfterFunc(tt.placed+time.Millisecond, func() {
					data, _ := os.ReadFile(path)
					placed <- string(data)
				})
				_, err := WriteClaimed(ended, At(path), func(w io.Writer) error {
					_, err := io.WriteString(w, "all")
					return err
				})
				if (err != nil) != tt.fails {
					t.Error(err)
				}
				if took := time.Since(start); took < tt.disk {
					t.Errorf("returned after %v, before the disk had it", took)
				}
				if text := <-placed; text != "all" {
					t.Errorf("in place after %v: %q", tt.placed, text)
				}
			})
		})
	}
}

// TestEndedWhileTheDiskWorks: what is being written when the process is told to end gets its place then, and what
// was there stays until then.
func TestEndedWhileTheDiskWorks(t *testing.T) {
	defer func(before func(*os.File) error) { flush = before }(flush)
	path := filepath.Join(t.TempDir(), "f")
	must.Do(t, os.WriteFile(path, []byte("old"), 0o644))
	synctest.Test(t, func(t *testing.T) {
		flush = func(f *os.File) error {
			time.Sleep(time.Minute)
			return f.Sync()
		}
		const given = 5 * time.Second
		ctx, end := context.WithTimeout(t.Context(), given)
		defer end()
		found := make(chan string, 2)
		for _, at := range []time.Duration{given, given + hurry} {
			time.AfterFunc(at+time.Millisecond, func() {
				data, _ := os.ReadFile(path)
				found <- string(data)
			})
		}
		put, err := WriteClaimed(ctx, At(path), func(w io.Writer) error {
			_, err := io.WriteString(w, "new")
			return err
		})
		if put == nil || err != nil {
			t.Error(put, err)
		}
		if before, after := <-found, <-found; before != "old" || after != "new" {
			t.Errorf("as it is told to end %q, after the disk's last chance %q; want old and new", before, after)
		}
	})
}

// TestWriteWaitsForTheDisk: without hurry a file that cannot be flushed leaves the old one.
func TestWriteWaitsForTheDisk(t *testing.T) {
	defer func(before func(*os.File) error) { flush = before }(flush)
	flush = func(*os.File) error { return os.ErrDeadlineExceeded }
	path := filepath.Join(t.TempDir(), "f")
	must.Do(t, os.WriteFile(path, []byte("old"), 0o644))
	err := Write(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	})
	data, _ := os.ReadFile(path)
	if err == nil || string(data) != "old" {
		t.Errorf("%v, and the file holds %q", err, data)
	}
}
