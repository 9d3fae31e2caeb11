package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/fault"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
	"perigee/spmd"
)

// damaged is a buffer whose bytes at some places read as something else.
type damaged struct {
	nixl.Buffer
	flips map[int64]byte
}

func (d damaged) ReadAt(p []byte, off int64) (int, error) {
	n, err := d.Buffer.ReadAt(p, off)
	for at, bits := range d.flips {
		if at >= off && at < off+int64(n) {
			p[at-off] ^= bits
		}
	}
	return n, err
}

// A single wrong byte is found wherever it is, and said exactly.
func TestVerifyFindsOneWrongByte(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(rt, "ranks")
		m := drawMatrix(rt, n, "cells")
		if m.Cells() == 0 {
			rt.Skip("nobody sends")
		}
		receiver := rapid.SampledFrom(m.Receivers()).Draw(rt, "receiver")
		cell := rapid.SampledFrom(m.Column(receiver)).Draw(rt, "sender")
		off := rapid.Int64Range(0, cell.Bytes-1).Draw(rt, "off")
		bits := byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		_, recvAt := layout(m, cell.Peer, receiver)

		errs := sessions(t, n, func(w *spmd.World, s *Session) error {
			plans, err := s.Prepare([]Pattern{{Name: "other", Matrix: m, Shards: 1}, {Name: "mine", Matrix: m, Shards: 2}})
			if err != nil {
				return err
			}
			p := plans[1]
			if w.Rank() == receiver {
				p.arena.recv = damaged{p.arena.recv, map[int64]byte{recvAt + off: bits}}
			}
			return p.Verify()
		})
		err := errs[receiver]
		c, ok := errors.AsType[*Corruption](err)
		if !ok || fault.KindOf(err) != fault.Corrupt {
			rt.Fatalf("rank %d: got %v, want a corruption", receiver, err)
		}
		want := wanted(1, cell.Peer, receiver, off)
		if *c != (Corruption{
			Pattern: "mine", Sender: cell.Peer, Receiver: receiver, Offset: off,
			Want: want, Got: want ^ bits, WrongBytes: 1, WrongMessages: 1,
		}) {
			rt.Fatalf("got %+v, want byte %d from %d to %d, 0x%02x for 0x%02x", *c, off, cell.Peer, receiver, want^bits, want)
		}
	})
}

func TestCorruptionNamesEverything(t *testing.T) {
	m := fromRows(t, []int64{0, 100}, []int64{0, 50})
	errs := sessions(t, 2, func(w *spmd.World, s *Session) error {
		plans, err := s.Prepare([]Pattern{{Name: "kv", Matrix: m, Shards: 1}})
		if err != nil {
			return err
		}
		if w.Rank() == 1 {
			plans[0].arena.recv = damaged{plans[0].arena.recv, map[int64]byte{3: 1, 99: 2, 110: 4}}
		}
		return plans[0].Verify()
	})
	right := wanted(0, 0, 1, 3)
	want := fmt.Sprintf("verification failed: kv: message from rank 0 to rank 1: byte 3 is 0x%02x, want 0x%02x (wrong bytes in this message: 2; wrong messages: 2)", right^1, right)
	if errs[1] == nil || errs[1].Error() != want {
		t.Errorf("got  %v\nwant %s", errs[1], want)
	}
	if errs[0] == nil {
		t.Error("rank 0 goes on as if nothing had happened")
	}
}

// swallowing is an agent that loses the transfers to one peer.
type swallowing struct {
	nixl.Agent
	lost int
}

func (a swallowing) NewBatch(list []nixl.Transfer) (nixl.Batch, error) {
	var kept []nixl.Transfer
	for _, t := range list {
		if t.Peer != a.lost {
			kept = append(kept, t)
		}
	}
	return a.Agent.NewBatch(kept)
}

// What was not moved at all does not look right because an earlier run had moved it.
func TestVerifyFindsWhatDidNotMove(t *testing.T) {
	m := fromRows(t, []int64{0, 10, 10}, []int64{0, 0, 0}, []int64{0, 0, 0})
	errs := sessions(t, 3, func(w *spmd.World, s *Session) error {
		plans, err := s.Prepare([]Pattern{{Matrix: m, Shards: 1}})
		if err != nil {
			return err
		}
		if err := plans[0].Verify(); err != nil {
			return fmt.Errorf("too early: %w", err)
		}
		if w.Rank() == 0 {
			whole := plans[0].batch
			defer whole.Release()
			if plans[0].batch, err = (swallowing{s.agent, 2}).NewBatch(plans[0].transfers(0, 0, 1)); err != nil {
				return err
			}
			plans[0].peers = []int{1}
		}
		return plans[0].Verify()
	})
	c, ok := errors.AsType[*Corruption](errs[2])
	if !ok || c.Sender != 0 || c.Receiver != 2 || c.WrongBytes != 10 || strings.Contains(errs[2].Error(), "too early") {
		t.Errorf("rank 2: got %v, want 10 wrong bytes from rank 0", errs[2])
	}
}

// Messages larger than what is checked at a time are checked to their end.
func TestVerifyOfLargeMessages(t *testing.T) {
	const size = 2*chunk + 13
	m, err := matrix.Ring(2, size, 1)
	if err != nil {
		t.Fatal(err)
	}
	errs := sessions(t, 2, func(w *spmd.World, s *Session) error {
		plans, err := s.Prepare([]Pattern{{Matrix: m, Shards: 3}})
		if err != nil {
			return err
		}
		if err := plans[0].Verify(); err != nil {
			return fmt.Errorf("too early: %w", err)
		}
		if w.Rank() == 1 {
			plans[0].arena.recv = damaged{plans[0].arena.recv, map[int64]byte{chunk + 1: 9, size - 1: 9}}
		}
		return plans[0].Verify()
	})
	c, ok := errors.AsType[*Corruption](errs[1])
	if !ok || c.Offset != chunk+1 || c.WrongBytes != 2 {
		t.Errorf("got %v, want 2 wrong bytes from %d on", errs[1], chunk+1)
	}
}

func TestReceivedShowsHeads(t *testing.T) {
	m := fromRows(t, []int64{4, 40}, []int64{0, 3})
	play(t, 2, func(w *spmd.World, s *Session) error {
		plans, err := s.Prepare([]Pattern{{Matrix: m, Shards: 1}})
		if err != nil {
			return err
		}
		if err := plans[0].Verify(); err != nil {
			return err
		}
		heads, err := plans[0].Received(8)
		if err != nil {
			return err
		}
		senders := 0
		for i := range 2 {
			var want []byte
			for k := range min(m.At(i, w.Rank()), 8) {
				want = append(want, wanted(0, i, w.Rank(), k))
			}
			if want != nil {
				senders++
			}
			if !bytes.Equal(heads[i], want) {
				return fmt.Errorf("from rank %d: got %x, want %x", i, heads[i], want)
			}
		}
		if len(heads) != senders {
			return fmt.Errorf("heads of %d messages, want %d", len(heads), senders)
		}
		return nil
	})
}
