// Package truth runs experiments whose outcome follows from how they are made, and compares it with what perigee says:
// senders that share a link for a known time, pairs that share nothing, a rank that is stopped. They show that
// contention is found where there is some, of the right size, and that none is found where there is none.
//
// truth.go has the experiments, each with what is expected and a function that runs it. lab.go runs perigee and reads
// its results; net.go builds hosts in network namespaces whose links have a known rate. k senders that share one link
// take k times as long as alone, by the arithmetic of the link, and a ratio may be off by a tenth.
//
// The experiments need root and a kernel that shapes traffic; ErrKernel and harness.ErrNamespaces say where they
// cannot run. The tests in e2e/hosts run some of them, make bench all.
package truth

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee/internal/figures"
	"perigee/internal/figures/contention"
	"perigee/internal/figures/metric"
	"perigee/internal/kit/stats"
)

//go:embed shared.lua
var shared string

//go:embed stopped.lua
var stopped string

//go:embed late.lua
var late string

// A single pair, with a pause before each run that lets CPUs and caches cool down.
const (
	pairConfig = `iters: 10
isolation_iters: 10
traffic_patterns:
- {matrix_file: pair.txt, mem_type: cpu, sleep_before_launch_sec: 0.02}
`
	pairMatrix = "0 1M\n0 0\n"
)

// tolerance is how far a ratio may be off.
const tolerance = 0.1

// Experiment is one with a known answer.
type Experiment struct {
	Name   string
	Expect string
	// Run returns what came out, for people, and whether that was expected.
	Run func(l *Lab) (got string, ok bool, err error)
}

// Experiments are all of them. turns is how often those run whose answer is that there is nothing.
func Experiments(turns int) []Experiment {
	list := []Experiment{
		Together(2), Together(3), Together(4), Later(), Half(), Disjoint(), Stopped(), Late(turns), RivalComes(),
		Unchanged(turns),
	}
	for _, engine := range []string{"shm", "nixl"} {
		pair := func(l *Lab) (*found, error) {
			return l.local("sequential-ct-perftest", "pair.yaml", "--engine", engine)
		}
		demo := func(l *Lab) (*found, error) { return l.demo(engine) }
		list = append(list, calm("one pair alone, "+engine, turns, pair), calm("demo workload, "+engine, turns, demo))
	}
	return slices.Concat(list, Repetitions(2*turns), CPUs(turns))
}

// Repetitions are commands that have to say the same, and the right thing, in 19 of 20 repetitions.
func Repetitions(turns int) (list []Experiment) {
	for _, engine := range []string{"shm", "nixl"} {
		list = append(list, repeated("one pair alone, "+engine, figures.Apart, turns, func(l *Lab) (*found, error) {
			return l.local("sequential-ct-perftest", "pair.yaml", "--engine", engine)
		}), repeated("16 ranks on 2 CPUs, "+engine, figures.Waits, turns, func(l *Lab) (*found, error) {
			return l.crowd(engine)
		}))
	}
	return append(list, repeated("2 senders over one link", contention.Costs, turns, func(l *Lab) (*found, error) {
		return l.remote(3, "--bytes", "4M", "--alone", "16", "--iters", "16")
	}))
}

// Together is k senders to one receiver over one link, which begin at the same time.
func Together(k int) Experiment {
	return Experiment{
		Name:   fmt.Sprintf("%d senders to one receiver over one link", k),
		Expect: fmt.Sprintf("contention, all %d pairs named, %d times +- 10 %%", k, k),
		Run: func(l *Lab) (string, bool, error) {
			f, err := l.remote(k + 1)
			if err != nil {
				return "", false, err
			}
			text, ok := f.pairsAre(k, float64(k))
			return text, ok && f.sum.Slows() && len(f.sum.Pairs) == k, nil
		},
	}
}

