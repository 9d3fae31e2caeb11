package job

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/stats"
)

// The turns and the targets of Experts.
const (
	expertTurns   = 3
	shortTurns    = 5   // of what takes less than a millisecond
	movingTarget  = 1.3 // moving the messages of a dispatch or of a combine, over the plain all-to-all
	libraryTarget = 1.0 // the plain all-to-all over the faster library
	fromBytes     = 64 << 10
	growthTarget  = 1.25 // a token's cost over that of copying the same bytes, by the median over numbers of tokens
)

var (
	namedLine = regexp.MustCompile(`(?m)^([a-z0-9]+) ([0-9]+)$`)
	bytesLine = regexp.MustCompile(`(?m)^bytes: ([0-9 ]+)$`)
)

// Experts compares what moves in a dispatch and in a combine with a plain all-to-all of the same routed bytes, and
// that with MPI_Alltoallv of the installed libraries, on 2, 4 and 8 local ranks of both engines. In all of them the
// ranks meet in a barrier, a rank's time ends when what it receives is there, and the slowest rank counts.
func (c *Command) Experts(w io.Writer) error {
	libraries, err := Libraries(context.Background(), c.folder)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "# expert parallelism: 7168 channels, top-8, fp8; medians over iterations of the slowest rank in us, and over %d or %d turns, as ratios are\n",
		expertTurns, shortTurns)
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
	return c.tokenCost(w)
}

// What tokenCost measures.
const (
	costRanks  = 2 // at most as many as cores, whose caches are what the figures depend on
	costHidden = 1024
	costTopK   = 8
	costTurns  = 3
)

// tokenCost compares the cost of a token, by the number of tokens, with that of copying the same bytes between areas
// of the same sizes: where these leave the caches, every copy takes longer.
func (c *Command) tokenCost(w io.Writer) error {
	fmt.Fprintf(w, "# cost of a token: dispatch and combine, steady, %d ranks, %d channels, top-%d, fp8; us, medians of %d turns, as ratios are\n",
		costRanks, costHidden, costTopK, costTurns)
	fmt.Fprintln(w, "# copies: the same bytes in the same pieces through areas of the same sizes, and no arithmetic")
	engines := []string{"shm", "nixl"}
	fmt.Fprintln(w, "tokens    copies |       shm  ratio |      nixl  ratio")
	ratios := map[string][]float64{}
	for tokens := 128; tokens <= 4096; tokens *= 2 {
		times, err := c.tokenTurns(tokens, engines)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%6d%10.2f", tokens, stats.Median(times["copies"])/1e3/float64(tokens))
		for _, engine := range engines {
			ratio := ratioOf(times[engine], times["copies"])
			ratios[engine] = append(ratios[engine], ratio)
			fmt.Fprintf(w, " |%10.2f  %5.2f", stats.Median(times[engine])/1e3/float64(tokens), ratio)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "# the largest ratio by the median of all, target %.2f:", growthTarget)
	for _, engine := range engines {
		growth := slices.Max(ratios[engine]) / stats.Median(ratios[engine])
		fmt.Fprintf(w, " %s %.2f %s", engine, growth, outcome(growth <= growthTarget))
	}
	_, err := fmt.Fprintln(w)
	return err
}

// tokenTurns returns the nanoseconds of an iteration in each turn, by engine, and of its copies before and after.
func (c *Command) tokenTurns(tokens int, engines []string) (map[string][]float64, error) {
	times := map[string][]float64{}
	passes := max(5, 6400/tokens)
	for range costTurns {
		copies := Copies(costRanks, tokens, costHidden, costTopK, passes)
		for _, engine := range engines {
			out, _, err := c.run("run", "-n", strconv.Itoa(costRanks), "--engine", engine, c.script("tokens.lua"),
				"--tokens", strconv.Itoa(tokens), "--hidden", strconv.Itoa(costHidden), "--iters", strconv.Itoa(passes))
			if err != nil {
				return nil, err
			}
			m := namedLine.FindStringSubmatch(out)
			if m == nil {
				return nil, fmt.Errorf("no time in %q", out)
			}
			v, _ := strconv.ParseFloat(m[2], 64) // digits
			times[engine] = append(times[engine], v)
		}
		copies += Copies(costRanks, tokens, costHidden, costTopK, passes)
		times["copies"] = append(times["copies"], float64(copies)/2)
	}
	return times, nil
}

// ratioOf is the median over turns of the ratio of two things in the same turn.
func ratioOf(ours, theirs []float64) float64 {
	ratios := make([]float64, len(ours))
	for turn := range ours {
		ratios[turn] = ours[turn] / theirs[turn]
	}
	return stats.Median(ratios)
}

// expertRow measures one number of ranks and tokens on one engine, and each MPI library with the same bytes in the
// same turns. Small exchanges get more iterations and fewer turns, as each takes less time than starting the ranks.
func (c *Command) expertRow(w io.Writer, ranks, tokens int, engine string, libraries []Library) error {
	figures := map[string][]float64{}
	bytes := ""
	turns, iterations := expertTurns, "8"
	if tokens < 128 {
		turns, iterations = shortTurns, "40"
	}
	for range turns {
		out, _, err := c.run("run", "-n", strconv.Itoa(ranks), "--engine", engine, c.script("experts.lua"), "--tokens",
			strconv.Itoa(tokens), "--iters", iterations)
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
	median := func(name string) float64 { return stats.Median(figures[name]) }
	var line strings.Builder
	fmt.Fprintf(&line, "%5d %-6s %6d", ranks, engine, tokens)
	for _, name := range []string{"dispatch", "combine", "e2e"} {
		fmt.Fprintf(&line, "%10.1f", median(name)/1e3)
	}
	line.WriteString(" |")
	for _, mode := range []string{"dispatch", "combine"} {
		moving, plain := "moving"+mode, "plain"+mode
		ratio := ratioOf(figures[moving], figures[plain])
		fmt.Fprintf(&line, "%*s%10.1f%10.1f  %5.2f %-6s", len("  dispatch:"), "", median(moving)/1e3, median(plain)/1e3,
			ratio, outcome(ratio <= movingTarget))
	}
	line.WriteString(" |")
	best := ""
	for _, l := range libraries {
		fmt.Fprintf(&line, " %9.1f", median(l.Name)/1e3)
		if best == "" || median(l.Name) < median(best) {
			best = l.Name
		}
	}
	if best != "" {
		ratio := ratioOf(figures["plaindispatch"], figures[best])
		fmt.Fprintf(&line, "  %5.2f %-6s  %5.2f", ratio, outcome(ratio <= libraryTarget || mean(bytes) < fromBytes),
			ratioOf(figures["movingdispatch"], figures[best]))
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
