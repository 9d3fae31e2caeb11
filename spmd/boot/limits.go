package boot

import (
	"errors"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
)

// Limited makes an error of a kind, or of the kind Resource where a limit of the process or the machine is the cause.
func Limited(kind fault.Kind, format string, args ...any) *fault.Error {
	err := fault.New(kind, format, args...)
	for _, limit := range []error{unix.EFBIG, unix.ENOSPC, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, limit) {
			err.Kind = fault.Resource
			return err.WithHint("raise the limits on file sizes, open files and memory (ulimit -f, -n, -v)")
		}
	}
	return err
}
