package cli

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/term"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/plaintext"
)

// Output passes on what is written to it, and keeps the first error, so that the error is reported even if a
// command ignores it.
type Output struct {
	W       io.Writer
	Err     error
	Columns string // of the environment: the width of lines where W is no terminal
}

// Width is how many characters a line has, and 0 where that is not known: then it may have any number.
func (o *Output) Width() int {
	if f, ok := o.W.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	if n, err := strconv.Atoi(o.Columns); err == nil && n > 0 {
		return n
	}
	return plaintext.Width(o.W)
}

// Write passes on data, comments in lines that fit.
func (o *Output) Write(data []byte) (int, error) {
	n, err := o.W.Write(plaintext.Fold(data, o.Width(), "# "))
	n = min(n, len(data))
	if err != nil && o.Err == nil {
		o.Err = err
	}
	return n, err
}

// Fault returns an error of the kind Output if something could not be written, nil if all was.
func (o *Output) Fault() error {
	if o.Err == nil {
		return nil
	}
	return LostOutput(o.Err)
}

// LacksReader reports whether an error is that of [LostOutput] for an output that has no reader any more, such as head,
// which has had enough: then there is nothing to say.
func LacksReader(err error) bool { return errors.Is(err, errNoReader) }

var errNoReader = errors.New("broken pipe")

// IgnoreBrokenPipes makes writing to a pipe without a reader an error, like any other, instead of the end of this
// process: a command that has started others, or has files to remove, does that first.
func IgnoreBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// NotOver refuses to write what was computed from files over one of them. "-" and "" name no file.
func NotOver(output string, inputs ...string) error {
	if output == "" || output == "-" {
		return nil
	}
	for _, name := range inputs {
		if file.Same(output, name) {
			return fault.New(fault.Usage, "%s is what is read: it would be written over", output).
				WithHint("name another file")
		}
	}
	return nil
}

// WriteTo writes a file, or to out where its name is "-".
func WriteTo(name string, out io.Writer, fill func(io.Writer) error) error {
	if name != "-" {
		return file.Write(name, fill)
	}
	if err := fill(out); err != nil {
		return fault.New(fault.Output, "write the report: %w", err)
	}
	return nil
}

// Base returns the writer below an [Output]; any other writer is its own base.
func Base(w io.Writer) io.Writer {
	if o, ok := w.(*Output); ok {
		return o.W
	}
	return w
}

// IsTerminal reports whether what is written to w appears on a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := Base(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
