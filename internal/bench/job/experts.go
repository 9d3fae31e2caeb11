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
	movingTarget  = 1.3 // moving the messages of a dispatch or of a combine, over the plain all-to-all
	libraryTarget = 1.0 // the plain all-to-all over the faster library
	fromBytes     = 64 << 10
)

var (
	namedLine = regexp.MustCompile(`(?m)^([a-z0-9]+) ([0-9]+)$`)
	bytesLine = regexp.MustCompile(`(?m)^bytes: ([0-9 ]+)$`)
)

// Experts compares what moves in a dispatch and in a combine with a plain all-to-all of the same routed bytes, and
// that with MPI_Alltoallv of the installed libraries, on 2, 4 and 8 local ranks of both engines. In all of them the
// ranks meet in a barrier, a rank's time ends when what it receives is there, and the slowest rank counts.
func (c *Command) Experts(w io.Writer) error {
	libraries, err := experts.Libraries(context.Background(), c.folder)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "# expert parallelism: 7168 channels, top-8, fp8; medians over iterations of the slowest rank in us, of %d turns\n",
		expertTurns)
	fmt.Fprintf(w, "# targets: moving/plain %.1f; plain/MPI %.1f from 64 KiB for each pair on\n", movingTarget,
		libraryTarget)
	header := "ranks engine tokens  dispatch   combine       e2e |  dispatch:    moving     plain  ratio         combine:    moving     plain  ratio        |"
	for _, l := range libraries {
		header += fmt.Sprintf(" %9s", l.Name)
	}
	fmt.Fprintln(w, header+"  plain/MPI      moving/MPI")
	for _, ranks := range []int{2, 4, 8} {
		for _, engine := range []string{"shm", "nixl"} {
			// The second is the fewest tokens with which a pair of ranks exchanges 64 KiB.
			for _, tokens := range []int{128, (9*ranks + 7) / 8} {
				if err := c.expertRow(w, ranks, tokens, engine, libraries); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *Command) expertRow(w io.Writer, ranks, tokens int, engine string, libraries []experts.Library) error {
	figures := map[string][]float64{}
	bytes := ""
	for range expertTurns {
		out, _, err := c.run("run", "-n", strconv.Itoa(ranks), "--engine", engine, c.script("experts.lua"), "--tokens",
			strconv.Itoa(tokens))
		if err != nil {
			return err
		}
		for _, m := range namedLine.FindAllStringSubmatch(out, -1) {
			v, _ := strconv.ParseFloat(m[2], 64) // digits
			figures[m[1]] = append(figures[m[1]], v)
		}
		m := bytesLine.FindStringSubmatch(out)
		if m == nil {
			return fmt.Errorf("no bytes in %q", out)
		}
		bytes = m[1]
		for _, l := range libraries {
			ns, err := l.Median(context.Background(), ranks, bytes)
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
	fmt.Fprintf(&line, "%5d %-6s %6d", ranks, engine, tokens)
	for _, name := range []string{"dispatch", "combine", "e2e"} {
		fmt.Fprintf(&line, "%10.1f", median(name)/1e3)
	}
	line.WriteString(" |")
	for _, mode := range []string{"dispatch", "combine"} {
		moving, plain := median("moving"+mode), median("plain"+mode)
		fmt.Fprintf(&line, "%*s%10.1f%10.1f  %5.2f %-6s", len("  dispatch:"), "", moving/1e3, plain/1e3, moving/plain,
			outcome(moving/plain <= movingTarget))
	}
	line.WriteString(" |")
	best := 0.0
	for _, l := range libraries {
		fmt.Fprintf(&line, " %9.1f", median(l.Name)/1e3)
		if best == 0 || median(l.Name) < best {
			best = median(l.Name)
		}
	}
	if best > 0 {
		ratio := median("plaindispatch") / best
		fmt.Fprintf(&line, "  %5.2f %-6s  %5.2f", ratio, outcome(ratio <= libraryTarget || mean(bytes) < fromBytes),
			median("movingdispatch")/best)
	}
	_, err := fmt.Fprintln(w, line.String())
	return err
}

// mean returns the mean of numbers with blanks between them.
func mean(text string) float64 {
	words := strings.Fields(text)
	sum := 0.0
	for _, word := range words {
		v, _ := strconv.ParseFloat(word, 64) // digits
		sum += v
	}
	return sum / float64(len(words))
}

func outcome(ok bool) string {
	if ok {
		return "ok"
	}
	return "MISSED"
}
