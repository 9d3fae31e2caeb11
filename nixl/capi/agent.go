//go:build cgo

package capi

/*
#include <stdlib.h>
#include "papi.h"
*/
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/internal/kernel"
)

// peer is another agent as its card describes it.
type peer struct {
	card    card
	name    *C.char // in C memory, of the link
	process *kernel.Watched
}

type agent struct {
	engine   *Engine
	cfg      nixl.AgentConfig
	name     *C.char // in C memory, of the configuration's
	own      kernel.ProcessID
	mode     mode
	lanes    string        // what UCX could use of the network as the agent was made; "" within one host
	c        *C.papi_agent // in C memory
	gpu      *device.CUDA  // nil until the first VRAM buffer
	buffers  []*buffer
	peers    map[int]*peer
	links    map[string]*link // by agent name
	outgoing []byte           // a notification as the library takes it; the buffer is used again
	queued   int              // messages in the inboxes of all links
	// Processes stay while batches use them, also of before a peer's card was replaced.
	processes map[kernel.ProcessID]*kernel.Watched
	batches   map[*batch]struct{}
	lists     map[*list]struct{}
	closed    bool
	// objectKinds counts keys and lengths of objects.
	objectKinds uint64
}

var errClosed = errors.New("nixl: the agent is closed")

// Info implements nixl.Agent; its Params say who makes progress and why, and what perigee has chosen.
func (a *agent) Info() nixl.Info {
	info := a.engine.Info()
	info.Can.CopiesInPost = a.cfg.OneHost
	progress := "poll"
	if a.mode.thread {
		progress = "thread"
	}
	info.Params = map[string]string{
		"progress": fmt.Sprintf("%s (%s)", progress, a.mode.why),
		"dram":     "anonymous, " + describeHuge(a.cfg.HugePages),
	}
	if a.mode.errors != "" {
		info.Params["ucx_error_handling_mode"] = a.mode.errors
	}
	maps.Copy(info.Params, a.engine.backend.Params)
	if a.mode.device != "" {
		info.Params["net_devices"] = a.mode.device
	}
	if a.mode.tls != "" {
		info.Params["tls"] = a.mode.tls
	}
	if a.mode.copies != "" {
		info.Params["bcopy_bw"] = a.mode.copies
	}
	if a.c != nil && a.c.file_args != nil {
		info.Params["files"] = a.files()
		if access := a.access(); access != "" {
			info.Params["file_access"] = access
		}
	}
	return info
}

// describeHuge says in which pages host buffers lie.
func describeHuge(choice string) string {
	switch choice {
	case nixl.HugeOn:
		return "reserved huge pages"
	case nixl.HugeOff:
		return "no huge pages"
	}
	return "huge pages advised"
}

// fail turns a status of the library into an error. The caller adds the peer.
func fail(status C.int, format string, args ...any) error {
	return fault.New(fault.Engine, "NIXL: %s: %s", fmt.Sprintf(format, args...), describeStatus(int(status))).
		WithHint("%s", withoutVariables(os.Environ())+accountHint)
}

// withoutVariables is the part of a hint that names the user's settings of UCX, with which it may find no way; "" for
// none. What perigee sets is not in Go's copy of the environment.
func withoutVariables(environ []string) string {
	var set []string
	for _, v := range environ {
		if strings.HasPrefix(v, "UCX_") && !strings.HasPrefix(v, "UCX_LOG_") {
			set = append(set, v)
		}
	}
	if len(set) == 0 {
		return ""
	}
	slices.Sort(set)
	return "try without " + strings.Join(set, ", ") + ", which the environment sets; "
}

func (a *agent) Card() ([]byte, error) {
	if a.closed {
		return nil, errClosed
	}
	var data unsafe.Pointer
	var size C.size_t
	if status := a.localMetadata(&data, &size); status < 0 {
		return nil, fail(status, "own metadata")
	}
	defer C.free(data)
	c := card{owner: a.own, name: a.cfg.Name, metadata: C.GoBytes(data, C.int(size)), lanes: a.lanes}
	for _, b := range a.buffers {
		c.buffers = append(c.buffers, b.entry())
	}
	return c.encode(), nil
}

func (a *agent) AddPeer(number int, data []byte) error {
	if a.closed {
		return errClosed
	}
	c, err := decodeCard(data)
	if err == nil {
		err = a.addPeer(number, c)
	}
	if err != nil {
		return fault.New(fault.Engine, "nixl: peer %d: %w", number, err)
	}
	return nil
}

