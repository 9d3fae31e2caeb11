package play

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// checkReceived compares a rank's receive buffer with what all senders sent.
func checkReceived(p *LoadPlan, me int) error {
	buffer, off := p.Reserved.Lanes[0].Buffer(load.Place{Side: load.Recv})
	m := p.Load.(load.Pattern).Matrix
	if m.Total() == 0 {
		return nil
	}
	all := buffer.Bytes()
	for i := range m.Size() {
		for k := range m.At(i, me) {
			at := off + placeOf(p.Load, i, me, k)
			if got, want := all[at], wantedByte(k, p.Number, i, me); got != want {
				return fmt.Errorf("pattern %d, %d -> %d, byte %d: got %d, want %d", p.Number, i, me, k, got, want)
			}
		}
	}
	return nil
}

// placeOf is where a byte of a message lies in its receiver's buffer, behind the guard.
func placeOf(l load.Load, sender, receiver int, off int64) int64 {
	_, received := l.Messages(receiver, 0)
	for _, m := range received {
		if m.Sender != sender {
			continue
		}
		for _, piece := range m.Pieces {
			if off < piece.Len {
				return piece.Off + off
			}
			off -= piece.Len
		}
	}
	return -1
}

// Whatever the matrices, shards and directions, and however often the buffers
// have to grow, every byte arrives where it belongs.
func TestEveryByteArrives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "ranks")
		calls := make([][]load.Load, rapid.IntRange(1, 3).Draw(rt, "calls"))
		for c := range calls {
			for p := range rapid.IntRange(1, 3).Draw(rt, "patterns") {
				calls[c] = append(calls[c], load.Pattern{
					Name: fmt.Sprintf("%d.%d", c, p), Matrix: drawMatrix(rt, n, "cells"),
					Op:     rapid.SampledFrom([]nixl.Op{nixl.Write, nixl.Read}).Draw(rt, "op"),
					Shards: rapid.IntRange(1, 9).Draw(rt, "shards"),
				})
			}
		}
		mustRanks(t, n, func(w *spmd.World, s *session.Session) error {
			var plans []*LoadPlan
			for _, patterns := range calls {
				more, err := Prepare(s, patterns)
				if err != nil {
					return err
				}
				plans = append(plans, more...)
			}
			for _, p := range plans {
				if err := Verify(p); err != nil {
					return err
				}
				if err := checkReceived(p, w.Rank()); err != nil {
					return err
				}
				if err := w.All().Barrier(); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// try runs a body on sessions of a damaged engine.
func try(t testing.TB, n int, d *traffictest.Damaged, body func(w *spmd.World, s *session.Session) error) []error {
	t.Helper()
	return onRanks(t, n, d, nixl.AgentConfig{}, body)
}

// recvBuffer is the ID of the buffer that a lane receives into.
const recvBuffer = 1

// A single wrong byte is found wherever it is, and said exactly.
func TestVerifyFindsOneWrongByte(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(rt, "ranks")
		m := drawMatrix(rt, n, "cells")
		if m.Cells() == 0 {
			rt.Skip("no rank sends")
		}
		receiver := rapid.SampledFrom(m.Receivers()).Draw(rt, "receiver")
		cell := rapid.SampledFrom(m.Column(receiver)).Draw(rt, "sender")
		off := rapid.Int64Range(0, cell.Bytes-1).Draw(rt, "off")
		bits := byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		mine := load.Pattern{Name: "mine", Matrix: m, Shards: 2}
		at := placeOf(mine, cell.Peer, receiver, off)
		d := &traffictest.Damaged{Rank: receiver, Buffer: recvBuffer, Flips: map[int64]byte{session.Guard + at: bits}}
		errs := try(t, n, d, func(w *spmd.World, s *session.Session) error {
			plans, err := Prepare(s, []load.Load{
				load.Pattern{Name: "other", Matrix: m, Shards: 1}, mine,
			})
			if err != nil {
				return err
			}
			return Verify(plans[1])
		})
		err := errs[receiver]
		c, ok := errors.AsType[*Corruption](err)
		if !ok || fault.KindOf(err) != fault.Corrupt {
			rt.Fatalf("rank %d: got %v, want a corruption", receiver, err)
		}
		want := wantedByte(off, 1, cell.Peer, receiver)
		if *c != (Corruption{
			Label: "mine", Sender: cell.Peer, Receiver: receiver, Block: -1, Offset: off,
			Want: want, Got: want ^ bits, WrongBytes: 1, WrongMessages: 1,
		}) {
			rt.Fatalf("got %+v, want byte %d from %d to %d, 0x%02x for 0x%02x", *c, off, cell.Peer, receiver, want^bits, want)
		}
	})
}

// prepareOne prepares a single load.
func prepareOne(s *session.Session, l load.Load) (*LoadPlan, error) { return New(s, l) }

func TestCorruptionNamesEverything(t *testing.T) {
	m := fromRows(t, []int64{0, 100}, []int64{0, 50})
	d := &traffictest.Damaged{Rank: 1, Buffer: recvBuffer, Flips: map[int64]byte{session.Guard + 3: 1, session.Guard + 99: 2, session.Guard + 110: 4}}
	errs := try(t, 2, d, func(w *spmd.World, s *session.Session) error {
		p, err := prepareOne(s, load.Pattern{Name: "kv", Matrix: m, Shards: 1})
		if err != nil {
			return err
		}
		return Verify(p)
	})
	right := wantedByte(3, 0, 0, 1)
	want := fmt.Sprintf("verification failed: kv: message from rank 0 to rank 1: byte 3 is 0x%02x, want 0x%02x (wrong bytes in this message: 2; wrong messages: 2)", right^1, right)
	if errs[1] == nil || errs[1].Error() != want {
		t.Errorf("got  %v\nwant %s", errs[1], want)
	}
	if errs[0] == nil {
		t.Error("rank 0 goes on as if nothing had happened")
	}
}

// What was not moved at all does not look right because an earlier run had moved it.
func TestVerifyFindsWhatDidNotMove(t *testing.T) {
	m := fromRows(t, []int64{0, 10, 10}, []int64{0, 0, 0}, []int64{0, 0, 0})
	d := &traffictest.Damaged{Rank: 0, Buffer: -1, Lost: 2}
	errs := try(t, 3, d, func(w *spmd.World, s *session.Session) error {
		p, err := prepareOne(s, load.Pattern{Matrix: m, Shards: 1})
		if err != nil {
			return err
		}
		if err := Verify(p); err != nil {
			return fmt.Errorf("too early: %w", err)
		}
		if w.Rank() == 0 {
			d.Losing = true
		}
		return Verify(p)
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
	must.Do(t, err)
	d := &traffictest.Damaged{Rank: 1, Buffer: recvBuffer, Flips: map[int64]byte{}}
	errs := try(t, 2, d, func(w *spmd.World, s *session.Session) error {
		p, err := prepareOne(s, load.Pattern{Matrix: m, Shards: 3})
		if err != nil {
			return err
		}
		if err := Verify(p); err != nil {
			return fmt.Errorf("too early: %w", err)
		}
		if w.Rank() == 1 {
			for _, off := range []int64{chunk + 1, size - 1} {
				d.Flips[session.Guard+placeOf(p.Load, 0, 1, off)] = 9
			}
		}
		return Verify(p)
	})
	c, ok := errors.AsType[*Corruption](errs[1])
	if !ok || c.Offset != chunk+1 || c.WrongBytes != 2 {
		t.Errorf("got %v, want 2 wrong bytes from %d on", errs[1], chunk+1)
	}
}

// An engine that drops a single measured run is found, though the runs before it brought all bytes: rounds differ.
func TestCheckFindsAStaleRun(t *testing.T) {
	m := fromRows(t, []int64{0, 100, 10}, []int64{0, 0, 0}, []int64{0, 0, 0})
	d := &traffictest.Damaged{Rank: 0, Buffer: -1, Lost: 2}
	errs := try(t, 3, d, func(w *spmd.World, s *session.Session) error {
		p, err := prepareOne(s, load.Pattern{Matrix: m, Shards: 1})
		if err != nil {
			return err
		}
		for round := range 5 {
			if err := Fill(p, round); err != nil {
				return err
			}
			if w.Rank() == 0 {
				d.Losing = round == 3
			}
			if err := p.Run(1, true); err != nil {
				return err
			}
			if err := Check(p, round); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		return nil
	})
	if c, ok := errors.AsType[*Corruption](errs[2]); !ok || c.Sender != 0 || c.WrongBytes != 10 || !strings.HasPrefix(errs[2].Error(), "round 3:") {
		t.Errorf("rank 2: got %v, want 10 wrong bytes in round 3", errs[2])
	}
}

// What is sent from must stay as it is.
func TestCheckLooksAtTheSource(t *testing.T) {
	m := fromRows(t, []int64{0, 100}, []int64{0, 0})
	d := &traffictest.Damaged{Rank: 0, Buffer: 0, Lost: -9, Flips: map[int64]byte{7: 1}}
	errs := try(t, 2, d, func(w *spmd.World, s *session.Session) error {
		p, err := prepareOne(s, load.Pattern{Name: "kv", Matrix: m, Shards: 1})
		if err != nil {
			return err
		}
		return Verify(p)
	})
	if errs[0] == nil || !strings.HasPrefix(errs[0].Error(), "verification failed: kv: rank 0, the memory sent from: byte 7 is ") {
		t.Errorf("rank 0: got %v", errs[0])
	}
}

// A plan that can not be run can not be verified.
func TestVerifyRefuses(t *testing.T) {
	m := fromRows(t, []int64{0, 5}, []int64{0, 0})
	mustRanks(t, 2, func(w *spmd.World, s *session.Session) error {
		p, err := prepareOne(s, load.Pattern{Name: "p", Matrix: m, Shards: 1})
		if err != nil {
			return err
		}
		if err := p.Post(); err != nil {
			return err
		}
		if err := Verify(p); err == nil || err.Error() != "p: the plan has been posted and not waited for" {
			return fmt.Errorf("posted: got %v", err)
		}
		if err := errors.Join(p.Wait(true), p.Release()); err != nil {
			return err
		}
		if err := Verify(p); err == nil || err.Error() != "p: the plan has been released" {
			return fmt.Errorf("released: got %v", err)
		}
		return nil
	})
}

func TestReceivedShowsHeads(t *testing.T) {
	m := fromRows(t, []int64{4, 40}, []int64{0, 3})
	mustRanks(t, 2, func(w *spmd.World, s *session.Session) error {
		plans, err := Prepare(s, []load.Load{load.Pattern{Matrix: m, Shards: 1}})
		if err != nil {
			return err
		}
		if err := Verify(plans[0]); err != nil {
			return err
		}
		heads, err := Received(plans[0], 8)
		if err != nil {
			return err
		}
		senders := 0
		for i := range 2 {
			var want []byte
			for k := range min(m.At(i, w.Rank()), 8) {
				want = append(want, wantedByte(int64(k), 0, i, w.Rank()))
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
