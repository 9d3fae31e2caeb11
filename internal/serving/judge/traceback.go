package judge

import (
	"strings"

	"perigee/internal/kit/lazyre"
)

// traceback follows a traceback of Python through the lines of a log, to the exception at its end, which says more than
// its first line. Of chained exceptions the last one counts, as for Python itself.
type traceback struct {
	prefix, label string // begin its lines; the label of a task alone, where a logger has written the first line
	state         int
	frame         string // the last place that it names
	exception     string
}

// The states of a traceback: its places follow, its exception has been read, another one follows.
const (
	places = iota
	ended
	chained
)

const tracebackHead = "Traceback (most recent call last)"

var (
	// ofTask matches the task before a line: srun's --label, mpirun's --tag-output.
	ofTask = lazyre.New(`^( *[0-9]+: |\[[0-9]+,[0-9]+\]<std(out|err)>: ?)`)
	// raised matches the line of an exception: its name, alone or with a message.
	raised = lazyre.New(`^[A-Za-z_][A-Za-z0-9_.]*(:|$)`)
)

// newTraceback begins a traceback with its first line; nil if the line begins none.
func newTraceback(line string) *traceback {
	at := strings.Index(line, tracebackHead)
	if at < 0 {
		return nil
	}
	return &traceback{prefix: line[:at], label: ofTask.FindString(line)}
}

// read takes the next line of the log, without blanks at its end.
func (t *traceback) read(line string) {
	rest, isOwn := strings.CutPrefix(line, t.prefix)
	if !isOwn {
		if rest, isOwn = strings.CutPrefix(line, t.label); !isOwn {
			return // another task's
		}
	}
	switch isIndented := strings.TrimLeft(rest, " \t") != rest; {
	case rest == "":
	case strings.HasSuffix(rest, "another exception occurred:"),
		strings.HasSuffix(rest, "cause of the following exception:"):
		t.state = chained
	case t.state == chained && strings.Contains(rest, tracebackHead):
		t.state = places
	case t.state == places && isIndented:
		if place := strings.TrimSpace(rest); strings.HasPrefix(place, "File ") {
			t.frame = place
		}
	case t.state == places && raised.MatchString(rest):
		t.state, t.exception = ended, rest
	}
}

// cause is the exception, or where the log is cut before it the last place; "" where there is neither.
func (t *traceback) cause() string {
	if t.exception == "" && t.frame != "" {
		return "a traceback that is cut after " + t.frame
	}
	return t.exception
}
