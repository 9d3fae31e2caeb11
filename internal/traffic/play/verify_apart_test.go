package play

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// together fills all plans, runs them without a barrier in between, and checks them.
func together(plans []*LoadPlan, before func()) error {
	for _, p := range plans {
		if err := Fill(p, 3); err != nil {
			return err
		}
	}
	before()
	for _, p := range plans {
		if err := p.Run(1, false); err != nil {
			return err
		}
	}
	for _, p := range plans {
		if err := Check(p, 3); err != nil {
			return err
		}
	}
	return nil
}

// Whatever the patterns, those that are made apart leave all their bytes though all of them run at the same time, and
// they have the numbers of the first ones, which go on as before.
func TestApart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "ranks")
		var loads []load.Load
		for i := range rapid.IntRange(1, 6).Draw(rt, "patterns") {
			p := load.Pattern{
				Name: fmt.Sprint(i), Matrix: drawMatrix(rt, n, "cells"),
				Op:     rapid.SampledFrom([]nixl.Op{nixl.Write, nixl.Read}).Draw(rt, "op"),
				Shards: rapid.IntRange(1, 5).Draw(rt, "shards"), Lane: load.Lane(rapid.IntRange(0, 1).Draw(rt, "lane")),
			}
			if loads = append(loads, p); rapid.Bool().Draw(rt, "clock") {
				loads[i] = load.Clocked{Load: p}
			}
		}
		mustRanks(t, n, func(w *spmd.World, s *session.Session) error {
			plans, err := Prepare(s, loads)
			if err != nil {
				return err
			}
			apart, err := Apart(s, plans)
			if err != nil || apart == nil {
				return fmt.Errorf("apart: %v, %w", apart, err)
			}
			for round := range 3 {
				if err := together(apart, func() {}); err != nil {
					return fmt.Errorf("round %d: %w", round, err)
				}
			}
			for i, p := range plans {
				if apart[i].Number != p.Number {
					return fmt.Errorf("plan %d has the number %d", p.Number, apart[i].Number)
				}
				if err := Verify(p); err != nil {
					return err
				}
			}
			more, err := New(s, loads[0])
			if err == nil && more.Number != len(plans) {
				err = fmt.Errorf("the next plan has the number %d, want %d", more.Number, len(plans))
			}
			return err
		})
	})
}

// A message that is lost while another pattern brings bytes to the same receiver is found, and so is none where nothing is
// lost; patterns that share memory would look wrong either way, and are refused.
func TestApartFindsWhatTheWorkloadLost(t *testing.T) {
	first := fromRows(t, []int64{0, 0, 100}, []int64{0, 0, 0}, []int64{0, 0, 0})
	second := fromRows(t, []int64{0, 0, 0}, []int64{0, 0, 50}, []int64{0, 0, 0})
	for _, c := range []struct{ losing, apart, found bool }{{true, true, true}, {false, true, false}, {false, false, true}} {
		d := &traffictest.Damaged{Rank: 1, Buffer: -1, Lost: 2}
		errs := try(t, 3, d, func(w *spmd.World, s *session.Session) error {
			plans, err := Prepare(s, []load.Load{
				load.Pattern{Name: "first", Matrix: first, Shards: 1}, load.Pattern{Name: "second", Matrix: second, Shards: 2},
			})
			if err == nil && c.apart {
				plans, err = Apart(s, plans)
			}
			if err != nil {
				return err
			}
			return together(plans, func() {
				if w.Rank() == 1 {
					d.Losing = c.losing
				}
			})
		})
		if want := "check: second has run since fill"; !c.apart {
			if err := errors.Join(errs...); fault.KindOf(errs[2]) != fault.Script || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %v, want %s", c, err, want)
			}
			continue
		}
		found, ok := errors.AsType[*Corruption](errs[2])
		if ok != c.found || ok && (found.Label != "second" || found.Sender != 1 || found.WrongBytes != 50) {
			t.Errorf("%+v: got %v", c, errs[2])
		}
	}
}

// The workload in GPU memory is verified as that in host memory: a wrong byte is found, a right one passes, and where
// the GPU has too little left for patterns apart from each other there are none.
func TestApartInGPUMemory(t *testing.T) {
	m := fromRows(t, []int64{0, 2*chunk + 9}, []int64{100, 0})
	for _, c := range []struct {
		left  int64
		flips map[int64]byte
	}{{1 << 30, nil}, {1 << 30, map[int64]byte{session.Guard + chunk + 7: 4}}, {3 * chunk, nil}} {
		d := &traffictest.Damaged{Engine: traffictest.Engine{VRAM: c.left}, Rank: 1, Buffer: 3, Lost: -9, Flips: c.flips}
		errs := try(t, 2, d, func(w *spmd.World, s *session.Session) error {
			plans, err := Prepare(s, []load.Load{
				load.Pattern{Name: "first", Matrix: m, Shards: 1, Mem: nixl.VRAM},
				load.Pattern{Name: "second", Matrix: m, Shards: 3, Mem: nixl.VRAM},
			})
			if err != nil {
				return err
			}
			apart, err := Apart(s, plans)
			if err != nil || (apart == nil) != (c.left < 1<<30) {
				return fmt.Errorf("%d bytes left: apart: %v, %w", c.left, apart, err)
			}
			return together(apart, func() {})
		})
		found, ok := errors.AsType[*Corruption](errs[1])
		if ok != (c.flips != nil) || !ok && errs[1] != nil ||
			ok && (found.Label != "first" || found.Offset != chunk+7 || found.WrongBytes != 1 || found.Want^found.Got != 4) {
			t.Errorf("%+v: got %v", c, errs[1])
		}
	}
}

// Storage operations share their files, so such a plan stays as it is.
func TestApartLeavesStorage(t *testing.T) {
	m := fromRows(t, []int64{0, 10}, []int64{0, 0})
	path := t.TempDir() + "/f"
	mustRanks(t, 2, func(w *spmd.World, s *session.Session) error {
		plans, err := Prepare(s, []load.Load{
			load.Pattern{Matrix: m, Shards: 1, Storage: map[int]load.StorageOp{0: {Path: path, FileSize: 99, ReadSize: 9}}},
			load.Pattern{Matrix: m, Shards: 1},
		})
		if err != nil {
			return err
		}
		apart, err := Apart(s, plans)
		if err == nil && (apart[0] != plans[0] || apart[1] == plans[1]) {
			err = errors.New("the wrong plan stayed as it was")
		}
		return err
	})
}
