package barrier

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"perigee/e2e/bench/transfer"
)

// proofTarget is how much of a barrier's time the proofs of its frames may take.
const proofTarget = 1.05

// proofTurns are more than those of other comparisons, since what is to be seen is smaller.
const proofTurns = 41

// Proofs measures what the proof of every frame costs (package spmd/wire) and prints a table: this program beside a
// build of it without them, in turns.
func Proofs(w io.Writer) error {
	folder, err := os.MkdirTemp("", "perigee-proofs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	unsealed := filepath.Join(folder, "unsealed")
	if err := buildUnsealed(context.Background(), unsealed, "perigee/e2e/bench"); err != nil {
		return err
	}
	fmt.Fprintln(w, "# what the proofs of frames cost between 2 hosts of one rank each, on this machine, over TCP")
	fmt.Fprintln(w, "# without: this program built without proofs; ratio: with / without")
	fmt.Fprintf(w, "%-18s %10s %11s %7s %13s %7s\n", "# operation", "with us", "without us", "ratio", "quartiles",
		"target")
	for _, c := range []struct {
		name   string
		way    Way
		target float64 // 0: none
	}{{"barrier", Links, proofTarget}, {"broadcast of 1 MiB", Broadcast, 0}} {
		r, err := transfer.Compare(transfer.Case{
			Turns: proofTurns, Ours: timed(self, c.way), Theirs: timed(unsealed, c.way),
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		target, verdict := "-", ""
		if c.target > 0 {
			target, verdict = number(c.target), "  ok"
			if r.Ratio > c.target {
				verdict = "  MISSED"
			}
		}
		fmt.Fprintf(w, "%-18s %10s %11s %7.3f %6.3f-%6.3f %7s%s\n", c.name, number(float64(r.Ours)/1e3),
			number(float64(r.Theirs)/1e3), r.Ratio, r.Low, r.High, target, verdict)
	}
	return nil
}

// timed returns a turn of a build: the median of its times.
func timed(program string, way Way) func(int, int) (time.Duration, error) {
	return func(int, int) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(context.Background(), ownLimit)
		defer cancel()
		s, err := meet(ctx, program, way, 2)
		if err != nil {
			return 0, err
		}
		return time.Duration(transfer.Median(s.times)), nil
	}
}

// buildUnsealed builds a package of this module without proofs.
func buildUnsealed(ctx context.Context, file, path string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", "unsealed", "-o", file, path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build a program without proofs: %w\n%s", err, out)
	}
	return nil
}
