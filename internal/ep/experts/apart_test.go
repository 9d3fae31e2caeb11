package experts

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/must"
	"perigee/nixl"
)

// badAgent makes batches that fail or never end with some peers.
type badAgent struct {
	nixl.Agent
	runs map[int]string
}

func (a badAgent) NewBatch(list []nixl.Transfer) (nixl.Batch, error) {
	return &badBatch{a: a, peer: list[0].Peer}, nil
}

type badBatch struct {
	nixl.Batch
	a    badAgent
	peer int
}

func (b *badBatch) fails(at string) error {
	if b.a.runs[b.peer] == at {
		return fmt.Errorf("%s with peer %d", at, b.peer)
	}
	return nil
}

func (b *badBatch) Post() error { return b.fails("post") }

func (b *badBatch) Done() (bool, error) {
	return b.fails("hang") == nil && b.fails("done") == nil, b.fails("done")
}

func (b *badBatch) Wait(nixl.Control, *nixl.Times) error {
	if err := b.fails("wait"); err != nil {
		return err
	}
	b.a.runs[b.peer] = "over"
	return nil
}

func (b *badBatch) Release() error { return nil }

// Peers with which a transfer fails keep no other from its own.
func TestApart(t *testing.T) {
	a := badAgent{runs: map[int]string{1: "post", 2: "", 3: "done", 4: "wait", 5: "hang", 6: ""}}
	var list []nixl.Transfer
	for peer := range a.runs {
		list = append(list, nixl.Transfer{Peer: peer})
	}
	batch, err := newApart(slog.New(slog.DiscardHandler), a, list)
	must.Do(t, err)
	err = batch.Run(nixl.Control{Deadline: clock.Now() + int64(10*time.Millisecond)}, 1, nil)
	late, ok := errors.AsType[*nixl.TimeoutError](err)
	if !ok || !slices.Equal(late.Peers, []int{1, 3, 4, 5}) || a.runs[2] != "over" || a.runs[6] != "over" {
		t.Errorf("%v, %v", err, a.runs)
	}
	aborted := uint32(1)
	if err := batch.Run(nixl.Control{Abort: &aborted}, 1, nil); !errors.Is(err, nixl.ErrAborted) {
		t.Errorf("got %v, want the abort", err)
	}
}
