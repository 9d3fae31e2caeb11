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
	worlds, _ := spmd.NewInMemory(1)
	k := &rank{world: worlds[0]}
	go k.watchMemory(1 << 10)
	select {
	case <-worlds[0].Context().Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the job goes on")
	}
	if err := worlds[0].Err(); fault.KindOf(err) != fault.Resource || !strings.Contains(err.Error(), "were available at the start, for 1 rank") || fault.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	worlds, _ = spmd.NewInMemory(1)
	k = &rank{world: worlds[0]}
	go k.watchMemory(1 << 50)
	time.Sleep(3 * watchEvery)
	if err := worlds[0].Err(); err != nil {
		t.Errorf("with enough memory: %v", err)
	}
	worlds[0].Close()
}
