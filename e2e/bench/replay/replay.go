// Package replay measures how late a rank posts what a schedule has it post: messages of 8 bytes to another rank, at a
// rate, for 10 seconds. Lateness is absolute, by the clock that both ranks have in common. This program is the ranks,
// too: Rank is what they do.
package replay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"perigee/internal/kit/stats"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/play"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/nixl/engines"
	"perigee/spmd"
	"perigee/spmd/boot"
	"perigee/spmd/launch"
)

const (
	lasts  = 10 * time.Second
	target = time.Millisecond // of the 99th percentile
	// lead is what ranks have to prepare.
	lead = 500 * time.Millisecond
	// places are how many messages lie one after the other before they begin at the first again.
	places, bytesEach = 64, 8
)

// envRank marks a process as a rank of this benchmark. Its value is the engine, the messages per second, and for how
// long they are posted.
const envRank = "PERIGEE_BENCH_REPLAY"

// IsRank reports whether this process was started as a rank of the benchmark. The program that calls Run must then call
// Rank and nothing else.
func IsRank() bool { return os.Getenv(envRank) != "" }

// Run prints a line for each engine and rate.
func Run(w io.Writer) error {
	fmt.Fprintf(w, "# one rank posts messages of %d bytes to another for %v (target: none dropped, lateness p99 %v)\n",
		bytesEach, lasts, target)
	fmt.Fprintf(w, "%-6s %8s %8s %8s %8s %9s %9s %9s\n", "# on", "posts/s", "posts", "dropped", "s", "p50 us", "p99 us",
		"max us")
	var errs []error
	for _, engine := range []string{"shm", "nixl"} {
		for _, rate := range []int{5_000, 20_000} {
			errs = append(errs, one(w, engine, rate, lasts))
		}
	}
	return errors.Join(errs...)
}

// one lets two ranks of this program measure; rank 0 prints the line.
func one(w io.Writer, engine string, rate int, lasts time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var complaints bytes.Buffer
	err = launch.Run(context.Background(), launch.LocalJob{
		Ranks: 2, Path: self, Env: append(os.Environ(), fmt.Sprintf("%s=%s %d %d", envRank, engine, rate, lasts)),
		Stdout: w, Stderr: &complaints,
	})
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", engine, err, complaints.Bytes())
	}
	return nil
}

// Rank joins the other rank, and measures.
func Rank() error {
	var engine string
	var rate, ns int
	if _, err := fmt.Sscan(os.Getenv(envRank), &engine, &rate, &ns); err != nil {
		return fmt.Errorf("%s: %w", envRank, err)
	}
	ctx := context.Background()
	p, err := boot.Join(ctx, os.LookupEnv, boot.Watcher{})
	if err != nil {
		return err
	}
	w, err := spmd.Join(ctx, p, spmd.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	launch.Punctual()
	if err := measure(w, engine, rate, time.Duration(ns)); err != nil {
		w.Fail(err)
		w.Close()
		return err
	}
	return w.Close()
}

func measure(w *spmd.World, name string, rate int, lasts time.Duration) error {
	engine, _, err := engines.Open(name, "", true, "", nixl.Backend{})
	if err != nil {
		return err
	}
	s, err := session.Open(w, engine, nixl.AgentConfig{Progress: "auto"}, 1)
	if err != nil {
		return err
	}
	due := make([]int64, int(float64(rate)*lasts.Seconds()))
	for k := range due {
		due[k] = int64(k) * int64(time.Second) / int64(rate)
	}
	part := load.Part{From: 0, To: 1, Runs: []load.DescriptorRun{{Count: 1, Bytes: bytesEach}}}
	schedule, err := load.NewSchedule(load.Schedule{
		Due: due, Pool: places * bytesEach,
		Parts: func(list []load.Part, _ int) []load.Part { return append(list, part) },
	}, w.Size())
	if err != nil {
		return err
	}
	plan, err := play.New(s, schedule)
	if err != nil {
		return err
	}
	zero, err := spmd.BroadcastValue(w.All(), 0, w.Now()+int64(lead))
	if err != nil {
		return err
	}
	done := make([]play.Timed, 0, len(due))
	err = plan.Follow(play.Pace{End: len(due), Zero: zero}, func(list []play.Timed) { done = append(done, list...) })
	if err != nil {
		return err
	}
	if w.Rank() == 0 {
		print(name, rate, len(due), done)
	}
	if err := w.All().Barrier(); err != nil {
		return err
	}
	return s.Close()
}

// print prints the line of what rank 0 posted.
func print(engine string, rate, wanted int, done []play.Timed) {
	slices.SortFunc(done, func(a, b play.Timed) int { return cmp.Compare(a.Transfer, b.Transfer) })
	done = slices.CompactFunc(done, func(a, b play.Timed) bool { return a.Transfer == b.Transfer })
	late := make([]float64, len(done)) // us
	for k, t := range done {
		late[k] = float64(t.Posted-t.Due) / 1e3
	}
	span := done[len(done)-1].Posted - done[0].Posted
	slices.Sort(late)
	at := func(q float64) float64 { return stats.Quantile(late, q) }
	dropped, verdict := wanted-len(done), "ok"
	if at(0.99)*1e3 > float64(target) || dropped > 0 {
		verdict = "MISSED"
	}
	fmt.Printf("%-6s %8d %8d %8d %8.4f %9.1f %9.1f %9.1f  %s\n", engine, rate, len(done), dropped, float64(span)/1e9,
		at(0.5), at(0.99), at(1), verdict)
}
