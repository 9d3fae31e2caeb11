package launchers

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// marker is the variable by which all that the tests start is found again.
const marker = "PERIGEE_E2E_LAUNCHERS"

// envGuard makes this program a guard: it waits until its standard input ends,
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
	for range 100 {
		if len(owned(token)) == 0 {
			os.RemoveAll(dir)
			return 0
		}
		killAll(token)
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "processes are left:", owned(token))
	return 1
}

// owned returns the live processes that carry a token, with their environments.
func owned(token string) map[int]map[string]string {
	found := map[int]map[string]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		data, err := os.ReadFile(filepath.Join(d, "environ"))
		if err != nil || !bytes.Contains(data, []byte(marker+"="+token)) || isZombie(d) {
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
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(state, "Z")
}

func killAll(token string) {
	for pid := range owned(token) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// ranksOf returns the perigee processes of a token by rank, whoever launched them.
func ranksOf(token string) map[int]int {
	ranks := map[int]int{}
	for pid, env := range owned(token) {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if exe != program {
			continue
		}
		for _, variable := range []string{"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMI_ID", "SLURM_PROCID", "RANK"} {
			if r, err := strconv.Atoi(env[variable]); err == nil {
				ranks[r] = pid
				break
			}
		}
	}
	return ranks
}

// litter is what tests may have left where perigee and its libraries could
// leave something. Other packages' tests may be at work in /dev/shm.
func litter() map[string]bool {
	found := map[string]bool{}
	for _, dir := range []string{"/dev/shm", os.TempDir()} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if dir == os.TempDir() && !strings.HasPrefix(e.Name(), "Test") || strings.Contains(e.Name(), "perigee") {
				found[filepath.Join(dir, e.Name())] = true
			}
		}
	}
	return found
}

// leavesNothing checks, when the test ends, that no rank and no file of it is left.
func leavesNothing(t *testing.T, token string) {
	before := litter()
	t.Cleanup(func() {
		for deadline := time.Now().Add(2 * time.Second); len(ranksOf(token)) > 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("ranks are left: %v", ranksOf(token))
				killAll(token)
			}
		}
		for name := range litter() {
			if !before[name] {
				t.Errorf("%s is left behind", name)
			}
		}
	})
}
