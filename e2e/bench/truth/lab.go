package truth

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
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

	"perigee/internal/figures"
	"perigee/internal/figures/contention"
	"perigee/internal/result"
)

// Lab is where experiments take place: a perigee, a folder for its results, and networks.
type Lab struct {
	Env             []string // of all processes; nil for that of this one
	program, folder string
	networks        map[int]*network // by number of hosts
	results         int
}

// NewLab makes a lab. The folder exists and is the caller's to remove.
func NewLab(program, folder string) (*Lab, error) {
	files := map[string]string{
		"shared.lua": shared, "stopped.lua": stopped, "late.lua": late, "pair.yaml": pairConfig, "pair.txt": pairMatrix,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return &Lab{program: program, folder: folder, networks: map[int]*network{}}, nil
}

// Close ends the hosts of the lab.
func (l *Lab) Close() {
	for _, n := range l.networks {
		n.close()
	}
}

func (l *Lab) environ() []string {
	if l.Env != nil {
		return l.Env
	}
	return os.Environ()
}

// network returns the one of a number of hosts.
func (l *Lab) network(hosts int) (*network, error) {
	if n := l.networks[hosts]; n != nil {
		return n, nil
	}
	n, err := newNetwork(hosts, l.Env, linkMbit)
	if err != nil {
		return nil, err
	}
	l.networks[hosts] = n
	return n, nil
}

// found holds the figures of a result.
type found struct {
	doc   *result.Document
	sum   contention.Report
	pairs *contention.Collector
	words string // of the report
	// What the report says of contention.
	contention figures.Contention
	answer     figures.Answer
}

// read reads a result, and removes it.
func read(path string) (*found, error) {
	defer os.Remove(path)
	f := &found{}
	var err error
	if f.doc, err = result.Read(path); err != nil {
		return nil, err
	}
	f.pairs = contention.Of(f.doc)
	f.sum = f.pairs.Report()
	fig, err := figures.Read(path)
	if err != nil {
		return nil, err
	}
	f.contention, f.answer = fig.Contention, fig.Answer
	for _, finding := range fig.Findings {
		f.words += finding.Text + "\n"
	}
	return f, nil
}

func (l *Lab) resultName() string {
	l.results++
	return filepath.Join(l.folder, fmt.Sprintf("%d.json", l.results))
}

// local runs perigee on this host.
func (l *Lab) local(args ...string) (*found, error) { return l.launch(nil, args...) }

// launch is local with words before the command.
func (l *Lab) launch(words []string, args ...string) (*found, error) {
	name := l.resultName()
	words = append(append(words, l.program), append(args, "--result", name)...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = l.folder, l.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("perigee %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return read(name)
}

// remote runs shared.lua with a rank on each of so many hosts.
func (l *Lab) remote(hosts int, args ...string) (*found, error) {
	name, err := l.record(hosts, args...)
	if err != nil {
		return nil, err
	}
	return read(name)
}

// record is remote that leaves the result where it is.
func (l *Lab) record(hosts int, args ...string) (path string, err error) {
	n, err := l.network(hosts)
	if err != nil {
		return "", err
	}
	name := l.resultName()
	return name, l.start(n, 1, name, append([]string{l.program, "run", "shared.lua"}, args...)...)
}

// compared holds the answer of perigee compare about two sets of results, which it removes.
type compared struct {
	Findings []string
	Rows     []struct {
		Metric           string
		Sender, Receiver *int
		Old, New         float64
		Verdict          string
	}
}

// compare lets perigee compare two sets of results, and removes them.
func (l *Lab) compare(old, fresh []string) (*compared, error) {
	args := []string{"compare", old[0], fresh[0], "--fail-on=none", "--format=json"}
	for _, path := range old[1:] {
		args = append(args, "--old="+path)
	}
	for _, path := range fresh[1:] {
		args = append(args, "--new="+path)
	}
	cmd := exec.Command(l.program, args...)
	cmd.Env = l.Env
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("perigee %s: %w: %s", strings.Join(args, " "), err, out)
	}
	c := &compared{}
	if err := json.Unmarshal(out, c); err != nil {
		return nil, err
	}
	for _, path := range slices.Concat(old, fresh) {
		os.Remove(path)
	}
	return c, nil
}

// stopped runs stopped.lua, and stops rank 1 for a while when it says so.
func (l *Lab) stopped(pause time.Duration, args ...string) (*found, error) {
	return l.disturb(append([]string{"stopped.lua"}, args...), "stop rank 1", func(pid int) error {
		return pauseRank(pid, 1, pause)
	})
}

// late runs late.lua, and stops rank 0 for a while again and again, with pauses of other lengths between.
func (l *Lab) late(pause time.Duration) (*found, error) {
	return l.disturb([]string{"late.lua"}, "stop rank 0", func(pid int) error {
		for i := 0; pauseRank(pid, 0, pause) == nil; i++ { // until it has ended
			time.Sleep(time.Duration(8+7*i%24) * time.Millisecond)
		}
		return nil
	})
}

// disturb runs a scenario in new ranks, and does something to them from the line on that ends in a mark.
func (l *Lab) disturb(scenario []string, mark string, do func(pid int) error) (*found, error) {
	name := l.resultName()
	words := append([]string{"run", scenario[0], "--engine", "shm", "--result", name}, scenario[1:]...)
	cmd := exec.Command(l.program, words...)
	cmd.Dir, cmd.Env = l.folder, l.Env
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasSuffix(lines.Text(), mark) {
	}
	failed := do(cmd.Process.Pid)
	io.Copy(io.Discard, out)
	if err := errors.Join(failed, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", scenario[0], err, &complaints)
	}
	return read(name)
}

// pauseRank stops a rank that a process has started.
func pauseRank(launcher, rank int, pause time.Duration) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", launcher))
	if err != nil {
		return err
	}
	mark := fmt.Sprintf("\x00PERIGEE_RANK=%d\x00", rank)
	for _, task := range tasks {
		list, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that has ended
		}
		for _, word := range strings.Fields(string(list)) {
			env, err := os.ReadFile("/proc/" + word + "/environ")
			pid, bad := strconv.Atoi(word)
			if err != nil || bad != nil || !strings.Contains("\x00"+string(env), mark) {
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				return err
			}
			time.Sleep(pause)
			return syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	return fmt.Errorf("process %d has no child with PERIGEE_RANK=%d", launcher, rank)
}
