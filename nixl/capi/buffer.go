//go:build cgo

package capi

// #include "papi.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/internal/kernel"
)

// buffer is registered memory. An empty one is not registered.
type buffer struct {
	device.Memory
	agent  *agent
	id     int
	list   unsafe.Pointer // the library's registration with the backend for peers
	listed unsafe.Pointer // and with that for files
}

// ID implements nixl.Buffer.
func (b *buffer) ID() int { return b.id }

// remote reports whether the buffer is a file or objects, which only the agent itself reaches.
func (b *buffer) remote() bool { return b.Mem() == nixl.FILE }

// objects are those that the buffer is, or nil.
func (b *buffer) objects() *objects {
	o, _ := b.Memory.(*objects)
	return o
}

// file is the file that the buffer is, or nil.
func (b *buffer) file() *device.File {
	f, _ := b.Memory.(*device.File)
	return f
}

func (a *agent) Alloc(mem nixl.Mem, size int64) (nixl.Buffer, error) {
	switch {
	case a.closed:
		return nil, errClosed
	case size < 0:
		return nil, fmt.Errorf("nixl: a buffer of %d bytes", size)
	case len(a.buffers) == maxBuffers:
		return nil, fault.New(fault.Resource, "nixl: more than %d buffers", maxBuffers)
	}
	memory, err := a.allocate(mem, size)
	if err != nil {
		return nil, err
	}
	return a.keep(memory)
}

func (a *agent) allocate(mem nixl.Mem, size int64) (device.Memory, error) {
	switch mem {
	case nixl.DRAM:
		return device.Host(size, a.cfg.HugePages)
	case nixl.VRAM:
		// Also for an empty buffer: a machine without a GPU has no VRAM at all.
		if err := a.openGPU(); err != nil {
			return nil, err
		}
		return a.gpu.Memory(size)
	}
	return nil, fault.New(fault.Resource, "the nixl engine has no %s buffers", mem)
}

// keep registers memory and makes it the next buffer.
func (a *agent) keep(memory device.Memory) (*buffer, error) {
	b := &buffer{Memory: memory, agent: a, id: len(a.buffers)}
	if err := b.register(); err != nil {
		return nil, errors.Join(err, b.deregister(), b.Free())
	}
	a.buffers = append(a.buffers, b)
	return b, nil
}

func (a *agent) openGPU() error {
	if a.gpu != nil {
		return nil
	}
	gpu, err := device.OpenCUDA(a.cfg.GPU)
	if err != nil {
		return err
	}
	a.gpu = gpu
	a.setHook(gpu.Hook())
	return nil
}

// VRAMLeft implements nixl.Agent.
func (a *agent) VRAMLeft() (gpu string, bytes int64, err error) {
	c, err := device.OpenCUDA(a.cfg.GPU)
	if err != nil {
		return "", 0, err
	}
	visible, err := device.Visible()
	if err != nil {
		return "", 0, err
	}
	bytes, err = c.Left()
	return visible[a.cfg.GPU], bytes, err
}

// kind is the library's number of a kind of memory.
func kind(mem nixl.Mem) C.int {
	return [...]C.int{nixl.DRAM: C.PAPI_DRAM, nixl.VRAM: C.PAPI_VRAM, nixl.FILE: C.PAPI_FILE}[mem]
}

// side is the buffer as one side of a transfer.
func (b *buffer) side() C.papi_side {
	return C.papi_side{base: C.uintptr_t(b.Address()), dev: C.uint64_t(b.Device()), mem: kind(b.Mem())}
}

// side is a peer's buffer as the other side.
func (b cardBuffer) side() C.papi_side {
	return C.papi_side{base: C.uintptr_t(b.address), dev: C.uint64_t(b.device), mem: kind(b.mem)}
}

// register makes the buffer known to the backend for peers and, if there is one, to that for files.
func (b *buffer) register() error {
	if b.Size() == 0 {
		return nil
	}
	if !b.remote() {
		if status := b.registerWith(false, &b.list); status < 0 {
			err := fail(status, "registering %s of %s", kernel.Human(b.Size()), b.Mem())
			if b.Mem() == nixl.VRAM {
				return fault.New(fault.Engine, "%w", err).WithHint("UCX may lack its modules for CUDA, or a library that "+
					"they need (libnvidia-ml.so.1, libcudart.so.12); %s", accountHint)
			}
			return err
		}
	}
	return b.registerForFiles()
}

func (b *buffer) registerWith(files C.bool, list *unsafe.Pointer) C.int {
	side := b.side()
	var made unsafe.Pointer // C may not be given a pointer into the buffer, which has others
	status := C.papi_register(b.agent.c, files, side.mem, side.base, C.size_t(b.Size()), side.dev, &made)
	*list = made
	return status
}

func (b *buffer) deregister() error {
	var errs []error
	if o := b.objects(); o != nil {
		errs = o.deregister()
	}
	for _, l := range []struct {
		list  *unsafe.Pointer
		files C.bool
	}{{&b.listed, true}, {&b.list, false}} {
		list := *l.list
		*l.list = nil
		if list == nil {
			continue
		}
		if status := C.papi_deregister(b.agent.c, l.files, list); status < 0 {
			errs = append(errs, fail(status, "deregistering buffer %d", b.id))
		}
	}
	return errors.Join(errs...)
}

// Reregister implements nixl.Agent. Requests hold pointers into the registration, so they go first.
func (a *agent) Reregister(number int) error {
	if a.closed {
		return errClosed
	}
	if number < 0 || number >= len(a.buffers) || a.buffers[number].remote() {
		return fmt.Errorf("nixl: registering again: no buffer %d of memory", number)
	}
	var errs []error
	for b := range a.batches {
		if slices.ContainsFunc(b.tasks, func(t task) bool { return t.local == number }) {
			errs = append(errs, b.Release())
			b.broken = fmt.Errorf("buffer %d was registered again", number)
		}
	}
	for l := range a.lists {
		if l.number == nixl.Self && l.buffer == number {
			errs = append(errs, l.Release())
		}
	}
	b := a.buffers[number]
	return errors.Join(append(errs, b.deregister(), b.register())...)
}

func (b *buffer) entry() cardBuffer {
	if b.remote() {
		return cardBuffer{} // for peers it is empty: they cannot reach it
	}
	return cardBuffer{mem: b.Mem(), device: uint32(b.Device()), address: uint64(b.Address()), size: b.Size()}
}
