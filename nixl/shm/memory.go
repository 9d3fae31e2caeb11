package shm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/internal/kernel"
)

// What the kernel shows for buffers and inboxes.
const (
	bufferName = "perigee"
	inboxName  = "perigee-inbox"
)

// allocate returns a sealed memfd of size > 0 bytes, mapped, with all pages present. huge is
// AgentConfig.HugePages.
func allocate(size int64, huge string) (memfd, error) {
	flags, err := hugeFlags(huge)
	if err != nil {
		return emptyMemfd, err
	}
	if err := room(size); err != nil {
		return emptyMemfd, err
	}
	fd, err := memory.CreateFile(bufferName, flags)
	if err != nil {
		return emptyMemfd, fault.New(fault.Resource, "memfd_create: %w", err)
	}
	data, err := fillMemfd(fd, size, huge)
	if err != nil {
		return emptyMemfd, errors.Join(err, unix.Close(fd))
	}
	return memfd{fd, data}, nil
}

// fillMemfd gives a memory file its size and its pages, and maps it. The size is sealed before others hear of the
// file.
func fillMemfd(fd int, size int64, huge string) ([]byte, error) {
	whole := size
	if huge == nixl.HugeOn {
		whole = wholePages(size)
	}
	if err := unix.Ftruncate(fd, whole); err != nil {
		return nil, noMemory(size, "ftruncate", err)
	}
	// Reserve the pages by a call that can fail; a first touch can only kill.
	if err := reserve(fd, 0, whole); err != nil {
		if huge == nixl.HugeOn {
			return nil, fault.New(fault.Resource, "no reserved huge pages for a buffer of %s: %w", kernel.Human(size),
				err).
				WithHint(device.NoHugePages)
		}
		return nil, noMemory(size, "fallocate", err)
	}
	if err := memory.SealFile(fd); err != nil {
		return nil, fault.New(fault.Resource, "sealing a memfd: %w", err)
	}
	return mapPresent(fd, size, huge)
}

// hugePage is the size of the huge pages that HugeOn takes.
const hugePage = 2 << 20

func wholePages(size int64) int64 { return (size + hugePage - 1) / hugePage * hugePage }

func hugeFlags(huge string) (int, error) {
	switch huge {
	case "", nixl.HugeAuto, nixl.HugeOff:
		return 0, nil
	case nixl.HugeOn:
		return memory.HugePages, nil
	}
	return 0, fault.New(fault.Usage, "huge pages %q: want %s, %s or %s", huge, nixl.HugeAuto, nixl.HugeOn, nixl.HugeOff)
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
		return fault.New(fault.Resource, "a buffer of %s is larger than the limit on file sizes, %s",
			kernel.Human(size), kernel.Human(int64(limit.Cur))).
			WithHint("the limit also holds for shared memory; raise it with ulimit -f")
	}
	return kernel.Room(size)
}

func noMemory(size int64, call string, err error) error {
	return fault.New(fault.Resource, "no shared memory for a buffer of %s: %s: %w", kernel.Human(size), call, err).
		WithHint("use smaller matrices or fewer ranks on this host, or raise the job's memory limit")
}

// mapPresent maps a memfd for all to see, makes its pages present and returns the first size bytes.
func mapPresent(fd int, size int64, huge string) ([]byte, error) {
	whole := size
	if huge == nixl.HugeOn {
		whole = wholePages(size) // munmap wants whole pages
	}
	data, err := unix.Mmap(fd, 0, int(whole), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, noMemory(size, "mmap", err)
	}
	advice := unix.MADV_HUGEPAGE
	if huge == nixl.HugeOff {
		advice = unix.MADV_NOHUGEPAGE
	}
	// A wish: most kernels are built or set not to grant huge pages to memfds, and those of HugeOn are huge already.
	_ = unix.Madvise(data, advice)
	if err := kernel.Populate(data); err != nil {
		return nil, errors.Join(err, unmap(data))
	}
	return data[:size], nil
}

// mapPeer maps a buffer of another process (or of another agent in this one).
func mapPeer(owner kernel.ProcessID, b cardBuffer, huge string) ([]byte, error) {
	fd, err := openPeer(owner, b, bufferName)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return mapPresent(fd, b.size, huge)
}

// openPeer opens a memfd of another process, if it is that of the card.
func openPeer(owner kernel.ProcessID, b cardBuffer, name string) (fd int, err error) {
	fd, found, err := memory.OpenFile(int(owner.PID), int(b.fd), name, os.O_RDWR)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return -1, fault.New(fault.Engine, "no permission to open /proc/%d/fd/%d: %w", owner.PID, b.fd, err).
			WithHint("all ranks must run as the same user, and not in different containers")
	case errors.Is(err, unix.ENOENT), errors.Is(err, memory.ErrOtherFile):
		return -1, closed(owner)
	case err != nil:
		return -1, fault.New(fault.Engine, "opening /proc/%d/fd/%d: %w", owner.PID, b.fd, err)
	}
	if found.Ino != b.inode || uint64(found.Dev) != b.dev || found.Size != b.size && found.Size != wholePages(b.size) {
		unix.Close(fd)
		return -1, closed(owner)
	}
	return fd, nil
}

func closed(owner kernel.ProcessID) error {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", owner.PID)); err != nil {
		return kernel.ProcessLost(owner)
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
	return unix.Munmap(data[:cap(data)])
}
