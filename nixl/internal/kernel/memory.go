package kernel

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
)

// Room returns an error of kind Resource if size bytes are more than the
// kernel says it can still hand out. Where the kernel does not say, it returns nil.
// Without this check the kernel would kill the process half way.
func Room(size int64) error {
	available, err := memory.Available("/")
	if err != nil || size <= available {
		return nil
	}
	return fault.New(fault.Resource, "a buffer of %s does not fit into this host's memory: %s available", Human(size),
		Human(available)).
		WithHint("use smaller matrices or fewer ranks on this host")
}

// Populate makes all pages of a writable mapping present. b must be a whole
// mapping or start on a page. The contents stay as they are, also where another
// process writes to the same pages at this moment.
func Populate(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	for {
		err := unix.Madvise(b, unix.MADV_POPULATE_WRITE)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.EINVAL): // before Linux 5.14
			touch(b)
			return nil
		}
		return fault.New(fault.Resource, "%s of memory could not be made present: %w", Human(int64(len(b))), err).
			WithHint("use smaller matrices or fewer ranks on this host, or raise the job's memory limit")
	}
}

// touch adds 0 to every page. Reading would not do: the kernel maps one page of zeros wherever a private
// mapping is only read.
func touch(b []byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		atomic.AddInt32((*int32)(unsafe.Pointer(&b[i])), 0)
	}
}

// Human formats a number of bytes in powers of 1024.
func Human(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, i := float64(n)/unit, 0
	for value >= unit && i < len("KMGTPE")-1 {
		value /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[i])
}
