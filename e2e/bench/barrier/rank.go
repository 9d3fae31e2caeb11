package barrier

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"perigee/internal/kit/clock"
	"perigee/spmd"
	"perigee/spmd/boot"
)

const (
	batch     = 10                   // barriers between two looks at the clock
	slow      = time.Millisecond     // of a barrier from which on a batch is one
	trial     = 5 * time.Millisecond // of barriers that show how long one takes,
	maxTrial  = 256                  // and how many suffice
	maxSingle = 200                  // barriers of which the skew is measured
	budget    = 100 * time.Millisecond
)

// envRank marks a process as a rank of this benchmark. Its value is a Way.
const envRank = "PERIGEE_BENCH_BARRIER"

// IsRank reports whether this process was started as a rank of the benchmark.
// The program that calls Run must then call Rank and nothing else.
func IsRank() bool { return os.Getenv(envRank) != "" }

// Rank is a rank of the benchmark. Rank 0 prints one line per batch, "time" with the
// nanoseconds of one barrier, and one per single barrier, "skew" with the nanoseconds
// between the first rank that left it and the last.
func Rank() error {
	ctx := context.Background()
	p, err := boot.Join(ctx, os.LookupEnv, boot.Watcher{})
	if err != nil {
		return err
	}
	opts := spmd.Options{Timeout: time.Minute}
	way := Way(os.Getenv(envRank))
	if way != Memory {
		opts.HostID = strconv.Itoa(p.Rank)
	}
	w, err := spmd.Join(ctx, p, opts)
	if err != nil {
		return err
	}
	times, skews, err := measure(w.All(), operation(w.All(), way))
	if err != nil {
		w.Fail(err)
		w.Close()
		return err
	}
	for _, t := range times {
		fmt.Printf("time %.1f\n", t)
	}
	for _, s := range skews {
		fmt.Printf("skew %d\n", s)
	}
	return w.Close()
}

// operation returns the operation of a way, which does it n times.
func operation(g *spmd.Group, way Way) func(n int) error {
	if way != Broadcast {
		return func(n int) error {
			for range n {
				if err := g.Barrier(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	data := make([]byte, 1<<20)
	return func(n int) error {
		for range n {
			if _, err := g.Broadcast(0, data); err != nil {
				return err
			}
		}
		return g.Barrier() // all have it
	}
}

// measure returns, at rank 0, the nanoseconds of one operation per batch, and the skew of
// each single one.
func measure(g *spmd.Group, do func(n int) error) (times []float64, skews []int64, err error) {
	once := func(n int) float64 {
		start := clock.Now()
		if err == nil {
			err = do(n)
		}
		return float64(clock.Now()-start) / float64(n)
	}
	once(1) // pays for what comes into being with it
	var one float64
	for n, enough := 1, false; !enough; n *= 4 {
		one = once(n)
		if err != nil {
			return nil, nil, err
		}
		if enough, err = spmd.BroadcastValue(g, 0, one*float64(n) > float64(trial) || n >= maxTrial); err != nil {
			return nil, nil, err
		}
	}
	type plan struct{ Batch, Batches, Single int }
	mine := plan{Batch: batch, Single: min(int(float64(budget)/one)+1, maxSingle)}
	if one >= float64(slow) {
		mine.Batch = 1
	}
	mine.Batches = int(float64(budget)/(one*float64(mine.Batch))) + 1
	common, err := spmd.BroadcastValue(g, 0, mine)
	if err != nil {
		return nil, nil, err
	}
	times = make([]float64, common.Batches)
	for i := range times {
		times[i] = once(common.Batch)
	}
	left := make([]int64, common.Single)
	for i := range left {
		if err == nil {
			err = do(1)
		}
		left[i] = clock.Now()
	}
	if err != nil {
		return nil, nil, err
	}
	all, err := spmd.GatherValue(g, 0, left)
	if err != nil || g.Me() != 0 {
		return nil, nil, err
	}
	return times, skewsOf(all), nil
}

// skewsOf returns how long after the first rank the last has left each barrier. left is
// by rank, then by barrier.
func skewsOf(left [][]int64) []int64 {
	skews := make([]int64, len(left[0]))
	for i := range skews {
		var at []int64
		for _, l := range left {
			at = append(at, l[i])
		}
		skews[i] = slices.Max(at) - slices.Min(at)
	}
	return skews
}
