package spmd

import (
	"context"
	"fmt"
	"slices"
)

// A rank may end before the job does. It departs, which the coordinator alone is told; that a rank ends without
// it stays a failure of the job. The others cannot know when it has departed, so they must know that it will: they
// Lose it before they next meet without it.

// Depart takes leave for this rank alone: when it has returned nil the end of the process is no failure, however it
// ends. The process must end then, without Close. A rank that coordinates the job must not depart.
func (w *World) Depart() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	w.log.Info("departing: the process ends before the job")
	return w.monitor.Leave(ctx)
}

// Lose leaves ranks that depart out of All for ever. All others call it between the same collectives. It waits for
// nothing. Size, Hosts and the numbers of ranks stay.
func (w *World) Lose(ranks []int) error {
	living := slices.DeleteFunc(slices.Clone(w.All().ranks), func(r int) bool { return slices.Contains(ranks, r) })
	if !slices.Contains(living, w.rank) {
		return fmt.Errorf("rank %d cannot lose itself", w.rank)
	}
	g, err := w.Group(living)
	if err != nil {
		return err
	}
	w.all.Store(g)
	return nil
}

// Lost lists the ranks that Lose has left out, ascending.
func (w *World) Lost() (lost []int) {
	g := w.all.Load()
	if g == nil || len(g.ranks) == w.size {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(identity(w.size)), func(r int) bool { return slices.Contains(g.ranks, r) })
}
