package harness

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"perigee/internal/kit/procfs"
)

// marker is the variable by which all that tests start is found again.
const marker = "PERIGEE_E2E"

// envGuard makes a test program a guard: it waits until its standard input ends,
// which it does however the tests end, and then cleans up after them.
const envGuard = "PERIGEE_E2E_GUARD"

// startGuard starts the guard of a token and a folder. stop makes it do its work.
func startGuard(token, dir string) (stop func() error, err error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{envGuard + "=" + token + " " + dir}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error {
		stdin.Close()
		return cmd.Wait()
	}, nil
}

// guard is the guard's life. It returns an exit code.
func guard(order string) int {
	token, dir, _ := strings.Cut(order, " ")
	io.Copy(io.Discard, os.Stdin)
	// Slurm starts a step's daemon with an environment that has not the token, but
	// names a file in the folder.
	marks := []string{marker + "=" + token, dir + "/"}
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); {
		left := marked(marks...)
		if len(left) == 0 {
			unmountBelow(dir)
			if err := os.RemoveAll(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		}
		kill(left)
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "processes are left:", marked(marks...))
	return 1
}

// unmountBelow removes the file systems that tests have put over folders.
func unmountBelow(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			syscall.Unmount(f[1], syscall.MNT_DETACH)
		}
	}
}

// Owned returns the live processes that carry a token, or one that begins with
// it, with their environments.
func Owned(token string) map[int]map[string]string { return marked(marker + "=" + token) }

// marked returns the live processes in whose environments there is one of these texts,
// with their environments.
func marked(marks ...string) map[int]map[string]string {
	found := map[int]map[string]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		data, err := os.ReadFile(filepath.Join(d, "environ"))
		has := func(mark string) bool { return bytes.Contains(data, []byte(mark)) }
		if err != nil || !slices.ContainsFunc(marks, has) || isZombie(d) {
			continue
		}
		env := map[string]string{}
		for kv := range strings.SplitSeq(string(data), "\x00") {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		pid, _ := strconv.Atoi(filepath.Base(d))
		found[pid] = env
	}
	return found
}

func isZombie(dir string) bool {
	s, err := procfs.ReadStat(dir)
	return err != nil || s.Ended()
}

// KillAll kills all processes that carry a token.
func KillAll(token string) { kill(Owned(token)) }

func kill(processes map[int]map[string]string) {
	for pid := range processes {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// rankVariables say which rank a process is, that of the innermost launcher first.
var rankVariables = []string{"PERIGEE_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMI_ID", "SLURM_PROCID", "RANK"}

// RanksOf returns the perigee processes of a token by rank, including those of other parents.
func RanksOf(token string) map[int]int {
	ranks := map[int]int{}
	for pid, env := range Owned(token) {
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); exe != Program {
			continue
		}
		for _, variable := range rankVariables {
			if r, err := strconv.Atoi(env[variable]); err == nil {
				ranks[r] = pid
				break
			}
		}
	}
	return ranks
}
