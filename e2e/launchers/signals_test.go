package launchers

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/result/resulttest"
)

var (
	signals = flag.Int("signals", 12, "how many signals at random moments to send")
	seed    = flag.Uint64("signal-seed", 0, "what makes them; 0 is another one each time")
)

// A signal at a random moment, to a rank or to the launcher: all ranks end, none crashes, and
// what is left of the result can be read.
func TestSignalsAtRandomMoments(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-signals %d -signal-seed %d", *signals, *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	all := append([]way{local, {"torchrun", "torchrun", agent, here, ""}}, ways...)
	kinds := []syscall.Signal{syscall.SIGKILL, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}
	if signal.Ignored(syscall.SIGHUP) {
		kinds = kinds[:4] // under nohup the launchers ignore it, too
	}
	for n := range *signals {
		s := shot{
			way:    all[random.IntN(len(all))],
			signal: kinds[random.IntN(len(kinds))],
			rank:   random.IntN(2*ranks) - ranks, // half of them go to the launcher
			after:  time.Duration(random.Int64N(int64(1500 * time.Millisecond))),
			stay:   []string{"barrier", "transfer", "collect"}[random.IntN(3)],
		}
		t.Run(fmt.Sprintf("%d %s", n, s), func(t *testing.T) {
			t.Parallel()
			s.fire(t)
		})
	}
}

// hangOfLauncher is how long mpirun may stay when its ranks have ended, and hydra after a signal.
const hangOfLauncher = 20 * time.Second

// shot is one signal in one job.
type shot struct {
	way
	signal syscall.Signal
	rank   int // negative is the launcher
	after  time.Duration
	stay   string
}

func (s shot) String() string {
	target := "launcher"
	if s.rank >= 0 {
		target = fmt.Sprint("rank ", s.rank)
	}
	return fmt.Sprintf("%s, %s, %v to %s after %v", s.name, s.stay, s.signal, target, s.after.Round(time.Millisecond))
}

func (s shot) fire(t *testing.T) {
	dir := t.TempDir()
	words, env := s.command(t, ranks)
	args := []string{harness.Program, "run", harness.Script(t, "stay.lua"), "--engine", "shm", "--stay", s.stay,
		"--timeout", patienceOfRanks.String(), "--result", "r.json"}
	if s.name == "local" {
		args = append(args, "-n", fmt.Sprint(ranks))
	}
	p := start(t, harness.Command{Dir: dir, Argv: slices.Concat(words, args), Env: env, Group: true})
	time.Sleep(s.after)
	pid, ok := p.Ranks()[s.rank]
	if !ok { // it may not have started yet
		pid = p.Cmd.Process.Pid
		if isSrun(s.way) && s.signal == syscall.SIGINT {
			s.signal = syscall.SIGTERM // it wants two SIGINT within a second, and drops early ones
		}
	}
	watch, since := harness.StartWatch(), time.Now()
	syscall.Kill(pid, s.signal)
	last, hangs, again := time.Now(), false, false // last is when there was a rank
	for len(p.Ranks()) > 0 || slices.ContainsFunc([]int{p.Cmd.Process.Pid}, alive) && s.signal != syscall.SIGKILL {
		if time.Since(since) > harness.Patience {
			t.Fatalf("ranks go on: %v\n%s", p.Ranks(), p.Stderr)
		}
		if len(p.Ranks()) > 0 {
			last = time.Now()
		}
		// hydra drops a signal that comes before its proxies are connected: a user presses Ctrl-C once more.
		if !again && isHydra(s.way) && s.rank < 0 && time.Since(since) > hangOfLauncher {
			t.Log("hydra has dropped the signal")
			again, since, watch = true, time.Now(), harness.StartWatch()
			syscall.Kill(pid, s.signal)
		}
		// Open MPI 4.1 may hang for ever where a rank ends while it connects to mpirun. The ranks are what matters.
		if hangs = s.name == "mpirun" && s.rank >= 0 && time.Since(last) > hangOfLauncher; hangs {
			t.Logf("mpirun hangs, without a rank; its standard error:\n%s", p.Stderr)
			syscall.Kill(p.Cmd.Process.Pid, syscall.SIGKILL)
			watch.Check(t, "the end of the ranks", last, atOnce, patienceOfRanks)
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if !hangs {
		// Where a rank dies before all have met the others wait for their timeout.
		until := time.Now()
		if isSrun(s.way) && s.rank >= 0 {
			until = last // srun itself may take 15 s more where a rank has ended in the middle of PMI-2's exchange
		}
		watch.Check(t, "the end of the job", until, atOnce, patienceOfRanks)
	}
	for left := range harness.Owned(p.Token) { // srun, whose steps end later than their tasks
		if s.signal == syscall.SIGKILL {
			syscall.Kill(left, syscall.SIGKILL)
		}
	}
	sessions, _ := filepath.Glob(filepath.Join(p.Temp, "ompi.*"))
	for _, dir := range sessions {
		os.RemoveAll(dir)
	}
	for _, text := range []string{"panic", "goroutine ", "fatal error", "a defect of perigee"} {
		if strings.Contains(p.Stdout.String()+p.Stderr.String(), text) {
			t.Errorf("%s:\n%s", text, p.Stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "r.json")); !errors.Is(err, fs.ErrNotExist) {
		resulttest.Check(t, filepath.Join(dir, "r.json"))
	}
}
