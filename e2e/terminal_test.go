package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal of 100 columns, and what a program wrote to it.
type terminal struct {
	output
	user    *os.File // where a person types
	program *os.File // the program's side
	read    chan struct{}
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(user.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		t.Fatal(err)
	}
	term := &terminal{user: user, program: program, read: make(chan struct{})}
	go func() {
		defer close(term.read)
		io.Copy(term, user) // ends with EIO when the program's side is closed everywhere
	}()
	t.Cleanup(func() {
		program.Close()
		<-term.read
		user.Close()
	})
	return term
}

// onTerminal runs perigee with standard output and error on a terminal and
// returns what it wrote, byte by byte.
func onTerminal(t *testing.T, dir string, env map[string]string, args ...string) string {
	t.Helper()
	term := newTerminal(t)
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, term.program, term.program
	token := "terminal " + t.Name()
	cmd.Env = environ(env, token)
	t.Cleanup(func() { killAll(token) })
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, term)
	}
	term.program.Close()
	<-term.read
	return term.String()
}

// screen plays what was written and returns the lines that are to be seen in
// the end.
func screen(written string) []string {
	var lines []string
	line, column := []rune{}, 0
	runes := []rune(written)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; r {
		case '\r':
			column = 0
		case '\n':
			lines = append(lines, strings.TrimRight(string(line), " "))
			line, column = nil, 0
		case '\x1b':
			end := i + 1
			for end < len(runes) && !(runes[end] >= '@' && runes[end] <= '~' && runes[end] != '[') {
				end++
			}
			if end < len(runes) && runes[end] == 'K' {
				line = line[:min(column, len(line))]
			}
			i = end
		default:
			for len(line) <= column {
				line = append(line, ' ')
			}
			line[column] = r
			column++
		}
	}
	if rest := strings.TrimRight(string(line), " "); rest != "" {
		lines = append(lines, rest)
	}
	return lines
}

// slow is a workload that lasts long enough for a progress bar to be drawn.
func slow(t *testing.T) string {
	return files(t, map[string]string{
		"c.yaml": "iters: 3\nisolation_iters: 1\n" + pattern("sleep_before_launch_sec: 0.25"), "m.txt": good,
	})
}

// On a terminal there is a bar while the work goes on, and no trace of it after.
func TestProgressOnTerminal(t *testing.T) {
	args := []string{"sequential-ct-perftest", "c.yaml", "--engine", "shm", "--verify-buffers"}
	for name, env := range map[string]map[string]string{
		"colour":    {"TERM": "xterm"},
		"no colour": {"TERM": "xterm", "NO_COLOR": "1"},
	} {
		t.Run(name, func(t *testing.T) {
			written := onTerminal(t, slow(t), env, args...)
			contains(t, "terminal", written, "patterns", "1 / 4", "3 / 4")
			seen := strings.Join(screen(written), "\n")
			for _, trace := range []string{" / 4", "patterns [", "\x1b"} {
				if strings.Contains(seen, trace) {
					t.Errorf("%q is still to be seen:\n%s", trace, seen)
				}
			}
			for _, line := range screen(written) {
				if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "-") {
					t.Errorf("a line that is no part of the output: %q", line)
				}
			}
			readTable(t, seen, columns...)
			if env["NO_COLOR"] != "" && strings.Contains(written, "\x1b[") {
				t.Errorf("escape sequences in spite of NO_COLOR: %q", written)
			}
		})
	}
}

// Into files and pipes there goes plain text only.
func TestNoTerminal(t *testing.T) {
	o := mustRun(t, slow(t), "sequential-ct-perftest", "c.yaml", "--engine", "shm", "--verify-buffers")
	if o.stderr != "" || strings.ContainsAny(o.stdout, "\r\x1b\t") {
		t.Errorf("stdout %q, stderr %q", o.stdout, o.stderr)
	}
	for line := range strings.Lines(o.stdout) {
		if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
			t.Errorf("white space at the end of %q", line)
		}
	}
}

// The output is the same on a terminal and elsewhere, but for the figures.
func TestSameOutput(t *testing.T) {
	args := []string{"sequential-ct-perftest", "c.yaml", "--engine", "shm"}
	shape := func(lines []string) []string {
		var list []string
		for _, line := range lines {
			list = append(list, strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return '0'
				}
				return r
			}, line))
		}
		return list
	}
	dir := slow(t)
	plain := shape(strings.Split(strings.TrimRight(mustRun(t, dir, args...).stdout, "\n"), "\n"))
	shown := shape(screen(onTerminal(t, dir, map[string]string{"TERM": "xterm"}, args...)))
	if strings.Join(plain, "\n") != strings.Join(shown, "\n") {
		t.Errorf("into a pipe:\n%s\non a terminal:\n%s", strings.Join(plain, "\n"), strings.Join(shown, "\n"))
	}
}

// Ctrl-C at a real terminal: the terminal signals all processes of the
// foreground group.
func TestInterruptAtTerminal(t *testing.T) {
	before := lookForLitter()
	term := newTerminal(t)
	dir := t.TempDir()
	cmd := exec.Command(program, "run", script(t, "phases.lua"), "--engine", "shm", "--stay", "workload", "--result", "r.json")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, term.program, term.program, term.program
	cmd.Env = environ(nil, t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	t.Cleanup(func() { killAll(t.Name()) })
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, token: t.Name(), dir: dir, stdout: &term.output, stderr: &output{}, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	p.untilPrints("[2] in workload")
	p.untilPrints("\nin workload")
	if _, err := term.user.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	o := p.wait(atOnce)
	if o.code != 130 {
		t.Errorf("exit code %d, want 130", o.code)
	}
	noProcesses(t, p.token, atOnce)
	before.checkClean(t)
	term.program.Close()
	<-term.read
	seen := strings.Join(screen(term.String()), "\n")
	contains(t, "terminal", seen, "perigee: ended by signal: interrupt", "perigee: partial result: r.json")
	if _, err := os.Stat(filepath.Join(dir, "r.json")); err != nil {
		t.Error(err)
	}
}
