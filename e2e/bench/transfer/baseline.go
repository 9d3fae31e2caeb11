package transfer

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"perigee/nixl"
	"perigee/nixl/capi"
)

//go:embed c/*.c
var sources embed.FS

// Baseline is a running C program that measures on request.
type Baseline struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Scanner
	complain strings.Builder
}

// StartLoop starts the C loop over the NIXL library that perigee uses, in host memory, or in that of GPU 0.
func StartLoop(mem nixl.Mem) (*Baseline, error) {
	library, err := capi.Find("")
	if err != nil {
		return nil, err
	}
	return startBaseline([]string{"MEM=" + mem.String()}, "nixl_loop", library)
}

// StartBaseline compiles one of the C programs, nixl_loop or memory, with the compiler of the environment
// variable CC (gcc if unset) and starts it with these arguments.
func StartBaseline(name string, args ...string) (*Baseline, error) {
	return startBaseline(nil, name, args...)
}

// startBaseline is StartBaseline with further variables of the environment.
func startBaseline(env []string, name string, args ...string) (*Baseline, error) {
	dir, err := os.MkdirTemp("", "perigee-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // a running program does not need its file any more
	program, err := compile(dir, name)
	if err != nil {
		return nil, err
	}
	b := &Baseline{cmd: exec.Command(program, args...)}
	b.cmd.Stderr, b.cmd.Env = &b.complain, append(os.Environ(), env...)
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.out = bufio.NewScanner(out)
	return b, b.cmd.Start()
}

// compile builds a C program with the compiler that the environment names, optimised as perigee's own C is.
func compile(dir, name string) (program string, err error) {
	text, err := sources.ReadFile("c/" + name + ".c")
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, name+".c")
	program = filepath.Join(dir, name)
	if err := os.WriteFile(source, text, 0o600); err != nil {
		return "", err
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	if out, err := exec.Command(cc, "-O2", "-o", program, source, "-ldl").CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling %s: %w\n%s", name, err, out)
	}
	return program, nil
}

// Measure returns the median time of count runs of what the program knows by this name.
func (b *Baseline) Measure(what string, bytes, count int) (time.Duration, error) {
	if _, err := fmt.Fprintf(b.in, "%s %d %d\n", what, bytes, count); err != nil {
		return 0, errors.Join(err, errors.New(b.complain.String()))
	}
	if !b.out.Scan() {
		return 0, fmt.Errorf("the C program ended: %s", b.complain.String())
	}
	var ns int64
	if _, err := fmt.Sscan(b.out.Text(), &ns); err != nil || ns <= 0 {
		return 0, fmt.Errorf("the C program said %q: want nanoseconds", b.out.Text())
	}
	return time.Duration(ns), nil
}

// Close ends the program.
func (b *Baseline) Close() error {
	b.in.Close()
	return b.cmd.Wait()
}
