package truth

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/figures"
	"perigee/internal/figures/contention"
)

// pairs is an experiment on two hosts of one machine with 2 CPUs: rank i of the first sends to rank i of the second,
// each pair in another pattern, alone and then all at once.
type pairs struct {
	number  int
	mib     int
	mbit    int // of each host's link, 0 for no limit
	read    bool
	foreign int // programs that take CPUs meanwhile
}

func (p pairs) String() string {
	return fmt.Sprintf("%d pairs of %d MiB, %d Mbit/s, read %v, %d programs", p.number, p.mib, p.mbit, p.read, p.foreign)
}

// held is an experiment whose messages wait for the network by construction, or for CPUs: a limited link with messages
// that a CPU moves in a small part of the time, or no limit. It never gets the wrong verdict, and hardly ever none. Its
// first turn is far from every limit, so that a busy machine gives the same answer; the others are drawn.
func held(name string, by contention.Verdict, turns int, first pairs, draw func(r *rand.Rand) pairs) Experiment {
	wrong := figures.Waits
	if by == figures.Waits {
		wrong = contention.Costs
	}
	return Experiment{
		Name:   name,
		Expect: fmt.Sprintf("%q, at most %d of %d without a verdict, none %q", by, turns/10, turns, wrong),
		Run: func(l *Lab) (string, bool, error) {
			right, mistaken, others := 0, 0, ""
			for turn := range turns {
				p := first
				if turn > 0 {
					p = draw(rand.New(rand.NewPCG(uint64(turn), 7)))
				}
				f, err := l.pairs(p)
				if err != nil {
					return "", false, err
				}
				switch f.contention.Verdict {
				case by:
					right++
				case wrong:
					mistaken++
					fallthrough
				default:
					others += fmt.Sprintf("\n                 %s: %s", p, f.answer.Sentence)
				}
			}
			return fmt.Sprintf("right %d, wrong %d of %d%s", right, mistaken, turns, others),
				mistaken == 0 && turns-right <= turns/10, nil
		},
	}
}

// CPUs are the experiments on what holds messages up, with more ranks than CPUs and as many.
func CPUs(turns int) []Experiment {
	choose := func(r *rand.Rand, of ...int) int { return of[r.IntN(len(of))] }
	network := func(r *rand.Rand) pairs {
		return pairs{choose(r, 3, 4, 6, 8), choose(r, 4, 8, 16), choose(r, 300, 500, 1000, 2000), r.IntN(2) == 0,
			choose(r, 0, 0, 4)}
	}
	cpus := func(r *rand.Rand) pairs {
		return pairs{choose(r, 3, 4, 6, 8), choose(r, 32, 64, 100), 0, r.IntN(2) == 0, choose(r, 0, 0, 4)}
	}
	two := func(of func(r *rand.Rand) pairs) func(r *rand.Rand) pairs {
		return func(r *rand.Rand) pairs {
			p := of(r)
			p.number = 2
			return p
		}
	}
	return []Experiment{
		held("6 to 16 ranks whose link is full", contention.Costs, turns, pairs{3, 8, 500, false, 0}, network),
		held("6 to 16 ranks whose CPUs are busy", figures.Waits, turns, pairs{8, 64, 0, false, 4}, cpus),
		held("2 + 2 ranks on hosts of one machine whose link is full", contention.Costs, turns, pairs{2, 8, 500, false, 0}, two(network)),
		held("2 + 2 ranks on hosts of one machine whose CPUs are busy", figures.Waits, turns, pairs{2, 64, 0, false, 4}, two(cpus)),
	}
}

// pairs runs such an experiment.
func (l *Lab) pairs(p pairs) (*found, error) {
	n, err := newNetwork(2, l.Env, p.mbit)
	if err != nil {
		return nil, err
	}
	defer n.close()
	config, op := "iters: 8\nisolation_iters: 6\nwarmup_iters: 2\ntraffic_patterns:\n", "WRITE"
	if p.read {
		op = "READ"
	}
	for i := range p.number {
		var rows strings.Builder
		for row := range 2 * p.number {
			cells := slices.Repeat([]string{"0"}, 2*p.number)
			if row == i {
				cells[p.number+i] = fmt.Sprintf("%dM", p.mib)
			}
			fmt.Fprintln(&rows, strings.Join(cells, " "))
		}
		name := fmt.Sprintf("pair%d.txt", i)
		if err := os.WriteFile(filepath.Join(l.folder, name), []byte(rows.String()), 0o600); err != nil {
			return nil, err
		}
		config += fmt.Sprintf("- {matrix_file: %s, mem_type: cpu, xfer_op: %s}\n", name, op)
	}
	if err := os.WriteFile(filepath.Join(l.folder, "pairs.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	for range p.foreign {
		busy := exec.Command("taskset", "-c", "0,1", "sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			return nil, err
		}
		defer func() {
			busy.Process.Kill()
			busy.Wait()
		}()
	}
	name := l.resultName()
	err = l.start(n, p.number, name, "taskset", "-c", "0,1", l.program, "sequential-ct-perftest", "pairs.yaml")
	if err != nil {
		return nil, err
	}
	return read(name)
}

// start runs a command of perigee on all hosts of a network, with so many ranks on each.
func (l *Lab) start(n *network, perHost int, result string, words ...string) error {
	var ranks []*exec.Cmd
	var outputs []*bytes.Buffer
	for r := range len(n.hosts) * perHost {
		words := append(n.hosts[r/perHost].Enter(l.folder), words...)
		cmd := exec.Command(words[0], append(words[1:], "--engine", "nixl", "--result", result)...)
		cmd.Env = append(slices.Clone(l.environ()), fmt.Sprint("RANK=", r),
			fmt.Sprint("WORLD_SIZE=", len(n.hosts)*perHost), "MASTER_ADDR=10.78.0.1", "MASTER_PORT=29501", "PERIGEE_SECRET=the secret of an experiment", "UCX_TLS=tcp,self")
		out := &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			return err
		}
		ranks, outputs = append(ranks, cmd), append(outputs, out)
	}
	var errs []error
	for r, cmd := range ranks {
		if err := cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("rank %d: %w: %s", r, err, outputs[r]))
		}
	}
	return errors.Join(errs...)
}
