package harness

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo terminal of 100 columns, and what a program wrote to it.
type Terminal struct {
	Output
	user    *os.File // where a person types
	program *os.File // the program's side
	read    chan struct{}
	leave   sync.Once
}

// NewTerminal opens a terminal for one command.
func NewTerminal(t testing.TB) *Terminal {
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
	term := &Terminal{user: user, program: program, read: make(chan struct{})}
	go func() {
		defer close(term.read)
		io.Copy(term, user) // ends with EIO when the program's side is closed everywhere
	}()
	t.Cleanup(func() {
		term.drain()
		user.Close()
	})
	return term
}

// drain reads the last that was written, when the program has ended. It reports
// whether something still holds the terminal.
func (t *Terminal) drain() (free bool) {
	t.leave.Do(func() { t.program.Close() })
	select {
	case <-t.read:
		return true
	case <-time.After(outputWait):
		return false
	}
}

// Type sends what a person types. "\x03" is Ctrl-C.
func (t *Terminal) Type(tb testing.TB, keys string) {
	tb.Helper()
	if _, err := t.user.WriteString(keys); err != nil {
		tb.Fatal(err)
	}
}

// Screen plays what was written to a terminal and returns the lines that are to
// be seen in the end.
func Screen(written string) []string {
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
