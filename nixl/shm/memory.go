package shm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/nixl/internal/pages"
	"perigee/nixl/internal/process"
)

// sizeSeals fix a memfd's size for good, so that nobody's access to a mapping can
// end in SIGBUS.
const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// allocate returns a sealed memfd of size > 0 bytes and its mapping, with all
// pages present.
func allocate(size int64) (fd int, data []byte, err error) {
	if err := room(size); err != nil {
		return -1, nil, err
	}
	fd, err = unix.MemfdCreate("perigee", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, nil, fault.New(fault.Resource, "memfd_create: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err := unix.Ftruncate(fd, size); err != nil {
		return -1, nil, noMemory(size, "ftruncate", err)
	}
	// Reserve the pages by a call that can fail; a first touch can only kill.
	if err := reserve(fd, 0, size); err != nil {
		return -1, nil, noMemory(size, "fallocate", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals); err != nil {
		return -1, nil, fault.New(fault.Resource, "sealing a memfd: %w", err)
	}
	data, err = mapPresent(fd, size)
	return fd, data, err
}

func reserve(fd int, off, size int64) error {
	for {
		err := unix.Fallocate(fd, 0, off, size)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// room looks for limits that would otherwise make themselves known by a signal:
// SIGXFSZ for a memfd larger than ulimit -f, SIGKILL for lack of memory.
func room(size int64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err == nil && uint64(size) > limit.Cur {
		return fault.New(fault.Resource, "a buffer of %s is larger than the limit on file sizes, %s", pages.Human(size), pages.Human(int64(limit.Cur))).
			WithHint("the limit also holds for shared memory; raise it with ulimit -f")
	}
	return pages.Room(size)
}

func noMemory(size int64, call string, err error) error {
	return fault.New(fault.Resource, "no shared memory for a buffer of %s: %s: %w", pages.Human(size), call, err).
		WithHint("use smaller matrices or fewer ranks on this host, or raise the job's memory limit")
}

// mapPresent maps a memfd for all to see and makes its pages present.
func mapPresent(fd int, size int64) ([]byte, error) {
	data, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, noMemory(size, "mmap", err)
	}
	// Only a wish: most kernels are built or set not to.
	_ = unix.Madvise(data, unix.MADV_HUGEPAGE)
	if err := pages.Populate(data); err != nil {
		unix.Munmap(data)
		return nil, err
	}
	return data, nil
}

// mapPeer maps a buffer of another process (or of another agent in this one).
func mapPeer(owner process.ID, b cardBuffer) ([]byte, error) {
	fd, err := openPeer(owner, b)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return mapPresent(fd, b.size)
}

// openPeer opens a memfd of another process.
func openPeer(owner process.ID, b cardBuffer) (fd int, err error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", owner.PID, b.fd)
	fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return -1, fault.New(fault.Engine, "no permission to open %s: %w", path, err).
			WithHint("all ranks must run as the same user, and not in different containers")
	case errors.Is(err, unix.ENOENT):
		return -1, closed(owner)
	case err != nil:
		return -1, fault.New(fault.Engine, "opening %s: %w", path, err)
	}
	if err := identify(fd, owner, b); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// identify makes sure that fd is the memfd of the card and can never shrink.
func identify(fd int, owner process.ID, b cardBuffer) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault.New(fault.Engine, "looking at a peer's buffer: %w", err)
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&sizeSeals != sizeSeals || st.Ino != b.inode || uint64(st.Dev) != b.dev || st.Size != b.size {
		return closed(owner)
	}
	return nil
}

func closed(owner process.ID) error {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", owner.PID)); err != nil {
		return process.Lost(owner)
	}
	return fault.New(fault.Engine, "it has closed the buffer").
		WithHint("an agent must stay open until all peers are through with it")
}

// describe makes a card's entry of an own memfd.
func describe(fd int, size int64) (cardBuffer, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return cardBuffer{}, fault.New(fault.Internal, "fstat of a memfd: %w", err)
	}
	return cardBuffer{fd: int64(fd), size: size, dev: uint64(st.Dev), inode: st.Ino}, nil
}

// unmap is for mappings that no batch can reach any more.
func unmap(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return unix.Munmap(data)
}
