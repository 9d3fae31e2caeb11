package job

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"perigee/e2e/bench/transfer"
)

// What Connect measures.
const (
	connectTurns  = 5
	connectRounds = 5 // in each turn, after one that does not count
	connectTarget = 1.5
)

// buffers are registered by each agent, two as in connect.lua. Their size does not change what connecting costs.
var buffers = [2]int64{1 << 20, 1 << 20}

// Connect compares the phase connect of the control plane on NIXL with the library's part of it: the same calls by
// processes that have nothing but an agent each and get the cards of the others by a pipe. All ranks begin at the same
// time, and the slowest counts.
func (c *Command) Connect(w io.Writer) error {
	fmt.Fprintf(w, "# connecting NIXL agents: the control plane against the sum of the library's calls (target %.1f); medians of %d rounds, in turns\n",
		connectTarget, connectTurns*connectRounds)
	for _, ranks := range []int{2, 4, 8} {
		var cases [2][]time.Duration
		for range connectTurns {
			ours, err := c.connect(ranks)
			if err != nil {
				return err
			}
			bare, err := bareConnect(ranks)
			if err != nil {
				return err
			}
			cases[0], cases[1] = append(cases[0], ours...), append(cases[1], bare...)
		}
		ours, bare := transfer.Median(cases[0]), transfer.Median(cases[1])
		ratio := float64(ours) / float64(bare)
		fmt.Fprintf(w, "%d ranks: control plane %8.2f ms, library %8.2f ms, %5.2f %s\n", ranks, ours.Seconds()*1e3,
			bare.Seconds()*1e3, ratio, outcome(ratio <= connectTarget))
	}
	return nil
}

// connect plays rounds of the control plane.
func (c *Command) connect(ranks int) (times []time.Duration, err error) {
	out, _, err := c.run("run", "-n", strconv.Itoa(ranks), "--engine", "nixl", c.script("connect.lua"))
	if err != nil {
		return nil, err
	}
	for _, m := range namedLine.FindAllStringSubmatch(out, -1) {
		ns, _ := strconv.ParseInt(m[2], 10, 64) // digits
		times = append(times, time.Duration(ns))
	}
	if len(times) != connectRounds {
		return nil, fmt.Errorf("%d rounds in %q", len(times), out)
	}
	return times, nil
}

// bareConnect plays as many rounds without perigee.
func bareConnect(ranks int) (times []time.Duration, err error) {
	b, err := StartBare(ranks, buffers)
	if err != nil {
		return nil, err
	}
	for round := range connectRounds + 1 {
		took, err := b.Connect()
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		if round > 0 {
			times = append(times, took)
		}
	}
	return times, b.Close()
}
