package wire

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A link that carries messages to this rank is read by a receiver that waits for one, as
// long as that may help, and by the pump otherwise. A message that comes soon then costs its
// receiver neither a wake-up in the kernel nor one in Go's scheduler, and those are most
// of what a small message costs.
//
// A link is armed while the pump is to be told that bytes have come. A receiver that reads
// a link itself disarms it, and leaves it so when it has found its message: it is likely to
// come back soon. The link is armed again when no receiver has come for a while.

const (
	lookFor    = 50 * time.Microsecond // how long a receiver looks for a message itself
	blockFor   = 2 * time.Millisecond  // and then waits for it in the kernel
	lookBatch  = 4                     // looks between two at the clock
	lendFor    = 10 * time.Millisecond // how long a link stays disarmed when no receiver reads it
	pumpReads  = 16                    // from one link, before the next one's turn comes
	readBuffer = 64 << 10
)

// pump reads the links that no receiver reads itself.
type pump struct {
	ready *os.File // an epoll instance: readable while armed links are
	ep    int      // its descriptor
	done  sync.WaitGroup

	mu    sync.Mutex
	links map[int32]*link // by descriptor
}

func newPump() (*pump, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that Go waits for it, not a thread
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &pump{ready: os.NewFile(uintptr(fd), "links"), ep: fd, links: map[int32]*link{}}
	raw, err := p.ready.SyscallConn()
	if err != nil {
		p.ready.Close()
		return nil, err
	}
	p.done.Go(func() {
		// Read returns when the file is closed.
		raw.Read(func(uintptr) bool {
			p.turn()
			return false
		})
	})
	return p, nil
}

// turn reads all links that have something.
func (p *pump) turn() {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(p.ep, events[:], 0)
		if err != nil && !errors.Is(err, unix.EINTR) || n == 0 {
			return
		}
		for _, e := range events[:max(n, 0)] {
			p.mu.Lock()
			l := p.links[e.Fd]
			p.mu.Unlock()
			if l != nil {
				l.drain()
			}
		}
	}
}

// forget is told of the end of a link, before its descriptor may be another's.
func (p *pump) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, int32(l.fd))
}

// close ends the pump. Its links must have ended.
func (p *pump) close() {
	p.ready.Close()
	p.done.Wait()
}
