package boot

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
)

// watchedRank is this test program as a rank below a launcher that is a shell. It writes what it sees to a file.
func watchedRank(file string) {
	if os.Getenv("PERIGEE_TEST_PIDFD") == "none" {
		pidfdOpen = func(int, int) (int, error) { return -1, unix.ENOSYS }
	}
	alive, _ := watchLauncher(os.LookupEnv, "pmi2", slog.New(slog.DiscardHandler))
	write := func(text string) {
		os.WriteFile(file+".new", []byte(text), 0o600)
		os.Rename(file+".new", file)
	}
	if alive.Done() == nil {
		write("not watched")
		return
	}
	write("watching")
	<-alive.Done()
	write(context.Cause(alive).Error())
}

// A rank notices that its launcher has died, or a script between the two, also where the kernel has no pidfds.
func TestDeathOfTheLauncher(t *testing.T) {
	if file := os.Getenv("PERIGEE_TEST_RANK"); file != "" {
		watchedRank(file)
		return
	}
	const (
		rank    = `"$1" -test.run '^TestDeathOfTheLauncher$' & wait`
		wrapped = `sh -c '"$1" -test.run "^TestDeathOfTheLauncher$"; true' sh "$1" & wait`
		script  = `sh -c '"$1" -test.run "^TestDeathOfTheLauncher$" &
			until grep -q watching $PERIGEE_TEST_RANK; do sleep 0.02; done' sh "$1"; sleep 1000`
	)
	for name, c := range map[string]struct{ env, script, want string }{
		"child":      {"", rank, `^its launcher sh \(process LAUNCHER\) has died$`},
		"grandchild": {"", wrapped, `^its launcher sh \(process LAUNCHER\) has died$`},
		"script":     {"", script, `^sh \(process \d+\) has died, which is between this rank and its launcher sh \(process LAUNCHER\)$`},
		"no pidfds":  {"PERIGEE_TEST_PIDFD=none", rank, `^its launcher sh \(process LAUNCHER\) has died$`},
		"on purpose": {"PERIGEE_NO_WATCH=1", rank, "^not watched$"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "seen")
			cmd := exec.Command("sh", "-c", `PMI_RANK=3 PMI_JOBID=7.0; export PMI_RANK PMI_JOBID; `+c.script, "sh", os.Args[0])
			cmd.Env = append(os.Environ(), "PERIGEE_TEST_RANK="+file, c.env)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			must.Do(t, cmd.Start())
			defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			want := regexp.MustCompile(strings.ReplaceAll(c.want, "LAUNCHER", fmt.Sprint(cmd.Process.Pid)))
			for deadline := time.Now().Add(spmdtest.Patience); ; time.Sleep(5 * time.Millisecond) {
				data, _ := os.ReadFile(file)
				if want.Match(data) {
					break
				}
				if string(data) == "watching" && c.script != script && cmd.ProcessState == nil {
					cmd.Process.Kill()
					cmd.Wait()
				}
				if time.Now().After(deadline) {
					t.Fatalf("the rank says %q, want %s", data, want)
				}
			}
		})
	}
}

// srun is watched at the port where it listens, on the host where it runs.
func TestSrunPort(t *testing.T) {
	const step = "SLURM_STEP_LAUNCHER_PORT=4711 SLURM_LAUNCH_NODE_IPADDR="
	for _, c := range []struct {
		launcher, env string
		want          int
	}{
		{"slurm", step + "127.0.0.1", 4711}, {"pmi2", step + "::ffff:127.0.0.1", 4711}, {"slurm", step + "192.0.2.7", 0},
		{"slurm", step, 0}, {"slurm", "SLURM_LAUNCH_NODE_IPADDR=127.0.0.1", 0}, {"pmi1", step + "127.0.0.1", 0},
		{"pmix", step + "127.0.0.1 PMIX_NAMESPACE=slurm.pmix.7.0", 4711}, {"pmix", step + "127.0.0.1 PMIX_NAMESPACE=prterun-h@1", 0},
	} {
		if got := srunPort(environ(vars(c.env)), c.launcher); got != c.want {
			t.Errorf("%s, %s: %d, want %d", c.launcher, c.env, got, c.want)
		}
	}
}

func TestListens(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Skip(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if !listens(port) {
			t.Errorf("%s: not found", l.Addr())
		}
		l.Close()
		if listens(port) {
			t.Errorf("%s: still found", l.Addr())
		}
	}
	free, err := spmdtest.FreePorts(1)
	if err != nil || listens(free[0]) {
		t.Errorf("port %v: %v", free, err)
	}
}