// Later is two senders to one receiver, the second of which begins when half of what the first sends is through: then
// each has the link for itself for half a message, and shares it for the other half, which takes twice as long.
func Later() Experiment {
	return Experiment{
		Name:   "the second sender begins when half of the first is through",
		Expect: "1.5 times +- 10 % for both, overlap 0.67 +- 10 % of the time",
		Run: func(l *Lab) (string, bool, error) {
			f, err := l.remote(3, "--case", "later")
			if err != nil {
				return "", false, err
			}
			text, ok := f.pairsAre(2, 1.5)
			ok = ok && f.sum.Slows() && near(f.sum.Share, 2./3)
			return fmt.Sprintf("%s, overlap %.2f", text, f.sum.Share), ok, nil
		},
	}
}

// Half is two senders to one receiver, the second of which is silent in every other iteration.
func Half() Experiment {
	return Experiment{
		Name:   "the second sender sends in every other iteration",
		Expect: "2 times +- 10 % against the workload's other half",
		Run: func(l *Lab) (string, bool, error) {
			f, err := l.remote(3, "--case", "half", "--iters", "20")
			if err != nil {
				return "", false, err
			}
			s := f.sum
			return fmt.Sprintf("%.2f times (%.2f to %.2f) against the %s", s.Ratio, s.Low, s.High, s.Of),
				s.Slows() && s.Of == contention.Workload && near(s.Ratio, 2), nil
		},
	}
}

// Disjoint is two pairs that share neither rank nor host nor link.
func Disjoint() Experiment {
	return Experiment{
		Name:   "two pairs that share nothing",
		Expect: "no message overlapped with one that it shared anything with",
		Run: func(l *Lab) (string, bool, error) {
			f, err := l.remote(4, "--case", "disjoint")
			if err != nil {
				return "", false, err
			}
			return fmt.Sprintf("%d of %d messages overlapped", f.sum.Marked, f.sum.Messages),
				f.sum.Marked == 0 && f.sum.Messages > 0, nil
		},
	}
}

// sideRuns is how many runs a comparison has on each side, of the arguments short.
const sideRuns = 4

var short = []string{"--bytes", "4M", "--alone", "6", "--iters", "10"}

// sides runs two cases in turns and compares them.
func (l *Lab) sides(old, fresh string) (*compared, error) {
	var paths [2][]string
	for k := range 2 * sideRuns {
		side := (k + 1) / 2 % 2 // in the order a b b a
		path, err := l.record(3, append(short, "--case", []string{old, fresh}[side])...)
		if err != nil {
			return nil, err
		}
		paths[side] = append(paths[side], path)
	}
	return l.compare(paths[0], paths[1])
}

// RivalComes compares two senders that take turns with the same two at the same time.
func RivalComes() Experiment {
	return Experiment{
		Name:   "compare: two senders, in turns and then at the same time",
		Expect: "contention rose from 1 to 2 times +- 10 %, both pairs named",
		Run: func(l *Lab) (string, bool, error) {
			c, err := l.sides("apart", "together")
			if err != nil {
				return "", false, err
			}
			words, ok := strings.Join(c.Findings, " "), len(c.Findings) == 2
			for _, row := range c.Rows {
				if row.Metric == "contention" {
					ok = ok && row.Verdict == "differs" && row.Old == 1 && near(row.New, 2)
				}
			}
			for sender := range 2 {
				ok = ok && strings.Contains(words, fmt.Sprintf("%d \u2192 2 rose", sender))
			}
			return words, ok, nil
		},
	}
}

// Unchanged compares runs with contention with other runs of the same, several times over.
func Unchanged(turns int) Experiment {
	most := 2 // at 5 %, more come by chance in 1 of 80 times 10 comparisons
	return Experiment{
		Name:   "compare: contention that did not change",
		Expect: fmt.Sprintf("nothing said of it in at least %d of %d comparisons", turns-most, turns),
		Run: func(l *Lab) (string, bool, error) {
			said := 0
			for range turns {
				c, err := l.sides("half", "half")
				if err != nil {
					return "", false, err
				}
				if len(c.Findings) > 0 {
					said++
				}
			}
			return fmt.Sprintf("nothing said in %d of %d", turns-said, turns), said <= most, nil
		},
	}
}

