package device

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/nixl"
	"perigee/nixl/internal/kernel"
)

// makeFile makes a file that others see for a moment at most, and never under its own name: several ranks may
// make the same at the same time.
func makeFile(f nixl.File) (*os.File, error) {
	target, err := file.Target(f.Path)
	if err != nil {
		return nil, fault.New(fault.Input, "making a file for transfers: %s: %w", f.Path, err)
	}
	folder, _ := filepath.Split(target)
	switch _, err := os.Lstat(target); {
	case err == nil:
		return nil, fault.New(fault.Input, "file %s exists already, and is not overwritten", f.Path).
			WithHint("name a file that does not exist, or allow it to be overwritten")
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.Input, "making a file for transfers: %w", err)
	}
	temp := fmt.Sprintf("%s.perigee-%x", folder, rand.Uint64())
	made, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fault.New(fault.Input, "making a file for transfers: %s: %w", f.Path, errors.Unwrap(err))
	}
	// Whatever happens from here on, no file stays behind.
	if err := os.Remove(made.Name()); err != nil {
		made.Close()
		return nil, fault.New(fault.Resource, "file %s: %w", f.Path, err)
	}
	if err := fill(made, f); err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

// fill gives a file its size and contents that no file system can compress. A hole, or pages
// that were never written, would be read without any disk.
func fill(file *os.File, f nixl.File) error {
	full := func(err error) error {
		return fault.New(fault.Resource, "making file %s of %s: %w", f.Path, kernel.Human(f.Size), err).
			WithHint("use another folder, or fewer and smaller blocks")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err == nil && uint64(f.Size) > limit.Cur {
		return full(fmt.Errorf("the limit on file sizes is %s (ulimit -f)", kernel.Human(int64(limit.Cur))))
	}
	if free, ok := freeSpace(file); ok && f.Size > free {
		return full(fmt.Errorf("%w: %s are free", unix.ENOSPC, kernel.Human(free)))
	}
	// What another process takes at the same time is noticed before everything is written.
	if err := allocate(file, 0, f.Size); err != nil {
		return full(err)
	}
	noise := make([]byte, min(f.Size, 4<<20))
	rand.NewChaCha8([32]byte{1}).Read(noise)
	for done := int64(0); done < f.Size; done += int64(len(noise)) {
		if _, err := file.WriteAt(noise[:min(int64(len(noise)), f.Size-done)], done); err != nil {
			return full(err)
		}
	}
	// Otherwise the disk would be busy with this while transfers are measured.
	if err := file.Sync(); err != nil {
		return full(err)
	}
	return nil
}

// reserve takes the space that a file which is there still lacks for its size, if parts of it were never written,
// so that the disk is not found to be full when transfers write there.
func reserve(file *os.File, f nixl.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return fault.New(fault.Resource, "file %s: %w", f.Path, err)
	}
	const unit = 512 // of Blocks, whatever the file system
	lacks := f.Size - st.Blocks*unit
	if lacks <= 0 {
		return nil
	}
	if free, ok := freeSpace(file); ok && lacks > free {
		return fault.New(fault.Resource,
			"file %s: %s of it were never written, and its file system has no room for them: %w: %s are free",
			f.Path, kernel.Human(lacks), unix.ENOSPC, kernel.Human(free)).
			WithHint("use another file, or fewer and smaller blocks")
	}
	if err := allocate(file, unix.FALLOC_FL_KEEP_SIZE, f.Size); err != nil {
		return fault.New(fault.Resource, "file %s: %s of it were never written, and have no room: %w", f.Path,
			kernel.Human(lacks), err).
			WithHint("use another file, or fewer and smaller blocks")
	}
	return nil
}

// allocate takes space for the first bytes of a file, where its file system can do that.
func allocate(file *os.File, mode uint32, size int64) error {
	for {
		err := unix.Fallocate(int(file.Fd()), mode, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP):
			return nil
		default:
			return err
		}
	}
}

// freeSpace is how many bytes the file system under a file has left for this user; ok is
// false where it does not say.
func freeSpace(file *os.File) (free int64, ok bool) {
	var disk unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &disk); err != nil || disk.Blocks == 0 {
		return 0, false
	}
	return int64(disk.Bavail) * disk.Bsize, true
}
