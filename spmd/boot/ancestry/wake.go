package ancestry

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// deathSignal is where the kernel writes; what is on the stack of a goroutine may move.
var deathSignal int32

// WakeWithParent lets the kernel continue this process if it is stopped when its
// parent ends. A stopped orphan would notice nothing. A signal that the parent itself
// has chosen for that moment stays.
func WakeWithParent() {
	err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&deathSignal)), 0, 0, 0)
	if err == nil && deathSignal == 0 {
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGCONT), 0, 0, 0) // without it orphans that are stopped stay
	}
}
