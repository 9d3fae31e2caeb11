// Package regular opens files whose reading ends: those on a disk. What a user was given may be a link to a pipe, to a
// device, or to a file that the kernel makes up. Other users may have put links in the way of files that are written:
// [Locate] and [OpenOwn] do not fall over them.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is the error of a path that is a pipe, a device or a socket, or that only looks like a file: reading it
// might never end.
var ErrNotRegular = errors.New("wanted a regular file, got a device, a pipe, a socket or a file of the kernel")

// Open opens a regular file for reading. It does not wait for the other end of a pipe.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := check(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	note(info)
	return f, nil
}

// Check returns an error if reading an open file might never end.
func Check(f *os.File) error {
	_, err := check(f)
	return err
}

func check(f *os.File) (fs.FileInfo, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: unix.EISDIR}
	case !info.Mode().IsRegular() || OfKernel(f):
		return nil, &fs.PathError{Op: "open", Path: f.Name(), Err: ErrNotRegular}
	}
	return info, nil
}

// OfKernel reports whether an open file is one that the kernel makes up when it is read. Such files pass for regular
// ones, but some of them, /proc/kmsg for one, wait for something to happen.
func OfKernel(f *os.File) bool {
	var s unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &s) != nil {
		return false
	}
	return slices.Contains(kernels, uint32(s.Type))
}

// kernels are the types of the file systems whose files the kernel makes up. These are those that Linux has; a driver
// may bring others.
var kernels = []uint32{
	unix.AAFS_MAGIC, unix.BINDERFS_SUPER_MAGIC, unix.BINFMTFS_MAGIC, unix.BPF_FS_MAGIC, unix.CGROUP_SUPER_MAGIC,
	unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.EFIVARFS_MAGIC, unix.NSFS_MAGIC, unix.OPENPROM_SUPER_MAGIC,
	unix.PID_FS_MAGIC, unix.PROC_SUPER_MAGIC, unix.PSTOREFS_MAGIC, unix.RDTGROUP_SUPER_MAGIC, unix.SECURITYFS_MAGIC,
	unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.SYSFS_MAGIC, unix.TRACEFS_MAGIC, unix.USBDEVICE_SUPER_MAGIC,
	unix.XENFS_SUPER_MAGIC,
	0x19800202, // mqueue
	0x62656570, // configfs
	0x65735543, // fusectl
	0x67596969, // rpc_pipefs
	0x6e667364, // nfsd
	0x0a647361, // functionfs
	0x76a9f425, // dlmfs
}

// Read reads a regular file of at most most bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, most)
}

// readAll reads an open file of at most most bytes.
func readAll(f *os.File, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("it is larger than %d bytes", most)}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
