//go:build cgo

package capi

/*
#include "papi.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"perigee/nixl"
)

// accountFile is where UCX writes what moved the bytes, in memory.
var accountFile struct {
	once sync.Once
	file *os.File // nil where there is none
	why  string   // there is none
}

// maxAccount bounds what is read. A process with some agents writes some KiB.
const maxAccount = 64 << 20

// openAccount makes UCX write what moved the bytes, unless the user has plans of his own for its log. It is called
// before the library is loaded.
func openAccount() {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "UCX_LOG_") || strings.HasPrefix(name, "UCX_PROTO_INFO") {
			accountFile.why = fmt.Sprintf("UCX's log is yours, as %s is set; without it perigee reads there what moved the bytes, "+
				"and with UCX_PROTO_INFO=used, UCX_LOG_LEVEL=info and UCX_LOG_FILE=stderr you see that yourself", name)
			return
		}
	}
	fd, err := unix.MemfdCreate("perigee-ucx", unix.MFD_CLOEXEC)
	if err != nil {
		accountFile.why = fmt.Sprintf("no memory for UCX's log: %v", err)
		return
	}
	name := fmt.Sprintf("/proc/self/fd/%d", fd)
	if err := unix.Access(name, unix.W_OK); err != nil { // UCX opens it by its name
		unix.Close(fd)
		accountFile.why = fmt.Sprintf("UCX's log has no name: %s: %v", name, err)
		return
	}
	accountFile.file = os.NewFile(uintptr(fd), name)
	setVariable("UCX_LOG_FILE", name, false)
	setVariable("UCX_LOG_LEVEL", "info", false)
	setVariable("UCX_PROTO_INFO", "used", false)
}

// readAccount parses what UCX has written so far.
func readAccount() (*ucxLog, error) {
	f := accountFile.file
	Flush()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxAccount {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are read", info.Size(), maxAccount)
	}
	return parseUCXLog(io.NewSectionReader(f, 0, info.Size()))
}

// Flush writes out what C's streams hold, such as a log of the library. Go's exit does not do that. A stream that does
// not take it in time keeps the rest.
func Flush() {
	done := make(chan struct{})
	go func() {
		C.papi_flush()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// Path implements nixl.PathAgent.
func (a *agent) Path() nixl.Path {
	switch {
	case !a.engine.usesUCX():
		name := a.engine.backend.Name
		return nixl.Path{Source: name, Unknown: fmt.Sprintf("NIXL's plugin %s does not say what moves the bytes", name)}
	case accountFile.file == nil:
		return nixl.Path{Source: ucx, Unknown: accountFile.why}
	case a.stuck:
		return nixl.Path{Source: ucx, Unknown: "UCX says it as an agent ends, and one did not end"}
	}
	log, err := readAccount()
	if err != nil {
		return nixl.Path{Source: ucx, Unknown: fmt.Sprintf("UCX's log cannot be read: %v", err)}
	}
	p := nixl.Path{}
	if known := log.agents[a.cfg.Name]; known != nil {
		p = *known
	}
	p.Source = strings.TrimSpace(ucx + " " + log.version)
	if log.strange != "" {
		p.Unknown = fmt.Sprintf("%s writes in a form that perigee does not know: %q", cmp.Or(p.Source, ucx), log.strange)
	}
	return p
}
