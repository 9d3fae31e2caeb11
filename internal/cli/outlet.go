package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Outlet passes on what is written to it, and remembers the first error, so that
// it is reported even if a command ignores it.
type Outlet struct {
	W   io.Writer
	Err error
}

func (o *Outlet) Write(data []byte) (int, error) {
	n, err := o.W.Write(data)
	if err != nil && o.Err == nil {
		o.Err = err
	}
	return n, err
}

// Fault is what the user is told if something could not be written to standard output: an
// error of the kind Output. It is nil if all was written.
func (o *Outlet) Fault() error {
	if o.Err == nil {
		return nil
	}
	return LostOutput(o.Err)
}

// Base is what an [Outlet] writes to; any other writer is its own base.
func Base(w io.Writer) io.Writer {
	if o, ok := w.(*Outlet); ok {
		return o.W
	}
	return w
}

// IsTerminal reports whether what is written to w appears on a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := Base(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
