package shm

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/internal/kernel"
)

// mail holds the notices of an agent. Runs that were posted send from their own goroutine, so
// its lock guards outboxes and own.
type mail struct {
	fd    int // of the inbox's memfd, -1 before the first card
	entry cardBuffer
	inbox shared // mapped by the first Receive
	heard uint64 // the doorbell at the last look
	own   [][]byte
	boxes map[string]*outbox // by the receiver's name
}

// openInbox makes the inbox that the card names. An agent without one can do everything but receive notices.
func (a *agent) openInbox() {
	if a.mail.fd >= 0 || a.mail.entry.size != 0 {
		return
	}
	fd, err := newInbox()
	if err != nil {
		return
	}
	entry, err := describe(fd, inboxSize)
	if err != nil {
		unix.Close(fd)
		return
	}
	a.mail.fd, a.mail.entry = fd, entry
}

// Notify implements nixl.Agent.
func (a *agent) Notify(number int, message []byte) error {
	if a.closed {
		return errClosed
	}
	p := a.peers[number]
	if p == nil {
		return fmt.Errorf("shm: notice to peer %d: it was not added", number)
	}
	if err := nixl.CheckNotice(message); err != nil {
		return fmt.Errorf("shm: peer %d: %w", number, err)
	}
	w, err := a.watch(p.card.owner)
	if err == nil && w.Gone() {
		err = kernel.ProcessLost(p.card.owner)
	}
	if err == nil {
		err = a.notify(p, message)
	}
	if err != nil {
		return fault.New(fault.Engine, "notice to peer %d: %w", number, err)
	}
	return nil
}

// notify sends a notice to a peer; it may be called by a posted run.
func (a *agent) notify(p *peer, message []byte) error {
	a.lock.Lock()
	defer a.lock.Unlock()
	if p.card.name == a.name {
		a.mail.own = append(a.mail.own, slices.Clone(message))
		return nil
	}
	box := a.mail.boxes[p.card.name]
	if box == nil {
		var err error
		if box, err = openOutbox(p.card.owner, p.card.inbox, a.name); err != nil {
			return err
		}
		a.mail.boxes[p.card.name] = box
	}
	box.send(message)
	return nil
}

// Receive implements nixl.Agent.
func (a *agent) Receive(into []nixl.Notice) ([]nixl.Notice, error) {
	if a.closed {
		return into, errClosed
	}
	a.flush()
	if number, ok := a.numbers[a.name]; ok {
		a.lock.Lock()
		for _, message := range a.mail.own {
			into = append(into, nixl.Notice{Peer: number, Data: message})
		}
		a.mail.own = a.mail.own[:0]
		a.lock.Unlock()
	}
	if err := a.mapInbox(); err != nil {
		return into, err
	}
	// The doorbell is read first: what comes after it rings again.
	bell := atomic.LoadUint64(&a.mail.inbox.head().doorbell)
	if bell == a.mail.heard {
		return into, nil
	}
	a.mail.heard = bell
	err := a.takeAll(func(number int, message []byte) {
		into = append(into, nixl.Notice{Peer: number, Data: message})
	})
	return into, err
}

// mapInbox maps the own inbox, once.
func (a *agent) mapInbox() error {
	if a.mail.inbox != nil {
		return nil
	}
	a.openInbox()
	if a.mail.fd < 0 {
		_, err := newInbox() // once more, for the reason
		return err
	}
	var err error
	a.mail.inbox, err = mapInbox(a.mail.fd)
	return err
}

// takeAll empties the rings of all senders that were added.
func (a *agent) takeAll(f func(number int, message []byte)) error {
	m := a.mail.inbox
	for i := range min(int(atomic.LoadUint32(&m.head().used)), slots) {
		switch atomic.LoadUint32(&m.slot(i).state) {
		case slotFree, slotClaimed:
			continue
		}
		number, ok := a.numbers[m.sender(i)]
		if !ok {
			continue
		}
		if err := m.take(i, func(message []byte) { f(number, message) }); err != nil {
			return err
		}
	}
	return nil
}

// flush sends what had no room in the rings of peers.
func (a *agent) flush() {
	a.lock.Lock()
	defer a.lock.Unlock()
	for _, box := range a.mail.boxes {
		if len(box.pending) > 0 {
			box.flush()
		}
	}
}

// discard drops what came from an agent, and frees its slot if its process is gone, because a dead sender does not
// close it.
func (a *agent) discard(name string, gone bool) error {
	a.lock.Lock()
	defer a.lock.Unlock()
	if name == a.name {
		a.mail.own = nil
		return nil
	}
	var err error
	if box := a.mail.boxes[name]; box != nil {
		err = box.close()
		delete(a.mail.boxes, name)
	}
	if a.mail.fd < 0 {
		return err
	}
	if e := a.mapInbox(); e != nil {
		return errors.Join(err, e)
	}
	m := a.mail.inbox
	for i := range min(int(atomic.LoadUint32(&m.head().used)), slots) {
		state := atomic.LoadUint32(&m.slot(i).state)
		if state == slotFree || state == slotClaimed || m.sender(i) != name {
			continue
		}
		if gone {
			m.free(i)
		} else if e := m.take(i, func([]byte) {}); e != nil {
			err = e
		}
	}
	return err
}

// close ends all sending and receiving.
func (m *mail) close() error {
	var first error
	for _, box := range m.boxes {
		if err := box.close(); err != nil && first == nil {
			first = err
		}
	}
	if err := unmap(m.inbox); err != nil && first == nil {
		first = err
	}
	if m.fd >= 0 {
		unix.Close(m.fd)
	}
	m.inbox, m.boxes, m.own, m.fd = nil, nil, nil, -1
	return first
}
