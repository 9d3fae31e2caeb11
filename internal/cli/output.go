package cli

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"perigee/internal/fault"
)

// Output passes on what is written to it, and keeps the first error, so that the error is reported even if a
// command ignores it.
type Output struct {
	W   io.Writer
	Err error
}

func (o *Output) Write(data []byte) (int, error) {
	n, err := o.W.Write(data)
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
		if sameFile(output, name) {
			return fault.New(fault.Usage, "%s is what is read: it would be written over", output).
				WithHint("name another file")
		}
	}
	return nil
}

// SamePlace reports whether two paths name one place, whether or not there is a file yet.
func SamePlace(a, b string) bool {
	a, b = place(a), place(b)
	return a == b || filepath.Base(a) == filepath.Base(b) && sameFile(filepath.Dir(a), filepath.Dir(b))
}

// Below reports whether a path names a place in a folder, or in one below it.
func Below(path, folder string) bool {
	folder = place(folder)
	for at := place(path); ; at = filepath.Dir(at) {
		if at == folder || sameFile(at, folder) {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// sameFile reports whether two paths lead to one file or folder, which may be mounted in several places.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// place is the absolute path of a place, without links as far as there are files. What ".." leads to after a link the
// file system knows.
func place(path string) string {
	if !filepath.IsAbs(path) {
		if wd, err := os.Getwd(); err == nil {
			path = wd + "/" + path
		}
	}
	for folder, rest := path, ""; ; {
		if real, err := filepath.EvalSymlinks(folder); err == nil {
			return filepath.Join(real, rest)
		}
		folder = strings.TrimRight(folder, "/")
		cut := strings.LastIndexByte(folder, '/')
		if cut < 0 {
			return filepath.Clean(path)
		}
		folder, rest = folder[:cut+1], filepath.Join(folder[cut+1:], rest)
	}
}

// Base is what an [Output] writes to; any other writer is its own base.
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
