package disagg

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/serving/batch"
)

// runLog is the log file of a run. What is written to it goes to the screen, too.
type runLog struct {
	mu     sync.Mutex
	file   *os.File
	screen io.Writer
	rest   []byte // of a line without its end
	before func() // clears the screen for the next line; may be nil
}

func openRunLog(dir string, began time.Time, screen io.Writer) (*runLog, error) {
	file, err := os.OpenFile(filepath.Join(dir, "disagg_benchmark_"+began.Format("20060102_150405")+".log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fault.New(fault.Output, "%w", err)
	}
	return &runLog{file: file, screen: screen}, nil
}

// Write adds lines, each with its time and level in the file.
func (l *runLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before != nil {
		l.before()
	}
	text := []byte(plaintext.Text(string(p))) // it quotes the logs of jobs
	l.screen.Write(text)                      // what is said there is not what was asked for: losing it is no error
	l.rest = append(l.rest, text...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		level := "INFO"
		if bytes.Contains(line, []byte(" failed")) || bytes.Contains(line, []byte(" has ended with code ")) {
			level = "ERROR"
		}
		if _, err := fmt.Fprintf(l.file, "%s [%s] %s\n", time.Now().Format("2006-01-02 15:04:05"), level,
			line); err != nil {
			return 0, err
		}
		l.rest = rest
	}
}

// Close closes the file.
func (l *runLog) Close() error { return l.file.Close() }

// live is the table of tasks on a terminal, drawn again in its place. Elsewhere it
// is nothing.
type live struct {
	to    *os.File // nil: no terminal
	lines int
}

func newLive(w io.Writer) *live {
	file, ok := cli.Base(w).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &live{}
	}
	return &live{to: file}
}

// show draws the tasks that have a job, the last ones that the screen has room for.
func (l *live) show(tasks []*batch.Task) {
	if l.to == nil {
		return
	}
	width, height, err := term.GetSize(int(l.to.Fd()))
	if err != nil || height < 8 {
		return
	}
	var shown []*batch.Task
	for _, t := range tasks {
		if t.Job.ID != "" && (!t.Over() || time.Since(t.Ended) < time.Minute) {
			shown = append(shown, t)
		}
	}
	shown = shown[max(0, len(shown)-height+6):]
	var b strings.Builder
	t := taskTable(shown, func(t *batch.Task) (string, string) {
		if t.Job.State == "PENDING" {
			return t.Job.State, t.Job.Reason
		}
		return t.Job.State, t.Job.Nodes
	})
	if t.WriteText(&b) != nil {
		return
	}
	l.clear()
	for line := range strings.Lines(b.String()) {
		runes := []rune(strings.TrimRight(line, "\n"))
		fmt.Fprintln(l.to, string(runes[:min(len(runes), width-1)]))
		l.lines++
	}
}

// clear takes the table away.
func (l *live) clear() {
	if l.lines > 0 {
		fmt.Fprintf(l.to, "\x1b[%dA\x1b[J", l.lines)
	}
	l.lines = 0
}

// confirm asks a question on a terminal; anything but no is yes, and elsewhere
// the answer is yes.
func (l *live) confirm(in io.Reader, question string) bool {
	file, ok := in.(*os.File)
	if l.to == nil || !ok || !term.IsTerminal(int(file.Fd())) {
		return true
	}
	fmt.Fprint(l.to, question)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	return !strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "n")
}
