// Package cpuwait looks, again and again, for how long the threads of this process have waited for a CPU: a message
// whose bytes are moved by a thread that does not run is slow for that, and not for what traffic costs.
//
// What counts is the wait of the threads that move the bytes, such as that in which UCX makes progress. The thread
// that polls until all is there is ready to run at any time, so that its wait, on a host with more ranks than CPUs, is
// the same whether the bytes wait for the network or for a CPU; it is kept apart, for engines that let it copy.
//
// The kernel counts both in /proc/self/task/TID/schedstat, which are 0 where it does not count.
package cpuwait

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/clock"
	"perigee/internal/traffic/series"
)

const (
	// often is how far apart two looks at all threads are, and soon how far those at two of them are at least, which
	// take two microseconds.
	often, soon = 40 * time.Millisecond, int64(time.Millisecond)
	// mostLooks bounds those that are kept until they are taken. Beyond it every other one goes.
	mostLooks = 1 << 12
)

// Watch looks at the threads of this process. A nil Watch sees nothing.
type Watch struct {
	folder string // of the threads
	own    int    // the thread that posts and polls

	mu      sync.Mutex
	threads map[int]*thread
	mover   int          // the thread that moves the bytes, as far as is known; 0 for none
	polls   map[int]bool // threads that post and poll beside it
	looks   []look
	seen    int64 // when all threads were looked at
	stop    chan struct{}
	stopped sync.WaitGroup
}

// thread is one of the process, with what the kernel said last.
type thread struct {
	file        *os.File
	ran, waited int64 // nanoseconds
}

// look is what some threads, or all, have waited for until an instant.
type look struct {
	ns     int64
	waited map[int]int64
}

// Own begins a watch by the thread that calls it, which is the one that posts and polls.
func Own() *Watch { return in("/proc/self/task", unix.Gettid()) }

func in(folder string, own int) *Watch {
	return &Watch{folder: folder, own: own, threads: map[int]*thread{}, polls: map[int]bool{}}
}

// Start looks from time to time, until Stop: the threads move bytes at times that this process does not know, where
// other ranks post. On a host with many ranks for each CPU it looks more seldom.
func (w *Watch) Start(ranksPerCPU int) {
	if w == nil || w.stop != nil {
		return
	}
	w.stop = make(chan struct{})
	w.stopped.Go(func() {
		const few = 8
		tick := time.NewTicker(often * time.Duration(max(1, ranksPerCPU/few)))
		defer tick.Stop()
		for {
			w.mu.Lock()
			w.look(clock.Now(), true)
			w.mu.Unlock()
			select {
			case <-tick.C:
			case <-w.stop:
				return
			}
		}
	})
}

// Stop ends what Start began, and closes the files.
func (w *Watch) Stop() {
	if w == nil {
		return
	}
	if w.stop != nil {
		close(w.stop)
		w.stopped.Wait()
		w.stop = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.threads {
		w.forget(id)
	}
}

// Polling notes that the calling thread posts and polls, too.
func (w *Watch) Polling() {
	if w == nil {
		return
	}
	if id := unix.Gettid(); id != w.own {
		w.mu.Lock()
		w.polls[id] = true
		w.mu.Unlock()
	}
}

// Look looks at the thread that posts and at that which moves the bytes, unless that was just done: it is for the edges
// of a message, where nothing may take long.
func (w *Watch) Look() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := clock.Now()
	if n := len(w.looks); n > 0 && now-w.looks[n-1].ns < soon {
		return
	}
	w.look(now, w.seen == 0)
}

func (w *Watch) look(now int64, all bool) {
	l := look{ns: now, waited: map[int]int64{}}
	read := func(id int, t *thread) {
		if t.read() {
			l.waited[id] = t.waited
		} else {
			w.forget(id)
		}
	}
	if all {
		w.list()
		for id, t := range w.threads {
			read(id, t)
		}
		w.mover, w.seen = w.longest(), now
	} else {
		for _, id := range []int{w.own, w.mover} {
			if t := w.threads[id]; t != nil {
				read(id, t)
			}
		}
	}
	w.looks = append(w.looks, l)
	if len(w.looks) > mostLooks {
		kept := w.looks[:1]
		for i := 2; i < len(w.looks); i += 2 {
			kept = append(kept, w.looks[i])
		}
		w.looks = kept
	}
}

// longest is the thread that has run longest, but for those that poll; 0 for none.
func (w *Watch) longest() (mover int) {
	most := int64(0)
	for id, t := range w.threads {
		if id != w.own && !w.polls[id] && t.waited > 0 && t.ran > most {
			mover, most = id, t.ran
		}
	}
	return mover
}

// list opens the threads that are new.
func (w *Watch) list() {
	entries, _ := os.ReadDir(w.folder)
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil || w.threads[id] != nil {
			continue
		}
		if file, err := os.Open(filepath.Join(w.folder, e.Name(), "schedstat")); err == nil {
			w.threads[id] = &thread{file: file}
		}
	}
}

func (w *Watch) forget(id int) {
	w.threads[id].file.Close()
	delete(w.threads, id)
}

// read reports whether the thread is still there.
func (t *thread) read() bool {
	var text [64]byte
	n, _ := t.file.ReadAt(text[:], 0)
	fields := bytes.Fields(text[:n])
	if len(fields) < 2 {
		return false
	}
	ran, err := strconv.ParseInt(string(fields[0]), 10, 64)
	waited, failed := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil || failed != nil {
		return false
	}
	t.ran, t.waited = ran, waited
	return true
}

// Take looks, and returns the looks since it was last called, beginning with the last one of then. There are none
// where the kernel does not count. The thread that moves the bytes is the one that has run longest, but for those that
// poll.
func (w *Watch) Take() []series.Look {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(clock.Now(), true)
	own := w.threads[w.own]
	if own == nil || own.ran == 0 || own.waited == 0 {
		w.looks = nil
		return nil
	}
	list := make([]series.Look, len(w.looks))
	moving := int64(0) // of a look at other threads, what was known before
	for i, l := range w.looks {
		if waited, seen := l.waited[w.mover]; seen {
			moving = waited
		}
		list[i] = series.Look{NS: l.ns, Own: l.waited[w.own], Moving: moving}
	}
	w.looks = append(w.looks[:0], w.looks[len(w.looks)-1])
	return list
}
