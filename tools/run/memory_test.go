package run

import (
	"strings"
	"testing"
	"time"

	"perigee/internal/fault"
	"perigee/spmd"
)

// A rank that fills the memory of its host ends the job before the kernel ends some process.
func TestWatchMemory(t *testing.T) {
	left := func(bytes int64) func() (int64, error) { return func() (int64, error) { return bytes, nil } }
	worlds, _ := spmd.NewInMemory(1)
	k := &rank{world: worlds[0]}
	go k.watchMemory(1<<10, left(0))
	select {
	case <-worlds[0].Context().Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the job goes on")
	}
	if err := worlds[0].Err(); fault.KindOf(err) != fault.Resource || !strings.Contains(err.Error(), "were available at the start, for 1 rank") || fault.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	for available, left := range map[int64]func() (int64, error){1 << 50: left(0), 1 << 10: left(1 << 10)} {
		worlds, _ = spmd.NewInMemory(1)
		k = &rank{world: worlds[0]}
		go k.watchMemory(available, left)
		time.Sleep(3 * watchEvery)
		if err := worlds[0].Err(); err != nil {
			t.Errorf("with enough memory: %v", err)
		}
		worlds[0].Close()
	}
}
