//go:build cgo

package capi

/*
#include "papi.h"
*/
import "C"

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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
	hint string   // what to do about it
	account
}

// accountEnvironment is set, with the name of the file, where UCX writes what moved the bytes.
var accountEnvironment = [][2]string{{"UCX_LOG_LEVEL", "info"}, {"UCX_PROTO_INFO", "used"}}

// maxAccount bounds what is read at once. A process with some agents writes some KiB.
const maxAccount = 64 << 20

// openAccount makes UCX write what moved the bytes, unless the user has plans of his own for its log. It is called
// before the library is loaded.
func openAccount() {
	defer setVariable("UCX_LOG_LEVEL", "fatal", false) // where it is not set by then: perigee reports errors itself
	if setting := ownLog(os.Environ(), os.Getenv("HOME"), os.Getenv("UCX_CONFIG_DIR"), "."); setting != "" {
		accountFile.why = fmt.Sprintf("UCX's log is yours, as you have set %s: unset it, or look there for tables, with "+
			"UCX_PROTO_INFO=used and UCX_LOG_LEVEL=info", setting)
		accountFile.hint = "unset " + setting
		return
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
	for _, e := range accountEnvironment {
		setVariable(e[0], e[1], false)
	}
}

// ownLog names a setting by which the user says what UCX is to write, or where; "" where there is none. UCX reads them
// in the environment and in ucx.conf in some folders.
func ownLog(environ []string, folders ...string) string {
	about := func(line string) (name string, ok bool) {
		name, _, ok = strings.Cut(strings.TrimSpace(line), "=")
		name = strings.TrimSpace(name)
		return name, ok && (strings.HasPrefix(name, "UCX_LOG_") || strings.HasPrefix(name, "UCX_PROTO_INFO"))
	}
	for _, v := range environ {
		if name, ok := about(v); ok {
			return name
		}
	}
	for _, folder := range folders {
		path := filepath.Join(folder, "ucx.conf")
		if info, err := os.Stat(path); folder == "" || err != nil || !info.Mode().IsRegular() {
			continue
		}
		text, _ := os.ReadFile(path) // UCX cannot read it either
		for line := range strings.Lines(string(text)) {
			if name, ok := about(line); ok {
				return name + " in " + path
			}
		}
	}
	return ""
}

// account is what was read of UCX's log.
type account struct {
	mu     sync.Mutex
	parser *ucxParser
	done   int64 // bytes that were read, whole lines
}

// read parses what UCX has written since the last time, and gives the memory of that back: UCX goes on to write behind
// it. A scenario that opens agents again and again makes megabytes a minute.
func (a *account) read(f *os.File) (*ucxLog, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	Flush()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if n := info.Size() - a.done; n > maxAccount {
		return nil, fmt.Errorf("it has %d bytes more, and at most %d are read", n, maxAccount)
	}
	if a.parser == nil {
		a.parser = newUCXParser()
	}
	n, err := a.parser.read(io.NewSectionReader(f, a.done, info.Size()-a.done))
	if a.done += n; n > 0 {
		const page = 1 << 12
		unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, a.done/page*page)
	}
	if err != nil {
		return nil, err
	}
	a.parser.log.join()
	log := *a.parser.log // which may be read while it grows
	log.agents = map[string]*nixl.Path{}
	for name, p := range a.parser.log.agents {
		log.agents[name] = &nixl.Path{Uses: slices.Clone(p.Uses), Lanes: slices.Clone(p.Lanes)}
	}
	return &log, nil
}

// trim reads the log where there is much that was not read.
func (a *account) trim(f *os.File) {
	const much = 256 << 10
	if f == nil {
		return
	}
	a.mu.Lock()
	done := a.done
	a.mu.Unlock()
	if info, err := f.Stat(); err == nil && info.Size()-done > much {
		a.read(f) // who asks for the path learns what is wrong
	}
}

// readAccount parses what UCX has written so far.
func readAccount() (*ucxLog, error) { return accountFile.account.read(accountFile.file) }

// noTransport says that UCX can use none of the transports of the user's UCX_TLS; "" also where its log is not read.
func noTransport() string {
	if accountFile.file == nil {
		return ""
	}
	log, err := readAccount()
	if err != nil {
		return ""
	}
	return log.noTransport(os.Getenv("UCX_TLS"))
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

// alive holds the names of agents that have not ended.
var alive sync.Map

// Path implements nixl.PathEngine.
func (e *Engine) Path(prefix string) nixl.Path {
	switch {
	case !e.usesUCX():
		name := e.backend.Name
		return nixl.Path{Source: name, Unknown: fmt.Sprintf("NIXL's plugin %s does not say what moves the bytes", name)}
	case accountFile.file == nil:
		return nixl.Path{Source: ucx, Unknown: accountFile.why, Hint: accountFile.hint}
	}
	log, err := readAccount()
	if err != nil {
		return nixl.Path{Source: ucx, Unknown: fmt.Sprintf("UCX's log cannot be read: %v", err)}
	}
	p := nixl.Path{Source: strings.TrimSpace(ucx + " " + log.version)}
	for name, a := range log.agents {
		if strings.HasPrefix(name, prefix) {
			p.Uses, p.Lanes = append(p.Uses, a.Uses...), append(p.Lanes, a.Lanes...)
		}
	}
	if log.strange != "" {
		p.Unknown = fmt.Sprintf("%s writes in a form that perigee does not know: %q", p.Source, log.strange)
	}
	alive.Range(func(name, _ any) bool {
		if strings.HasPrefix(name.(string), prefix) {
			p.Unknown = "UCX says it as an agent ends, and one is open still: close() what the script has opened"
		}
		return p.Unknown == ""
	})
	return p
}
