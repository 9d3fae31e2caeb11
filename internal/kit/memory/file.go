package memory

import (
	"errors"
	"fmt"
	"os"
	"strings"

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

// ErrOtherFile is the error of OpenFile for what is no memory file of that name.
var ErrOtherFile = errors.New("it is another file than the memory file that was announced")

// OpenFile opens a sealed memory file of another process, or of this one. flag is os.O_RDONLY or os.O_RDWR. Another
// file can have these numbers by now: OpenFile looks at the name first, since opening some devices acts on them. The
// caller compares the attributes with what it knows.
func OpenFile(pid, fd int, name string, flag int) (own int, attributes unix.Stat_t, err error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", pid, fd)
	shown, err := os.Readlink(path)
	if err != nil {
		return -1, attributes, err
	}
	if !strings.HasPrefix(shown, "/memfd:"+name+" ") {
		return -1, attributes, ErrOtherFile
	}
	if own, err = unix.Open(path, flag|unix.O_CLOEXEC, 0); err != nil {
		return -1, attributes, err
	}
	seals, err := unix.FcntlInt(uintptr(own), unix.F_GET_SEALS, 0)
	if err == nil && seals&sizeSeals != sizeSeals {
		err = ErrOtherFile
	}
	if err == nil {
		err = unix.Fstat(own, &attributes) // the size is fixed
	}
	if err != nil {
		unix.Close(own)
		return -1, attributes, err
	}
	return own, attributes, nil
}