func (a *agent) addPeer(number int, c card) error {
	p := &peer{card: c}
	var err error
	if p.process, err = a.watch(c.owner); err != nil {
		return err
	}
	l := a.link(c.name)
	// The agent knows itself. Others may come again, with more buffers.
	if !l.self && !bytes.Equal(l.metadata, c.metadata) {
		if err := a.loadMetadata(c); err != nil {
			return err
		}
		l.metadata = c.metadata
	}
	if l.name == nil {
		l.name = C.CString(c.name)
	}
	p.name, l.number = l.name, number
	a.peers[number] = p
	return nil
}

// watch keeps an eye on a peer's process where the kernel lets it.
func (a *agent) watch(owner kernel.ProcessID) (*kernel.Watched, error) {
	if a.cfg.OneHost && !owner.SameHost(a.own) {
		return nil, errors.New("it runs on another host, but the job was said to run on one")
	}
	if !owner.SameSpace(a.own) {
		return nil, nil
	}
	if w := a.processes[owner]; w != nil {
		return w, nil
	}
	w, err := kernel.Watch(a.own, owner)
	if err == nil {
		a.processes[owner] = w
	}
	return w, err
}

// attachable reports an error if this agent needs the help of a peer that may be asleep.
func (a *agent) attachable(p *peer) error {
	if a.mode.thread || !a.cfg.OneHost || p.card.owner == a.own {
		return nil
	}
	const hint = "set UCX_TLS=tcp, which is slower and does without"
	if !p.card.owner.SameSpace(a.own) {
		return fault.New(fault.Engine, "its memory is out of reach without its help: it runs in another pid namespace").
			WithHint("start all ranks in one pid namespace, or " + hint)
	}
	if err := canAttach(p.card.owner); err != nil {
		return fault.New(fault.Engine, "its memory is out of reach without its help: %w", err).
			WithHint("run all ranks as the same user, give them the capability SYS_PTRACE, or " + hint)
	}
	return nil
}

// canAttach tries cross-memory attach on a process. The address is never valid, so
// EFAULT means that the kernel came as far as looking for it.
func canAttach(owner kernel.ProcessID) error {
	var b byte
	local := []unix.Iovec{{Base: &b, Len: 1}}
	remote := []unix.RemoteIovec{{Base: 0, Len: 1}}
	_, err := unix.ProcessVMReadv(int(owner.PID), local, remote, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil
	}
	return fmt.Errorf("process_vm_readv: %w", err)
}

func (a *agent) NewBatch(transfers []nixl.Transfer) (nixl.Batch, error) {
	if a.closed {
		return nil, errClosed
	}
	b, err := a.newBatch(transfers)
	if err != nil {
		return nil, fmt.Errorf("nixl: %w", err)
	}
	return b, nil
}

// closeWithin bounds the end of the library's agent, which takes milliseconds. Tests shorten it.
var closeWithin = 15 * time.Second

// Close releases batches, buffers and the library's agent, and goes on where one of them fails. An agent that the
// library does not end in time is left to it, with the memory that its threads may still use.
func (a *agent) Close() error {
	if a.closed {
		return nil
	}
	a.closed = true
	var errs []error
	for b := range a.batches {
		errs = append(errs, b.Release())
	}
	for l := range a.lists {
		errs = append(errs, l.Release())
	}
	for _, b := range slices.Backward(a.buffers) {
		errs = append(errs, b.deregister())
	}
	status, ended := a.end()
	if ended {
		alive.Delete(a.cfg.Name)
		accountFile.trim(accountFile.file)
		if status < 0 {
			errs = append(errs, fail(status, "closing the agent"))
		}
		errs = append(errs, a.free())
	} else {
		errs = append(errs, fault.New(fault.Engine, "NIXL: the agent is not closed after %v", closeWithin).
			WithHint("a process of this host was killed as it sent (\"Who makes progress\" in docs/engines.md)"))
	}
	for _, w := range a.processes {
		w.Stop()
	}
	// Callers may keep a closed agent, so it holds no memory that counts.
	a.c, a.buffers, a.peers, a.links, a.processes = nil, nil, nil, nil, nil
	a.outgoing = nil
	return errors.Join(errs...)
}

// free frees the memory that nothing of the library can reach any more.
func (a *agent) free() error {
	var errs []error
	for _, b := range slices.Backward(a.buffers) {
		errs = append(errs, b.Free())
	}
	for _, l := range a.links {
		C.free(unsafe.Pointer(l.name))
	}
	C.free(unsafe.Pointer(a.name))
	C.free(unsafe.Pointer(a.c))
	return errors.Join(errs...)
}

// end makes the library end its agent, and reports whether it did so in time. The library waits for its progress
// thread, which looks for ever at a place of UCX's queues that a killed peer has left half filled.
func (a *agent) end() (status C.int, ended bool) {
	c, done := a.c, make(chan C.int, 1)
	go func() { done <- C.papi_close(c) }()
	select {
	case status := <-done:
		return status, true
	case <-time.After(closeWithin):
		return 0, false
	}
}
