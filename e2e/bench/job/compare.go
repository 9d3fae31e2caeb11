package job

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"time"
)

const (
	// equalTurns and slowerTurns are the numbers of comparisons of equal sides, and of sides that differ.
	equalTurns, slowerTurns = 60, 30
	// injected is the share of bytes, and so of time, by which one pattern is larger on the second side.
	injected = 0.2
)

// Compare prints how often perigee rerun finds a change between equal runs (target: the level of the test plus what
// so many comparisons may exceed it by chance), and how often it finds a pattern that takes 20 % longer (target:
// 0.9).
func (c *Command) Compare(w io.Writer) error {
	fmt.Fprintln(w, "verdicts of perigee rerun A B, runs in the order a b b a; alpha 0.05")
	fmt.Fprintln(w, "     runs a side  B differs from A                    found    share    target      time")
	const alpha = 0.05
	for _, runs := range []int{4, 5} {
		bound := alpha + 2*math.Sqrt(alpha*(1-alpha)/equalTurns)
		found, took, err := c.verdicts(runs, 0, equalTurns)
		if err != nil {
			return err
		}
		compareLine(w, runs, "in nothing", found, equalTurns, fmt.Sprintf("<= %.3f", bound),
			float64(found)/equalTurns <= bound, took)
	}
	found, took, err := c.verdicts(5, injected, slowerTurns)
	if err != nil {
		return err
	}
	compareLine(w, 5, "in 20 % more bytes of a pattern", found, slowerTurns, ">= 0.900",
		float64(found) >= 0.9*slowerTurns, took)
	return nil
}

func compareLine(w io.Writer, runs int, what string, found, of int, target string, ok bool, took time.Duration) {
	verdict := "MISSED"
	if ok {
		verdict = "ok"
	}
	fmt.Fprintf(w, "%16d  %-32s  %3d of %d    %.3f  %s  %6.1f s  %s\n", runs, what, found, of,
		float64(found)/float64(of), target, took.Seconds(), verdict)
}

// verdicts compares so many times, and returns how often there was any verdict; where the sides differ, how often it
// was found that the larger pattern is slower.
func (c *Command) verdicts(runs int, more float64, turns int) (found int, took time.Duration, err error) {
	start := time.Now()
	var sides [2]string
	for i, share := range []float64{0, more} {
		sides[i] = filepath.Join(c.folder, fmt.Sprintf("compare-%d.json.zst", i))
		if _, _, err := c.run("run", c.script("compare.lua"), "--engine", "shm", "--more", fmt.Sprint(share),
			"--result", sides[i]); err != nil {
			return 0, 0, err
		}
	}
	for range turns {
		out, _, err := c.run("rerun", sides[0], sides[1], "--times", strconv.Itoa(runs), "--format", "json",
			"--fail-on", "none")
		if err != nil {
			return 0, 0, err
		}
		hit, err := anyVerdict(out, more > 0)
		if err != nil {
			return 0, 0, err
		}
		if hit {
			found++
		}
	}
	return found, time.Since(start), nil
}

// anyVerdict reports whether a comparison found the second pattern slower, or, where nothing was injected, any change.
func anyVerdict(text string, slower bool) (bool, error) {
	var c struct {
		Better, Worse int
		Rows          []struct {
			Pattern, Sender *int
			Verdict         string
		}
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return false, err
	}
	if !slower {
		return c.Better+c.Worse > 0, nil
	}
	for _, r := range c.Rows {
		if r.Pattern != nil && *r.Pattern == 1 && r.Sender == nil && r.Verdict == "worse" {
			return true, nil
		}
	}
	return false, nil
}
