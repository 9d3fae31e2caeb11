package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"perigee/e2e/bench/transfer"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
)

// What Start measures and wants.
const (
	startTurns  = 3
	startGrowth = 1.1              // the time per rank of most ranks over that of 128
	startTarget = 8 * time.Second  // of most ranks
	startLimit  = 30 * time.Second // the library that took longer gets no more ranks
	fakeRanks   = 16384
	fakeTarget  = 3 * time.Second // of a CPU
)

// Start measures how long an empty job takes by the number of its ranks, with a program of Open MPI beside it, and how
// much of a CPU rank 0 needs for ranks that come to it by the network.
func (c *Command) Start(w io.Writer) error {
	fmt.Fprintf(w, "# start to exit of a job that does nothing, median of %d, in turns; Open MPI: MPI_Init, MPI_Finalize\n",
		startTurns)
	fmt.Fprintf(w, "%5s %12s %12s %12s %12s %8s\n", "ranks", "perigee s", "ms per rank", "CPU ms each", "Open MPI s",
		"ratio")
	library, err := emptyMPI(c.folder)
	if err != nil {
		return err
	}
	each := map[int]time.Duration{}
	var most int
	for _, n := range []int{2, 8, 32, 64, 128, 256, 384, 512} {
		ours, cpu, theirs, err := c.starts(n, library)
		if err != nil {
			return err
		}
		beside := fmt.Sprintf("%12s %8s", "-", "-")
		if theirs > 0 {
			beside = fmt.Sprintf("%12.2f %8.2f", theirs.Seconds(), float64(ours)/float64(theirs))
		}
		each[n], most = ours/time.Duration(n), n
		fmt.Fprintf(w, "%5d %12.2f %12.1f %12.1f %s\n", n, ours.Seconds(), each[n].Seconds()*1e3,
			cpu.Seconds()*1e3/float64(n), beside)
		if theirs == 0 || theirs > startLimit {
			library = nil
		}
	}
	growth, all := float64(each[most])/float64(each[128]), each[most]*time.Duration(most)
	fmt.Fprintf(w, "%d ranks: %.2f of the time per rank of 128 (target %.1f) %s, %.1f s (target %.0f s) %s\n", most, growth,
		startGrowth, outcome(growth <= startGrowth), all.Seconds(), startTarget.Seconds(), outcome(all <= startTarget))
	return fakes(w)
}

// starts returns the median times of an empty job of n ranks, the CPU time of all its processes, and the time of the
// library's program; 0 without one, or where it fails.
func (c *Command) starts(n int, library []string) (ours, cpu, theirs time.Duration, err error) {
	var times [3][]time.Duration
	for range startTurns {
		cmd := exec.Command(c.program, "run", "-n", strconv.Itoa(n), c.script("empty.lua"))
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, 0, 0, fmt.Errorf("an empty job of %d ranks: %w: %s", n, err, out)
		}
		times[0] = append(times[0], time.Since(start))
		times[1] = append(times[1], cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		if library == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*startLimit)
		start = time.Now()
		last := len(library) - 1
		words := append(slices.Clone(library[1:last]), "-n", strconv.Itoa(n), library[last])
		cmd = exec.CommandContext(ctx, library[0], words...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it then ends its ranks
		if cmd.Run() == nil {
			times[2] = append(times[2], time.Since(start))
		} else {
			library = nil
		}
		cancel()
	}
	if len(times[2]) == startTurns {
		theirs = transfer.Median(times[2])
	}
	return transfer.Median(times[0]), transfer.Median(times[1]), theirs, nil
}

// emptyMPI returns the words that run a program of Open MPI which does nothing, without the number of ranks; nil where
// that is not installed.
func emptyMPI(folder string) ([]string, error) {
	compiler, err := exec.LookPath("mpicc.openmpi")
	if err != nil {
		return nil, nil
	}
	file, program := filepath.Join(folder, "empty.c"), filepath.Join(folder, "empty-openmpi")
	const text = "#include <mpi.h>\nint main(int n, char **v) { MPI_Init(&n, &v); return MPI_Finalize(); }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command(compiler, "-o", program, file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", compiler, err, out)
	}
	return []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", program}, nil
}

// fakeEnv makes a process rank 0 of a job ("lead"), or all its other ranks ("follow"). They meet, and do no more.
const fakeEnv = "PERIGEE_BENCH_FAKES"

// fakes measures the CPU time of a rank 0 to which fakeRanks others come on the loopback interface, from one process.
func fakes(w io.Writer) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := func(role string) *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), fakeEnv+"="+role, "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port,
			"WORLD_SIZE="+strconv.Itoa(fakeRanks), "PERIGEE_SECRET=0123456789abcdef")
		cmd.Stderr = os.Stderr
		return cmd
	}
	others := child("follow")
	if err := others.Start(); err != nil {
		return err
	}
	defer others.Wait()
	defer others.Process.Kill()
	start := time.Now()
	out, err := child("lead").Output()
	if err != nil {
		return fmt.Errorf("rank 0 of %d: %w", fakeRanks, err)
	}
	cpu, err := time.ParseDuration(strings.TrimSpace(string(out)))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "rank 0 of %d ranks on the loopback interface: %.2f s of a CPU (target %.0f s) %s, all there after %.1f s\n",
		fakeRanks, cpu.Seconds(), fakeTarget.Seconds(), outcome(cpu <= fakeTarget), time.Since(start).Seconds())
	return nil
}

// fake is the main of a process with fakeEnv.
func fake(role string) error {
	limit := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < fakeRanks+100 {
		return fmt.Errorf("%d ranks need as many open files, and %d may be open (ulimit -n)", fakeRanks, limit.Max)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if role == "lead" {
		if err := meet(ctx, 0); err != nil {
			return err
		}
		var used unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
			return err
		}
		fmt.Println(time.Duration(used.Utime.Nano() + used.Stime.Nano()))
		return nil
	}
	ranks, _ := strconv.Atoi(os.Getenv("WORLD_SIZE"))
	failures := make([]error, ranks)
	var all sync.WaitGroup
	for rank := 1; rank < ranks; rank++ {
		all.Go(func() { failures[rank] = meet(ctx, rank) })
	}
	all.Wait()
	return errors.Join(failures...)
}

// coming bounds how many ranks dial rank 0 at once: they have one process, which would not serve all in time.
var coming = make(chan struct{}, 256)

// meet takes a rank into its job, and out again when all have come.
func meet(ctx context.Context, rank int) error {
	env := func(key string) (string, bool) {
		if key == "RANK" {
			return strconv.Itoa(rank), true
		}
		return os.LookupEnv(key)
	}
	coming <- struct{}{}
	p, err := boot.Join(ctx, env, boot.Watcher{Failed: func(watch.Failure) {}})
	<-coming
	if err != nil {
		return err
	}
	if err := p.Put(ctx, []byte("a card of some dozen bytes, as ranks have them")); err != nil {
		return err
	}
	if err := p.Fence(ctx); err != nil {
		return err
	}
	return p.Leave(ctx) // rank 0 waits for all
}
