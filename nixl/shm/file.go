package shm

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/internal/kernel"
)

// queue is the agent's way to its files. A batch holds the lock while it runs.
type queue struct {
	sync.Mutex
	*kernel.Queue
}

func (a *agent) fileAPI() string { return cmp.Or(a.cfg.FileAPI, nixl.AIO) }

// OpenFile implements nixl.Agent.
func (a *agent) OpenFile(f nixl.File) (nixl.Buffer, error) {
	switch {
	case a.closed:
		return nil, errClosed
	case a.cfg.FileBackend != "" && a.cfg.FileBackend != "POSIX":
		return nil, fault.New(fault.Engine, "the shm engine has no backend %s for files", a.cfg.FileBackend).
			WithHint("use --backend POSIX, or --engine nixl")
	case len(a.buffers) == maxBuffers:
		return nil, fault.New(fault.Resource, "shm: more than %d buffers", maxBuffers)
	}
	if a.queue == nil {
		q, err := kernel.OpenQueue(a.fileAPI())
		if err != nil {
			return nil, err
		}
		a.queue = &queue{Queue: q}
	}
	file, err := device.OpenFile(f)
	if err != nil {
		return nil, err
	}
	return a.keep(file, cardBuffer{fd: -1}), nil
}

// access describes whether the files that were opened are reached past the page cache.
func (a *agent) access() string {
	var files []*device.File
	for _, b := range a.buffers {
		if f := b.file(); f != nil {
			files = append(files, f)
		}
	}
	return device.Access(files)
}

// prepareFile checks a transfer with a file and lists its requests.
func (a *agent) prepareFile(t nixl.Transfer) (task, error) {
	if t.LocalBuffer < 0 || t.LocalBuffer >= len(a.buffers) || a.buffers[t.LocalBuffer].file() != nil {
		return task{}, fmt.Errorf("shm: transfer with a file: no local memory %d", t.LocalBuffer)
	}
	if t.RemoteBuffer < 0 || t.RemoteBuffer >= len(a.buffers) || a.buffers[t.RemoteBuffer].file() == nil {
		return task{}, fmt.Errorf("shm: transfer with a file: buffer %d is none", t.RemoteBuffer)
	}
	local, file := a.buffers[t.LocalBuffer].Bytes(), a.buffers[t.RemoteBuffer].file()
	if t.Notice != nil {
		return task{}, fmt.Errorf("shm: file %s: a file takes no notices", file.Path())
	}
	if err := t.Check(int64(len(local)), file.Size()); err != nil {
		return task{}, fmt.Errorf("shm: file %s: %w", file.Path(), err)
	}
	if err := file.Check(uintptr(unsafe.Pointer(unsafe.SliceData(local))), t); err != nil {
		return task{}, err
	}
	start := clock.Now()
	k := task{number: nixl.Self, file: file, requests: make([]kernel.FilePiece, len(t.Local)), bytes: t.Bytes()}
	fd, write := file.FD(), t.Op == nixl.Write
	for i, l := range t.Local {
		k.requests[i] = kernel.FilePiece{FD: fd, Write: write, Data: local[l.Off : l.Off+l.Len : l.Off+l.Len],
			Off: t.Remote[i].Off}
	}
	k.prep = clock.Now() - start
	return k, nil
}

// list joins the requests of all tasks with files.
func (b *batch) list() {
	for i := range b.tasks {
		k := &b.tasks[i]
		for r := range k.requests {
			k.requests[r].Owner = i
		}
		if len(b.tasks) == 1 {
			b.requests = k.requests
		} else {
			b.requests = append(b.requests, k.requests...)
		}
	}
	if len(b.requests) > 0 {
		b.waiting = make([]int, len(b.tasks))
	}
}

// onceWithFiles hands the requests to the kernel, copies meanwhile what is to be copied, and waits.
func (b *batch) onceWithFiles(l *limits, t *nixl.Times) error {
	q := b.agent.queue
	q.Lock()
	defer q.Unlock()
	for i, k := range b.tasks {
		b.waiting[i] = len(k.requests)
	}
	err := q.Start(b.requests)
	t.Posted = clock.Now()
	if err == nil {
		err = b.copyAll(l, t)
	}
	if err == nil {
		err = b.await(l, t)
	}
	if err == nil {
		return nil
	}
	if !q.Cancel() {
		err = errors.Join(err, errors.New("shm: the kernel still uses the memory of the transfer"))
	}
	return b.explainFile(err)
}

// fileWait bounds a wait for the kernel between two looks at the control.
const fileWait = 10 * time.Millisecond

// await ends the requests and stamps the tasks with files.
func (b *batch) await(l *limits, t *nixl.Times) error {
	stampEach := len(t.Done) == len(b.tasks)
	for {
		all, err := b.agent.queue.Step(fileWait, func(owner int) {
			if b.waiting[owner]--; b.waiting[owner] == 0 && stampEach {
				t.Done[owner] = clock.Now()
			}
		})
		if err != nil {
			return err
		}
		now := clock.Now()
		if all {
			t.End = now
			return nil
		}
		if err := l.look(now); err != nil {
			return b.explain(err, 0)
		}
	}
}

// explainFile names the file that the kernel's error is about.
func (b *batch) explainFile(err error) error {
	e, ok := errors.AsType[*kernel.RequestError](err)
	if !ok {
		return err
	}
	k := b.tasks[e.Owner]
	what := "reading"
	if k.requests[0].Write {
		what = "writing"
	}
	if why := k.file.Trouble(); why != "" {
		return fault.New(fault.Resource, "%s file %s: %w: %s", what, k.file.Path(), e.Err, why).
			WithHint("use another file or folder")
	}
	return fault.New(fault.Resource, "%s file %s: %w", what, k.file.Path(), e.Err).WithHint("is the disk broken?")
}
