package nixltest

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/internal/kernel"
)

// FileAPIs returns the kernel's interfaces for files that this process may use. Many
// containers, and kernel.io_uring_disabled, forbid io_uring; then only the error message
// is tested.
func FileAPIs(t testing.TB) []string {
	t.Helper()
	err := kernel.CheckFiles(nixl.URING)
	if err == nil {
		return []string{nixl.AIO, nixl.URING}
	}
	forbidden := errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)
	if !forbidden || fault.KindOf(err) != fault.Resource || fault.HintOf(err) == "" {
		t.Errorf("got %v of kind %v, hint %q, want a Resource error with a hint, or none", err, fault.KindOf(err),
			fault.HintOf(err))
	}
	t.Logf("without %s: %v", nixl.URING, err)
	return []string{nixl.AIO}
}
