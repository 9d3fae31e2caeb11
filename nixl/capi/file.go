//go:build cgo

package capi

/*
#include <stdlib.h>
#include "papi.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"unsafe"

	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/internal/kernel"
)

// posix is the plugin that reaches files through the kernel. The process ends where a request of gusli is posted again.
const (
	posix = "POSIX"
	gusli = "GUSLI"
)

func (a *agent) backendForFiles() string { return cmp.Or(a.cfg.FileBackend, posix) }

func (a *agent) interfaceForFiles() string { return cmp.Or(a.cfg.FileAPI, nixl.AIO) }

// files describes how files are reached.
func (a *agent) files() string {
	if a.backendForFiles() == posix {
		return posix + " " + a.interfaceForFiles()
	}
	return a.backendForFiles()
}

// access describes whether the files that were opened are reached past the page cache.
func (a *agent) access() string {
	if a.cfg.FileObjects {
		return "an object for each block, which stays in the store"
	}
	var files []*device.File
	for _, b := range a.buffers {
		if f := b.file(); f != nil {
			files = append(files, f)
		}
	}
	return device.Access(files)
}

// OpenFile implements nixl.Agent. The first file creates the backend.
func (a *agent) OpenFile(f nixl.File) (nixl.Buffer, error) {
	switch {
	case a.closed:
		return nil, errClosed
	case len(a.buffers) == maxBuffers:
		return nil, fault.New(fault.Resource, "nixl: more than %d buffers", maxBuffers)
	}
	if err := a.openFiles(); err != nil {
		return nil, err
	}
	if a.cfg.FileObjects {
		o, err := a.openObjects(f)
		if err != nil {
			return nil, err
		}
		return a.keep(o)
	}
	file, err := device.OpenFile(f)
	if err != nil {
		return nil, err
	}
	return a.keep(file)
}

// openFiles creates the backend for files, if there is none yet, and makes all memory known to it.
func (a *agent) openFiles() error {
	if a.c.file_args != nil {
		return nil
	}
	params := map[string]string{}
	if a.backendForFiles() == posix {
		// The plugin falls back silently on something else, or prints, where io_uring is missing.
		name := map[string]string{nixl.AIO: "use_aio", nixl.URING: "use_uring"}[a.interfaceForFiles()]
		if name == "" {
			return fault.New(fault.Usage, "unknown interface for files %q: want %s or %s", a.cfg.FileAPI, nixl.AIO,
				nixl.URING)
		}
		if err := kernel.CheckFiles(a.interfaceForFiles()); err != nil {
			return err
		}
		params[name] = "true"
	}
	maps.Copy(params, a.cfg.FileParams)
	plugin, words := C.CString(a.backendForFiles()), paramWords(params)
	defer C.free(unsafe.Pointer(plugin))
	defer C.free(unsafe.Pointer(words))
	var what *C.char
	if status := C.papi_open_files(a.c, plugin, words, &what); status < 0 {
		return a.noFiles(cmp.Or(C.GoString(what), "create the backend for files"), status)
	}
	if a.backendForFiles() == gusli {
		return fault.New(fault.Engine, "%s: its backend was created, but its requests can be posted once only, and "+
			"perigee posts a prepared one for each iteration", gusli).WithHint("--backend POSIX reaches block devices, too")
	}
	for _, b := range a.buffers {
		if err := b.registerForFiles(); err != nil {
			return err
		}
	}
	return nil
}

// noFiles words why there is no backend for files.
func (a *agent) noFiles(what string, status C.int) error {
	name := a.backendForFiles()
	plugins := text(func(p *C.char, size C.size_t) { C.papi_plugins(a.c, p, size) })
	if !strings.Contains(" "+plugins+" ", " "+name+" ") {
		return fault.New(fault.Engine, "NIXL has no plugin %s; it has %q", name, plugins).
			WithHint("use --backend POSIX, or --engine shm")
	}
	err := fault.New(fault.Engine, "NIXL could not %s (%s): %s", what, a.files(), describeStatus(int(status)))
	if name != posix {
		return err.WithHint("%s", backendHint(name))
	}
	return err.WithHint(accountHint)
}

// registerForFiles makes the buffer known to the backend for files, if there is one that reaches it.
func (b *buffer) registerForFiles() error {
	if b.agent.c.file_args == nil || b.Size() == 0 || !b.agent.filesReach(b) || b.objects() != nil {
		return nil
	}
	if status := b.registerWith(true, &b.listed); status < 0 {
		err := fail(status, "registering %s of %d bytes with %s", b.Mem(), b.Size(), b.agent.files())
		switch name := b.agent.backendForFiles(); {
		case strings.HasPrefix(name, "GDS"):
			return fault.New(fault.Engine, "%w", err).WithHint("gdscheck -p shows what %s supports here, and cufile.json "+
				"whether it may do without the kernel module nvidia-fs (allow_compat_mode); %s", name, accountHint)
		case name != posix:
			return fault.New(fault.Engine, "%w", err).WithHint("%s", backendHint(name))
		}
		return err
	}
	return nil
}

// filesReach reports whether the backend for files moves bytes to and from a buffer.
func (a *agent) filesReach(b *buffer) bool {
	return a.backendForFiles() != posix || b.Mem() != nixl.VRAM
}

// ownFile checks a transfer with a file of the agent's own.
func (a *agent) ownFile(t nixl.Transfer, local *buffer) (task, C.papi_side, *C.char, error) {
	k, none := task{number: nixl.Self, local: t.LocalBuffer}, C.papi_side{}
	if t.RemoteBuffer < 0 || t.RemoteBuffer >= len(a.buffers) || !a.buffers[t.RemoteBuffer].remote() {
		return k, none, nil, fmt.Errorf("transfer with a file: buffer %d is none", t.RemoteBuffer)
	}
	remote := a.buffers[t.RemoteBuffer]
	k.file, k.objects = remote.file(), remote.objects()
	if !a.filesReach(local) {
		return k, none, nil, fault.New(fault.Usage,
			"%s: the backend %s moves bytes between files and host memory only", k.name(), posix).
			WithHint("use --backend GDS for the memory of a GPU")
	}
	if err := t.Check(local.Size(), remote.Size()); err != nil {
		return k, none, nil, fmt.Errorf("%s: %w", k.name(), err)
	}
	if err := a.checkLengths(t, k.name()); err != nil {
		return k, none, nil, err
	}
	if k.objects != nil {
		var err error
		if k.writes, err = k.objects.use(t); err != nil {
			return k, none, nil, err
		}
		return k, k.objects.side(), a.name, nil
	}
	if err := k.file.Check(local.Address(), t); err != nil {
		return k, none, nil, err
	}
	return k, remote.side(), a.name, nil
}

// maxFileBytes is how much the kernel moves between a file and memory in one request. The plugin leaves it at that.
const maxFileBytes = 0x7ffff000

// checkLengths refuses descriptors of which only the beginning would be moved.
func (a *agent) checkLengths(t nixl.Transfer, file string) error {
	if a.backendForFiles() != posix {
		return nil
	}
	for i, d := range t.Local {
		if d.Len > maxFileBytes {
			return fault.New(fault.Input, "%s, descriptor %d: %d bytes; NIXL's plugin %s moves at most %d at a time",
				file, i, d.Len, posix, maxFileBytes).
				WithHint("use blocks smaller than 2 GiB, or --engine shm")
		}
	}
	return nil
}

// filePool is the size of the plugin's pool, from which every descriptor of a posted request takes one.
func (a *agent) filePool() int {
	if n, err := strconv.ParseUint(a.cfg.FileParams["ios_pool_size"], 10, 31); err == nil && n > 0 {
		return int(n)
	}
	return 1 << 16
}

// request is one call of the library: a transfer, or a part of it.
type request struct {
	nixl.Transfer
	owner int // number of the transfer
}

// requests lists what is to be posted. A room above 0 says that not all of it can be at once: it is the sum
// of the descriptors with files that can.
func (a *agent) requests(transfers []nixl.Transfer) (list []request, room int) {
	n := 0
	for _, t := range transfers {
		if t.Peer == nixl.Self {
			n += len(t.Local)
		}
	}
	// How many descriptors go into one request of a batch for which the pool is too small. What is free when the oldest
	// request is complete goes to the next, and the rest keeps the disk busy meanwhile.
	pool := a.filePool()
	fileRequest := max(1, pool/8)
	if n > pool && a.backendForFiles() == posix {
		room = pool
	}
	for i, t := range transfers {
		if room == 0 || t.Peer != nixl.Self || len(t.Local) <= fileRequest {
			list = append(list, request{t, i})
			continue
		}
		local, remote := t.Local, t.Remote
		for from := 0; from < len(local); from += fileRequest {
			to := min(from+fileRequest, len(local))
			t.Local, t.Remote = local[from:to], remote[from:to]
			list = append(list, request{t, i})
		}
	}
	return list, room
}