// Stopped is a rank that is stopped between the barrier and the run.
func Stopped() Experiment {
	const pause = 80 * time.Millisecond // longer than what the rank sleeps there anyway
	return Experiment{
		Name:   "a rank stopped for 50 ms between barrier and run",
		Expect: "starts that lie about 50 ms apart are named, contention is not",
		Run: func(l *Lab) (string, bool, error) {
			f, err := l.stopped(pause)
			if err != nil {
				return "", false, err
			}
			worst := int64(0)
			for _, m := range f.doc.Measurements {
				if m.StartSkewNS != nil {
					worst = max(worst, *m.StartSkewNS)
				}
			}
			named := strings.Contains(f.words, "start up to")
			return fmt.Sprintf("starts up to %.0f ms apart, named: %v", float64(worst)/1e6, named),
				named && worst > 30e6 && worst < 200e6 && !f.sum.Shown(), nil
		},
	}
}

// Late is a sender that is stopped again and again, and then lasts until another one sends to the same receiver. It is
// late because it was stopped, so meeting the other cost it nothing; once it goes on, both share the receiver.
func Late(turns int) Experiment {
	return Experiment{
		Name:   "a sender that is stopped, and so meets another one",
		Expect: fmt.Sprintf("it is counted as late, and in none of %d named as slowed down by the other", turns),
		Run: func(l *Lab) (string, bool, error) {
			named, late, marked, worst := 0, 0, 0, 0.
			for range turns {
				f, err := l.late(18 * time.Millisecond)
				if err != nil {
					return "", false, err
				}
				late, marked = late+f.sum.Late, marked+f.sum.Marked
				if f.sum.Overlapped > 0 {
					worst = max(worst, f.sum.Ratio)
				}
				if slices.ContainsFunc(f.sum.Pairs, func(p contention.Pair) bool { return p.From == 0 }) {
					named++
				}
			}
			return fmt.Sprintf("%d of %d messages that overlapped were late, named in %d of %d, contention at most %.2f", late,
				marked, named, turns, worst), late >= turns && named <= turns/10, nil
		},
	}
}

// calm is a workload without contention, several times over.
func calm(name string, turns int, run func(l *Lab) (*found, error)) Experiment {
	return Experiment{
		Name:   name,
		Expect: fmt.Sprintf("no contention and nothing slower than alone in any of %d, slowdown.median < 1.5 in %d", turns, turns-turns/10),
		Run: func(l *Lab) (string, bool, error) {
			shown, slow, overlapped, worst := 0, 0, 0, 0.
			for range turns {
				f, err := run(l)
				if err != nil {
					return "", false, err
				}
				if f.sum.Slows() || len(f.contention.Slower) > 0 {
					shown++
				}
				overlapped += f.sum.Marked
				median := f.slowdown()
				worst = max(worst, median)
				if !(median < 1.5) {
					slow++
				}
			}
			got := fmt.Sprintf("contention or slower in %d of %d, slowdown.median < 1.5 in %d (up to %.2f, %d messages overlapped)",
				shown, turns, turns-slow, worst, overlapped)
			return got, shown == 0 && slow <= turns/10, nil
		},
	}
}

// costsTwice reports whether contention is said of a ratio of 2, as far as its interval says.
func costsTwice(c figures.Contention) bool {
	said := c.Cost
	if len(c.Pairs) > 0 && !(said.Low > contention.Little) { // the sentence is about a pair
		said = c.Pairs[0].Cost
	}
	return c.Verdict == contention.Costs && (near(float64(said.Ratio), 2) || said.Low < 2 && 2 < said.High)
}

// repeated runs a command whose answer is known again and again, and prints each sentence that is another.
func repeated(name string, want contention.Verdict, turns int, run func(l *Lab) (*found, error)) Experiment {
	least := (19*turns + 19) / 20
	return Experiment{
		Name:   name + ": what repetitions say",
		Expect: fmt.Sprintf("%q in at least %d of %d", want, least, turns),
		Run: func(l *Lab) (string, bool, error) {
			right, says, others := 0, "", ""
			for range turns {
				f, err := run(l)
				if err != nil {
					return "", false, err
				}
				is := f.contention.Verdict == want && len(f.contention.Pairs) == 0
				if want == contention.Costs {
					is = costsTwice(f.contention)
				}
				if is {
					right, says = right+1, f.answer.Sentence
				} else {
					others += "\n                 " + f.answer.Sentence
				}
			}
			return fmt.Sprintf("%d of %d: %s%s", right, turns, says, others), right >= least, nil
		},
	}
}

