package job

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/bench/experts"
)

// The turns and the targets of Experts.
const (
	expertTurns   = 3
	movingTarget  = 1.3 // a dispatch without what it computes, over the plain all-to-all
	libraryTarget = 1.0 // the plain all-to-all over the faster library
	fromBytes     = 64 << 10
)

var namedLine = regexp.MustCompile(`(?m)^([a-z0-9]+) ([0-9]+)$`)

// Experts compares dispatch and combine with a plain all-to-all of as many bytes, and that with MPI_Alltoallv of the
// installed libraries, on 2, 4 and 8 local ranks of both engines.
func (c *Command) Experts(w io.Writer) error {
	libraries, err := experts.Libraries(context.Background(), c.folder)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "# expert parallelism: 128 tokens, 7168 channels, top-8, fp8; medians of the slowest rank in us, of %d turns\n", expertTurns)
	fmt.Fprintf(w, "# targets: moving/plain %.1f; plain/MPI %.1f from 64 KiB for each pair on\n", movingTarget,
		libraryTarget)
	header := "ranks engine  dispatch   combine       e2e    moving     plain  moving/plain"
	for _, l := range libraries {
		header += fmt.Sprintf("  %9s", l.Name)
	}
	fmt.Fprintln(w, header+"  plain/MPI")
	for _, ranks := range []int{2, 4, 8} {
		for _, engine := range []string{"shm", "nixl"} {
			if err := c.expertRow(w, ranks, engine, libraries); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Command) expertRow(w io.Writer, ranks int, engine string, libraries []experts.Library) error {
	figures := map[string][]float64{}
	for range expertTurns {
		out, _, err := c.run("run", "-n", strconv.Itoa(ranks), "--engine", engine, c.script("experts.lua"))
		if err != nil {
			return err
		}
		for _, m := range namedLine.FindAllStringSubmatch(out, -1) {
			v, _ := strconv.ParseFloat(m[2], 64) // digits
			figures[m[1]] = append(figures[m[1]], v)
		}
		if len(figures["pair"]) == 0 {
			return fmt.Errorf("no figures in %q", out)
		}
		for _, l := range libraries {
			ns, err := l.Median(context.Background(), ranks, int(figures["pair"][0]))
			if err != nil {
				return fmt.Errorf("%s: %w", l.Name, err)
			}
			figures[l.Name] = append(figures[l.Name], ns)
		}
	}
	median := func(name string) float64 {
		list := slices.Sorted(slices.Values(figures[name]))
		return list[len(list)/2]
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%5d %-6s", ranks, engine)
	for _, name := range []string{"dispatch", "combine", "e2e", "moving", "plain"} {
		fmt.Fprintf(&line, "%10.1f", median(name)/1e3)
	}
	moving := median("moving") / median("plain")
	fmt.Fprintf(&line, "  %5.2f %-6s", moving, outcome(moving <= movingTarget))
	best := 0.0
	for _, l := range libraries {
		fmt.Fprintf(&line, "  %9.1f", median(l.Name)/1e3)
		if best == 0 || median(l.Name) < best {
			best = median(l.Name)
		}
	}
	if best > 0 {
		ratio := median("plain") / best
		fmt.Fprintf(&line, "  %5.2f %s", ratio, outcome(ratio <= libraryTarget || median("pair") < fromBytes))
	}
	_, err := fmt.Fprintln(w, line.String())
	return err
}

func outcome(ok bool) string {
	if ok {
		return "ok"
	}
	return "MISSED"
}
