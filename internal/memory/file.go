package memory

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// HugePages are the flags of a memory file of huge pages of 2 MiB.
const HugePages = unix.MFD_HUGETLB | unix.MFD_HUGE_2MB

// CreateFile makes an empty memory file. The kernel shows it under name. flags are 0 or [HugePages]. The error is the
// kernel's; the caller says what the file was for.
func CreateFile(name string, flags int) (fd int, err error) {
	flags |= unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err = unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL) // some hosts allow no others
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, flags) // Linux before 6.3
	}
	return fd, err
}

const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// SealFile fixes the size of a memory file for good. An access to a mapping of one that is shorter would be a signal.
func SealFile(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals)
	return err
}

// The errors of OpenFile, apart from the kernel's.
var (
	ErrOtherFile = errors.New("it is not the memory file that was told of")
	ErrOtherUser = errors.New("it is a memory file of another user")
)

// OpenFile opens a sealed memory file of another process, or of this one. flag is os.O_RDONLY or os.O_RDWR. Another
// file can have these numbers by now, or have had them from the start: OpenFile looks at it first, since opening some
// devices acts on them, and opens it only if it is a memory file of this name and user. Root could open those of all
// users. The caller compares the attributes with what it knows.
func OpenFile(pid, fd int, name string, flag int) (own int, attributes unix.Stat_t, err error) {
	own = -1
	found, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return own, attributes, err
	}
	defer unix.Close(found)
	path := fmt.Sprintf("/proc/self/fd/%d", found)
	shown, err := os.Readlink(path)
	if err == nil {
		err = unix.Fstat(found, &attributes)
	}
	switch {
	case err != nil:
		return own, attributes, err
	case !strings.HasPrefix(shown, "/memfd:"+name+" ") || !inMemory(attributes):
		return own, attributes, ErrOtherFile
	case attributes.Uid != uint32(os.Geteuid()):
		return own, attributes, ErrOtherUser
	}
	if own, err = unix.Open(path, flag|unix.O_CLOEXEC, 0); err != nil {
		return -1, attributes, err
	}
	seals, err := unix.FcntlInt(uintptr(own), unix.F_GET_SEALS, 0)
	if err == nil && seals&sizeSeals != sizeSeals {
		err = ErrOtherFile
	}
	if err == nil {
		err = unix.Fstat(own, &attributes) // the size is fixed from here on
	}
	if err != nil {
		unix.Close(own)
		return -1, attributes, err
	}
	return own, attributes, nil
}

// inMemory reports whether a file is one that memfd_create has made: without a name, in one of the kernel's own file
// systems, which cannot be mounted.
func inMemory(st unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink == 0 && (sameSystem(st, plain()) || sameSystem(st, huge()))
}

func sameSystem(st, other unix.Stat_t) bool { return other.Ino != 0 && st.Dev == other.Dev }

// plain and huge are attributes of memory files, empty where there are none.
var (
	plain = sync.OnceValue(func() unix.Stat_t { return example(0) })
	huge  = sync.OnceValue(func() unix.Stat_t { return example(HugePages) })
)

func example(flags int) (st unix.Stat_t) {
	fd, err := CreateFile("perigee-example", flags)
	if err != nil {
		return unix.Stat_t{}
	}
	defer unix.Close(fd)
	if unix.Fstat(fd, &st) != nil {
		return unix.Stat_t{}
	}
	return st
}