// slowdown is the threshold metric slowdown.median.
func (f *found) slowdown() float64 {
	var values []float64
	metric.Each(f.doc, "slowdown", func(s metric.Sample) {
		if s.Phase != metric.Isolated {
			values = append(values, s.Value)
		}
	})
	return stats.Median(values)
}

// pairsAre reports whether k pairs were slowed down as much as wanted.
func (f *found) pairsAre(k int, want float64) (string, bool) {
	var texts []string
	ok := true
	for sender := range k {
		got, n := f.pairs.Slowdown(sender, k)
		ok = ok && n > 0 && near(got, want)
		texts = append(texts, fmt.Sprintf("%.2f", got))
	}
	named := make([]string, 0, k)
	for _, p := range f.sum.Pairs {
		named = append(named, fmt.Sprint(p.From))
	}
	slices.Sort(named)
	return fmt.Sprintf("%s times, named: %s", strings.Join(texts, ", "), strings.Join(named, ", ")), ok
}

func near(got, want float64) bool { return math.Abs(got/want-1) <= tolerance }

// demo runs the workload of make demo, with pauses between the patterns in which all that one of them moves is through.
func (l *Lab) demo(engine string) (*found, error) {
	workload, err := l.workload("demo", "--ppn", "4", "--prefill-tp", "2", "--decode-tp", "2", "--scale", "0.001",
		"--flops", "40e15")
	if err != nil {
		return nil, err
	}
	return l.local("sequential-ct-perftest", workload, "--engine", engine, "--mem-type", "dram", "--iters", "3",
		"--isolation-iters", "8", "--warmup-iters", "3")
}

// crowd runs a workload of 16 ranks on 2 CPUs, whose requests meet.
func (l *Lab) crowd(engine string) (*found, error) {
	workload, err := l.workload("crowd", "--ppn", "8", "--prefill-tp", "4", "--decode-tp", "4", "--scale", "0.01",
		"--flops", "8000e15")
	if err != nil {
		return nil, err
	}
	return l.launch([]string{"taskset", "-c", "0,1"}, "sequential-ct-perftest", workload, "--engine", engine,
		"--mem-type", "dram", "--iters", "5", "--isolation-iters", "5")
}

// workload makes matrices in a folder once, and returns their configuration.
func (l *Lab) workload(folder string, args ...string) (path string, err error) {
	folder = filepath.Join(l.folder, folder)
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		args = append([]string{"matgen", "generate", "--model", "llama-405b", "--num-user-requests", "8",
			"--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--results-dir", folder}, args...)
		if out, err := exec.Command(l.program, args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("matgen: %w: %s", err, out)
		}
	}
	return filepath.Join(folder, "metadata.yaml"), nil
}

// turns is how often the section of the benchmark runs what has no contention.
const turns = 10

// Run runs all experiments and prints a table.
func Run(w io.Writer, program string) error {
	folder, err := os.MkdirTemp("", "perigee-truth-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	l, err := NewLab(program, folder)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(w, "# experiments with known answers (docs/truth.md)")
	var failed error
	for _, e := range Experiments(turns) {
		start := time.Now()
		got, ok, err := e.Run(l)
		verdict := "ok"
		switch {
		case err != nil:
			got, verdict = err.Error(), "FAILED"
			failed = errors.Join(failed, fmt.Errorf("%s: %w", e.Name, err))
		case !ok:
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%-6s %-60s %5.1f s\n       expected: %s\n       got:      %s\n", verdict, e.Name,
			time.Since(start).Seconds(), e.Expect, got)
	}
	return failed
}
