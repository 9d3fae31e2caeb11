package nixltest

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/clock"
	"perigee/nixl"
)

// footprint counts the memory, files, threads and mappings of a process.
type footprint struct{ resident, files, threads, maps int }

// lookAt measures this process.
func lookAt() (footprint, error) {
	var f footprint
	debug.FreeOSMemory() // Go keeps freed memory for a while
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return f, err
	}
	number := func(key string) int {
		_, rest, _ := strings.Cut(string(status), key+":")
		n, _ := strconv.Atoi(strings.Fields(rest)[0])
		return n
	}
	f.resident, f.threads = number("VmRSS"), number("Threads")
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return f, err
	}
	f.files = len(entries)
	maps, err := os.ReadFile("/proc/self/maps")
	f.maps = bytes.Count(maps, []byte("\n"))
	return f, err
}

// lives opens and closes two agents of this process q.Runs times: open, register, connect, transfer, notify,
// disconnect, reconnect, close.
func (s *server) lives(q request) (response, error) {
	for i := range q.Runs {
		if err := s.life(q.Config, i); err != nil {
			return response{}, fmt.Errorf("life %d: %w", i, err)
		}
	}
	f, err := lookAt()
	return response{Times: []nixl.Times{{Done: []int64{int64(f.resident), int64(f.files), int64(f.threads),
		int64(f.maps)}}}}, err
}

// life opens two agents, lets them meet, transfer, part and meet again, and closes them, under the same names in each
// round: what a library keeps of an agent that is closed shows in the next.
func (s *server) life(cfg nixl.AgentConfig, round int) error {
	engine, err := s.open()
	if err != nil {
		return err
	}
	var pair [2]nixl.Agent
	for i := range pair {
		cfg.Name = fmt.Sprintf("life-%d-%d", os.Getpid(), i) // the same in each round
		if pair[i], err = engine.NewAgent(cfg); err != nil {
			return err
		}
		defer pair[i].Close()
		if _, err := pair[i].Alloc(nixl.DRAM, 100_000); err != nil {
			return err
		}
	}
	// The second time the agents are closed while they are connected.
	for meeting := range 2 {
		if err := meet(pair); err != nil {
			return err
		}
		for i, a := range pair {
			b, err := a.NewBatch([]nixl.Transfer{{Peer: 1 - i, Local: []nixl.Desc{{Len: 1000}},
				Remote: []nixl.Desc{{Len: 1000}}}})
			if err == nil {
				err = b.Run(nixl.Control{}, 3, nil)
			}
			if err == nil && meeting == 0 {
				err = a.Disconnect([]int{1 - i})
			}
			if err != nil {
				return err
			}
		}
	}
	for _, a := range pair {
		if err := a.Close(); err != nil {
			return err
		}
	}
	return nil
}

// meet connects two agents and sends a notice from each to the other.
func meet(pair [2]nixl.Agent) error {
	for i, a := range pair {
		card, err := pair[1-i].Card()
		if err == nil {
			err = a.AddPeer(1-i, card)
		}
		if err != nil {
			return err
		}
	}
	for i, a := range pair {
		if err := a.Connect([]int{1 - i}); err != nil {
			return err
		}
	}
	ctl := nixl.Control{Deadline: clock.Now() + int64(patience)}
	if err := nixl.Poll(ctl, func() (bool, error) {
		all := true
		for _, a := range pair {
			if err := a.Progress(); err != nil {
				return false, err
			}
			ok, err := a.Connected()
			if err != nil {
				return false, err
			}
			all = all && ok
		}
		return all, nil
	}); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	for i, a := range pair {
		if err := a.Notify(1-i, []byte("here I am")); err != nil {
			return err
		}
	}
	for heard := 0; heard < 2; {
		for _, a := range pair {
			notices, err := a.Receive(nil)
			if err != nil {
				return err
			}
			heard += len(notices)
		}
	}
	return nil
}

// testManyLives expects that agents leave nothing behind, whatever their number.
func testManyLives(t *testing.T, s Setup) {
	rounds, warm := s.Lives, min(50, s.Lives)
	w := startRemote(t)
	defer w.in.Close()
	measure := func(rounds int) []int64 {
		r := w.do(request{Call: callLives, Runs: rounds, Config: s.Config})
		if err := r.err(); err != nil {
			t.Fatal(err)
		}
		return r.Times[0].Done
	}
	segments := ucxSegments(t)
	before := measure(warm)
	start := time.Now()
	half := max(1, rounds/2)
	between := measure(half)
	after := measure(half)
	t.Logf("%d rounds, %v each: resident KiB, files, threads, mappings %v before, %v between, %v after",
		2*half, time.Since(start)/time.Duration(2*half), before, between, after)
	// What lives leave behind grows in both halves. Allocators, and the race detector's own memory, grow once by some
	// MiB where the garbage collector gets a CPU late.
	limits := []int64{4096 + int64(half), 0, 4, 20}
	for i, name := range []string{"resident memory in KiB", "open files", "threads", "mappings"} {
		if grown := min(between[i]-before[i], after[i]-between[i]); grown > limits[i] {
			t.Errorf("%s: %d after %d lives, %d and %d after %d more each", name, before[i], warm, between[i], after[i],
				half)
		}
	}
	// Other processes of this host make such files too, and remove each a moment later: what counts is those that stay.
	left := ucxSegments(t)
	left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(segments, name) })
	for deadline := time.Now().Add(patience); len(left) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left in /dev/shm: %v", left)
		}
		now := ucxSegments(t)
		left = slices.DeleteFunc(left, func(name string) bool { return !slices.Contains(now, name) })
	}
}

// ucxSegments lists the shared memory of UCX that has a name.
func ucxSegments(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("/dev/shm")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "ucx_shm_") {
			names = append(names, e.Name())
		}
	}
	return names
}
