package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// readLog returns the lines of a rank's log after its header.
func readLog(t *testing.T, dir string, rank int) []string {
	t.Helper()
	data := must.Read(t, filepath.Join(dir, fmt.Sprintf("rank-%04d.log", rank)))
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	header := fmt.Sprintf("log of rank %d on %s, ", rank, harness.Hostname(t))
	if !strings.HasPrefix(lines[0], "# perigee ") || !strings.Contains(lines[0], header) {
		t.Errorf("the log of rank %d begins with %q, want %q", rank, lines[0], header)
	}
	return lines[1:]
}

// The last line of a killed rank says in which phase it was.
func TestLogOfKilledRank(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := t.TempDir()
		p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"run", "-n", "3", harness.Script(t, "phases.lua"),
			"--engine", engine, "--stay", "workload", "--log-dir", "logs", "--log-level", "debug"}})
		p.UntilPrints("in workload\n")
		harness.Signal(t, p.Rank(2), syscall.SIGKILL)
		if o := p.Wait(); o.Code != int(fault.RankLost) {
			t.Errorf("exit code %d, want %d\n%s", o.Code, fault.RankLost, o.Stderr)
		}
		lines := readLog(t, filepath.Join(dir, "logs"), 2)
		if last := lines[len(lines)-1]; !strings.HasSuffix(last, " phase=workload") {
			t.Errorf("the last line of the killed rank is %q", last)
		}
		for _, r := range []int{0, 1} {
			lines := readLog(t, filepath.Join(dir, "logs"), r)
			if last := lines[len(lines)-1]; !regexp.MustCompile(`level=ERROR msg="the rank ends" rank=\d .*code=9 failure="rank 2 on \S+, phase workload: `).MatchString(last) {
				t.Errorf("the last line of rank %d is %q", r, last)
			}
		}
	})
}

// Whatever happens, logs do not hold the job's secret, nor do they hold what other
// variables have.
func TestLogsKeepSecrets(t *testing.T) {
	dir := t.TempDir()
	var said strings.Builder
	ranks := torchrun(t, dir, 3, "run", harness.Script(t, "phases.lua"), "--engine", "shm", "--stay", "workload", "--log-level", "debug", "--log-dir", "logs")
	ranks[0].UntilPrints("in workload\n")
	harness.Signal(t, ranks[1].Cmd.Process.Pid, syscall.SIGKILL)
	secret := ""
	for r, p := range ranks {
		o := p.Wait()
		fmt.Fprintln(&said, o.Stdout, o.Stderr, strings.Join(readLog(t, filepath.Join(dir, "logs"), r), "\n"))
		for _, kv := range p.Cmd.Env {
			if value, ok := strings.CutPrefix(kv, "PERIGEE_SECRET="); ok {
				secret = value
			}
		}
	}
	harness.Contains(t, "logs", said.String(), "variables=\"[PERIGEE_SECRET RANK WORLD_SIZE ", "level=DEBUG", "rank ended without leaving")
	if secret == "" || strings.Contains(said.String(), secret) {
		t.Errorf("the secret %q is in the logs:\n%s", secret, &said)
	}
}

// A rank that cannot write its log ends the job before anything is measured, and all
// hear why.
func TestLogOfOneRankFails(t *testing.T) {
	dir := harness.Files(t, map[string]string{"logs/rank-0001.log/x": ""})
	var told []string
	for r, p := range torchrun(t, dir, 3, "run", "alltoall", "--engine", "shm", "--log-dir", "logs") {
		o := p.Wait()
		if o.Code != int(fault.Output) {
			t.Errorf("rank %d: exit code %d, want %d\n%s", r, o.Code, fault.Output, o.Stderr)
		}
		told = append(told, complaintsIn(o.Stderr)...)
	}
	if len(told) != 1 || !strings.Contains(told[0], "rank 1 on "+harness.Hostname(t)+", phase start: cannot write logs into logs: rank-0001.log: is a directory") {
		t.Errorf("the ranks said %q", told)
	}
}

// What the manual says to look for is logged somewhere.
func TestManualOfLogs(t *testing.T) {
	manual := must.Read(t, "../docs/logs.md")
	var source strings.Builder
	for _, folder := range []string{"../spmd", "../internal", "../lua", "../tools"} {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		})
		must.Do(t, err)
	}
	named := 0
	for _, row := range regexp.MustCompile(`(?m)^- [^:]*: (.*)$`).FindAllSubmatch(manual, -1) {
		for _, m := range regexp.MustCompile("`([^`.]+)`").FindAllSubmatch(row[1], -1) {
			named++
			if !strings.Contains(source.String(), fmt.Sprintf("%q", m[1])) {
				t.Errorf("nothing logs %q", m[1])
			}
		}
	}
	if named < 15 {
		t.Errorf("only %d messages are named", named)
	}
}

// Where there is no room for a log nothing starts.
func TestLogOnFullDisk(t *testing.T) {
	dir := harness.Files(t, map[string]string{"full/x": ""})
	harness.Fill(t, filepath.Join(dir, "full"))
	o := harness.Run(t, dir, "run", "pingpong", "--engine", "shm", "--log-dir", "full")
	checkComplaint(t, o, fault.Output, "cannot write logs into full: launcher.log: no space left on device", "--log-dir")
	if o.Stdout != "" {
		t.Errorf("it ran:\n%s", o.Stdout)
	}
}
