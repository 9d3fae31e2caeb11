package launch

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// Output brings the output of ranks to the launcher's.
type Output struct {
	mu             sync.Mutex // held while a line is written, to whichever stream
	stdout, stderr io.Writer
	broken         func(error) // called, at least once, when stdout cannot be written to
}

// NewOutput calls broken, at least once, when stdout cannot be written to. Ranks do without stderr then. nil discards.
func NewOutput(stdout, stderr io.Writer, broken func(error)) *Output {
	o := &Output{stdout: stdout, stderr: stderr, broken: broken}
	if stdout == nil {
		o.stdout = io.Discard
	}
	if stderr == nil {
		o.stderr = io.Discard
	}
	return o
}

// stream carries one output stream of one rank.
type stream struct {
	theirs *os.File // the writing end, for the rank
	ours   *os.File
	to     io.Writer
}

// Start starts a rank. Rank 0 gets the launcher's own files, where they are files, so that it sees the terminal; lines
// of the others have their rank in front. ended is to be closed when the rank has ended. What waits for copied waits
// until nothing comes any more.
func (o *Output) Start(cmd *exec.Cmd, rank int, ended <-chan struct{}, copied *sync.WaitGroup) error {
	streams, err := o.connect(cmd, rank)
	if err != nil {
		return err
	}
	err = cmd.Start()
	for _, s := range streams {
		s.theirs.Close()
		if err != nil {
			s.ours.Close()
			continue
		}
		copied.Go(func() { s.copy(ended) })
	}
	return err
}

// connect sets a command's output.
func (o *Output) connect(cmd *exec.Cmd, rank int) ([]*stream, error) {
	var streams []*stream
	pipe := func(w io.Writer, broken func(error)) (*os.File, error) {
		if f, ok := w.(*os.File); ok && rank == 0 {
			return f, nil
		}
		ours, theirs, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s := &stream{theirs: theirs, ours: ours, to: &lockedWriter{mu: &o.mu, w: w, broken: broken}}
		if rank > 0 {
			s.to = &labelledWriter{out: s.to, label: "[" + strconv.Itoa(rank) + "] "}
		}
		streams = append(streams, s)
		return theirs, nil
	}
	stdout, err := pipe(o.stdout, o.broken)
	if err != nil {
		return nil, err
	}
	stderr, err := pipe(o.stderr, func(error) {})
	if err != nil {
		for _, s := range streams {
			s.ours.Close()
			s.theirs.Close()
		}
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return streams, nil
}

// quiet is how long the launcher waits for more output after a rank has ended.
// Something that the rank has started may hold its pipes for ever.
const quiet = 500 * time.Millisecond

// copy brings over what comes, until the pipe has no writer any more, or nothing has come
// for a while after the end of the rank.
func (s *stream) copy(ended <-chan struct{}) {
	defer s.ours.Close()
	copied := make(chan struct{})
	defer close(copied)
	go func() {
		select {
		case <-ended:
			s.ours.SetReadDeadline(time.Now().Add(quiet))
		case <-copied:
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		select {
		case <-ended: // writing may have taken its time; that is not the rank's silence
			s.ours.SetReadDeadline(time.Now().Add(quiet))
		default:
		}
		n, err := s.ours.Read(buf)
		if n > 0 {
			s.to.Write(buf[:n])
		}
		if err != nil {
			break
		}
	}
	if l, ok := s.to.(*labelledWriter); ok {
		l.flush()
	}
}

// lockedWriter lets several goroutines write to one writer.
type lockedWriter struct {
	mu     *sync.Mutex
	w      io.Writer
	broken func(error)
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.w.Write(p)
	if err != nil {
		l.broken(err)
	}
	return n, err
}

// labelledWriter passes on whole lines, each with a label before it.
type labelledWriter struct {
	out   io.Writer
	label string
	rest  []byte // an unfinished line
}

// maxLine bounds a line; a longer one is passed on in pieces.
const maxLine = 64 << 10

// Write passes on whole lines, so that lines of two ranks never mix. A line that does not end is cut at maxLine, since
// it would fill the memory.
func (l *labelledWriter) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest[:min(len(l.rest), maxLine)], '\n')
		switch {
		case i >= 0:
			l.line(l.rest[:i])
			l.rest = l.rest[i+1:]
		case len(l.rest) >= maxLine:
			l.line(l.rest[:maxLine])
			l.rest = l.rest[maxLine:]
		default:
			return len(p), nil
		}
	}
}

func (l *labelledWriter) line(text []byte) {
	line := make([]byte, 0, len(l.label)+len(text)+1)
	line = append(line, l.label...)
	line = append(line, text...)
	l.out.Write(append(line, '\n'))
}

// flush passes on an unfinished last line.
func (l *labelledWriter) flush() {
	if len(l.rest) > 0 {
		l.line(l.rest)
		l.rest = nil
	}
}
