//go:build cgo

package capi

/*
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// apart runs f, in which the library reads its settings: UCX when it is loaded, which the first backend does, NIXL when
// it first needs one. Meanwhile the library does not see a home or a current folder into which others can put settings;
// checkSettings has looked at those that are there. It is for one caller at a time.
func apart(f func()) error {
	home := variable("HOME")
	if home != "" && (mayAppear(home, ucxSettings) || mayAppear(home, nixlSettings)) {
		name := C.CString("HOME")
		defer C.free(unsafe.Pointer(name))
		C.unsetenv(name)
		defer setVariable("HOME", home, true)
	}
	if !mayAppear(".", ucxSettings) {
		f()
		return nil
	}
	err := lastly(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		if err := unix.Chdir("/"); err != nil {
			return err
		}
		f()
		return nil
	})
	if err == nil {
		return nil
	}
	// Some containers forbid a thread to have its own. Nothing else uses the current folder while an engine is opened.
	return inRoot(f)
}

// lastly runs f on a thread that ends with it, and is not the main one, whose current folder passes for the process's.
func lastly(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- lastly(f) // elsewhere, as long as this has the main thread
			runtime.UnlockOSThread()
			return
		}
		done <- f()
	}()
	return <-done
}

// variable is a variable as the library sees it.
func variable(name string) string {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	return C.GoString(C.getenv(n))
}

// inRoot runs f while the root is the current folder of the process.
func inRoot(f func()) error {
	here, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the current folder: %w", err)
	}
	defer unix.Close(here)
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	f()
	if err := unix.Fchdir(here); err != nil {
		return fmt.Errorf("return to the current folder: %w", err)
	}
	return nil
}
