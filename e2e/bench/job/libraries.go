package job

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed c/alltoallv.c
var alltoallv []byte

// Library is an installed MPI library with a compiled program that runs MPI_Alltoallv, with which the exchange of
// expert parallelism is compared.
type Library struct {
	Name    string
	flags   []string
	program string
}

// Libraries compiles the program with each installed library into a folder.
func Libraries(ctx context.Context, folder string) (list []Library, err error) {
	file := filepath.Join(folder, "alltoallv.c")
	if err := os.WriteFile(file, alltoallv, 0o600); err != nil {
		return nil, err
	}
	for _, l := range []Library{{Name: "mpich"}, {Name: "openmpi",
		flags: []string{"--allow-run-as-root", "--oversubscribe"}}} {
		compiler, err := exec.LookPath("mpicc." + l.Name)
		if err != nil {
			continue
		}
		l.program = filepath.Join(folder, "alltoallv-"+l.Name)
		if out, err := exec.CommandContext(ctx, compiler, "-O2", "-o", l.program, file).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", compiler, err, out)
		}
		list = append(list, l)
	}
	return list, nil
}

// A turn measures libraryCalls calls, and may take libraryLimit.
const (
	libraryCalls = 20
	libraryLimit = 2 * time.Minute
)

// Median returns the median time of a call, of the slowest rank in each, in nanoseconds. sizes are the bytes from each
// rank to each, row by row, with blanks between them.
func (l Library) Median(ctx context.Context, ranks int, sizes string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, libraryLimit)
	defer cancel()
	args := slices.Concat(l.flags, []string{"-n", strconv.Itoa(ranks), l.program, strconv.Itoa(libraryCalls)},
		strings.Fields(sizes))
	cmd := exec.CommandContext(ctx, "mpirun."+l.Name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Second
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, complaints.Bytes())
	}
	text, found := strings.CutPrefix(strings.TrimSpace(out.String()), "median ")
	if !found {
		return 0, fmt.Errorf("no median in %q", out.String())
	}
	return strconv.ParseFloat(text, 64)
}
