package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// File is an open file that takes part in transfers.
type File struct {
	path        string
	size        int64
	file        *os.File // what transfers use
	plain       *os.File // the same file through the page cache, for ReadAt and WriteAt
	direct      bool     // past the page cache
	memoryAlign int64    // of addresses; 1 without direct I/O
	offsetAlign int64    // of places and lengths
}

// directHint goes with whatever is wrong with direct I/O.
const directHint = "use a file system that has direct I/O (ext4, xfs, a block device), or leave it off"

// OpenFile opens or creates the file that f describes. Errors name the path.
func OpenFile(f nixl.File) (*File, error) {
	if f.Size < 1 {
		return nil, fault.New(fault.Input, "file %s: a size of %d bytes, want at least 1", f.Path, f.Size)
	}
	open := openExisting
	if f.Make {
		open = makeFile
	}
	file, err := open(f)
	if err != nil {
		return nil, err
	}
	d := &File{path: f.Path, size: f.Size, file: file, direct: f.Direct, memoryAlign: 1, offsetAlign: 1}
	if err := d.prepare(f); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openExisting opens a file that is there, checks that transfers can use it, and takes its blocks where it will be
// written, so that a full disk is found now and not in a measurement.
func openExisting(f nixl.File) (*os.File, error) {
	flag := os.O_RDONLY
	if f.Write {
		flag = os.O_RDWR
	}
	// A pipe would block in open.
	file, err := os.OpenFile(f.Path, flag|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fault.New(fault.Input, "file for transfers: %w", err)
	}
	info, err := file.Stat()
	if err == nil {
		err = suitable(f, file, info)
	}
	if err == nil && f.Write && info.Mode().IsRegular() {
		err = reserve(file, f)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// suitable refuses what is no file of the wanted size.
func suitable(f nixl.File, file *os.File, info fs.FileInfo) error {
	size := info.Size()
	switch info.Mode().Type() {
	case 0:
	case fs.ModeDir:
		return fault.New(fault.Input, "file %s is a folder; wanted a regular file or a block device", f.Path)
	case fs.ModeDevice:
		end, err := file.Seek(0, 2)
		if err != nil {
			return fault.New(fault.Input, "file %s: reading its size: %w", f.Path, err)
		}
		size = end
	default:
		return fault.New(fault.Input, "file %s is neither a regular file nor a block device (%s)", f.Path,
			info.Mode().Type())
	}
	if size < f.Size {
		return fault.New(fault.Input, "file %s has %d bytes, the transfers need %d", f.Path, size, f.Size).
			WithHint("use a larger file, or fewer and smaller blocks; " +
				"if the name does not exist yet, perigee creates the file")
	}
	return nil
}

// prepare opens both ways to the file and switches direct I/O on. Neither has the flags by which the file was found:
// cuFile, below GDS, refuses a file that was opened with O_NOFOLLOW.
func (d *File) prepare(f nixl.File) error {
	flag := os.O_RDONLY
	if f.Write || f.Make {
		flag = os.O_RDWR
	}
	found := d.file
	d.file = nil
	defer found.Close()
	for _, way := range []**os.File{&d.file, &d.plain} {
		file, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", found.Fd()), flag, 0)
		if err != nil {
			return fault.New(fault.Input, "file %s: opening it again: %w", f.Path, err)
		}
		*way = file
	}
	if !f.Direct {
		return nil
	}
	flags, err := unix.FcntlInt(d.file.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return fault.New(fault.Resource, "file %s: %w", f.Path, err)
	}
	if _, err := unix.FcntlInt(d.file.Fd(), unix.F_SETFL, flags|unix.O_DIRECT); err != nil {
		return fault.New(fault.Resource, "file %s: its file system refuses direct I/O: %w", f.Path, err).
			WithHint(directHint)
	}
	return d.align()
}

// usualAlign is enough for direct I/O on every file system that does not state its requirement.
const usualAlign = 4096

func (d *File) align() error {
	d.memoryAlign, d.offsetAlign = usualAlign, usualAlign
	var st unix.Statx_t
	err := unix.Statx(int(d.file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return nil
	}
	if st.Dio_offset_align == 0 {
		return fault.New(fault.Resource, "file %s: its file system has no direct I/O for it", d.path).
			WithHint(directHint)
	}
	d.memoryAlign, d.offsetAlign = int64(st.Dio_mem_align), int64(st.Dio_offset_align)
	return nil
}

// Check returns an error if direct I/O would refuse a transfer between memory at an address
// and the file.
func (d *File) Check(address uintptr, t nixl.Transfer) error {
	if d.memoryAlign <= 1 && d.offsetAlign <= 1 {
		return nil
	}
	for k, r := range t.Remote {
		l := t.Local[k]
		switch {
		case r.Off%d.offsetAlign != 0 || r.Len%d.offsetAlign != 0:
			return fault.New(fault.Input,
				"file %s, descriptor %d: %d bytes at offset %d; direct I/O there needs multiples of %d",
				d.path, k, r.Len, r.Off, d.offsetAlign).
				WithHint("use another block size, or leave direct I/O off")
		case (int64(address)+l.Off)%d.memoryAlign != 0:
			return fault.New(fault.Input,
				"file %s, descriptor %d: memory at offset %d; direct I/O there needs multiples of %d",
				d.path, k, l.Off, d.memoryAlign).
				WithHint("use another block size, or leave direct I/O off")
		}
	}
	return nil
}

// Trouble explains a failed transfer by the state of the file and its file system. It is empty
// where that explains nothing.
func (d *File) Trouble() string {
	if info, err := d.file.Stat(); err == nil && info.Mode().IsRegular() && info.Size() < d.size {
		return fmt.Sprintf("the file has become shorter: it has %d bytes, and the transfers need %d", info.Size(),
			d.size)
	}
	if free, ok := freeSpace(d.file); ok && free == 0 {
		return "its file system is full"
	}
	return ""
}

// Access describes how transfers reach files: past the page cache or through it, in which case their
// bandwidth can be that of memory. It is empty if there are no files.
func Access(files []*File) string {
	direct := 0
	for _, f := range files {
		if f.direct {
			direct++
		}
	}
	switch {
	case len(files) == 0:
		return ""
	case direct == len(files):
		return "direct I/O"
	case direct == 0:
		return "page cache"
	}
	return "page cache, some direct I/O"
}

// Path is the name that the file was opened by.
func (d *File) Path() string { return d.path }

// Size is how many bytes of the file can be reached.
func (d *File) Size() int64 { return d.size }

// FD is the descriptor for transfers, -1 after Close.
func (d *File) FD() int {
	if d.file == nil {
		return -1
	}
	return int(d.file.Fd())
}

// ReadAt reads through the page cache. An access outside the size is an error.
func (d *File) ReadAt(p []byte, off int64) (int, error) {
	if err := nixl.CheckAccess(off, len(p), d.size); err != nil {
		return 0, err
	}
	return d.plain.ReadAt(p, off)
}

// WriteAt writes through the page cache. An access outside the size is an error.
func (d *File) WriteAt(p []byte, off int64) (int, error) {
	if err := nixl.CheckAccess(off, len(p), d.size); err != nil {
		return 0, err
	}
	return d.plain.WriteAt(p, off)
}

// Close closes the file. A second call does nothing.
func (d *File) Close() error {
	var errs []error
	for _, f := range []*os.File{d.file, d.plain} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	d.file, d.plain = nil, nil
	return errors.Join(errs...)
}
