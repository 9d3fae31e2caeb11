package barrier

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"perigee/spmd/launch"
)

// contender is one who measures barriers.
type contender struct {
	name  string
	start func(ctx context.Context, way Way, ranks int) (sample, error)
}

// sample holds the times of one turn, in nanoseconds.
type sample struct{ times, skews []float64 }

// own lets this program's own ranks meet.
func own(ctx context.Context, way Way, ranks int) (sample, error) {
	self, err := os.Executable()
	if err != nil {
		return sample{}, err
	}
	return meet(ctx, self, way, ranks)
}

// meet lets the ranks of a build of this program meet.
func meet(ctx context.Context, program string, way Way, ranks int) (sample, error) {
	var out, errOut bytes.Buffer
	err := launch.Run(ctx, launch.LocalJob{
		Ranks: ranks, Path: program, Env: append(os.Environ(), envRank+"="+string(way)), Stdout: &out, Stderr: &errOut,
	})
	if err != nil {
		return sample{}, fmt.Errorf("%w\n%s", err, errOut.Bytes())
	}
	return parse(out.String())
}

// library is an MPI library, with what makes it start here, and what keeps it to TCP.
type library struct {
	name       string
	flags, tcp []string // of mpirun
	tcpEnv     []string
}

var libraries = []library{
	{name: "mpich", tcpEnv: []string{"MPIR_CVAR_NOLOCAL=1", "UCX_TLS=tcp"}},
	{name: "openmpi", flags: []string{"--allow-run-as-root", "--oversubscribe"},
		tcp: []string{"--mca", "pml", "ob1", "--mca", "btl", "tcp,self"}},
}

//go:embed mpi/barrier.c
var source []byte

// contenders are perigee and the installed MPI libraries, whose programs come to stand in a folder.
func contenders(ctx context.Context, folder string) ([]contender, error) {
	all := []contender{{ourselves, own}}
	for _, l := range libraries {
		program, err := l.compile(ctx, folder)
		if err != nil {
			return nil, err
		}
		if program == "" {
			continue
		}
		all = append(all, contender{l.name, func(ctx context.Context, way Way, ranks int) (sample, error) {
			return l.run(ctx, program, way, ranks)
		}})
	}
	return all, nil
}

// compile builds the MPI program, and returns "" where there is no compiler.
func (l library) compile(ctx context.Context, folder string) (program string, err error) {
	compiler, err := exec.LookPath("mpicc." + l.name)
	if err != nil {
		return "", nil
	}
	file := filepath.Join(folder, "barrier.c")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(folder, l.name)
	if out, err := exec.CommandContext(ctx, compiler, "-O2", "-o", program, file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", compiler, err, out)
	}
	return program, nil
}

// farewell is how long an mpirun that is to end may take to end its ranks.
const farewell = 5 * time.Second

// run runs a library's program under its mpirun. It is asked to end before it is killed, as an mpirun that is killed
// leaves its ranks behind.
func (l library) run(ctx context.Context, program string, way Way, ranks int) (sample, error) {
	args := append([]string{}, l.flags...)
	env := os.Environ()
	if way == Links {
		args, env = append(args, l.tcp...), append(env, l.tcpEnv...)
	}
	args = append(args, "-n", strconv.Itoa(ranks), program, strconv.FormatInt(int64(budget), 10))
	cmd := exec.CommandContext(ctx, "mpirun."+l.name, args...)
	cmd.Env = env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = farewell
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return sample{}, fmt.Errorf("%w\n%s", err, errOut.Bytes())
	}
	return parse(out.String())
}
