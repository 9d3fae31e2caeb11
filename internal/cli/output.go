package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"

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

// NotOver refuses to write what was computed from files over one of them. "-" and "" name no file.
func NotOver(output string, inputs ...string) error {
	if output == "" || output == "-" {
		return nil
	}
	target, err := os.Stat(output)
	if err != nil {
		return nil // there is nothing to write over
	}
	for _, name := range inputs {
		if info, err := os.Stat(name); err == nil && os.SameFile(target, info) {
			return fault.New(fault.Usage, "%s is what is read: it would be written over", output).
				WithHint("name another file")
		}
	}
	return nil
}

// SamePlace reports whether two paths name one place, whether or not there is a file yet.
func SamePlace(a, b string) bool { return place(a) == place(b) }

// Below reports whether a path names a place in a folder, or in one below it.
func Below(path, folder string) bool {
	rest, err := filepath.Rel(place(folder), place(path))
	return err == nil && rest != ".." && !strings.HasPrefix(rest, "../")
}

// place is the absolute path of a place, without links as far as there are files.
func place(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for folder, rest := abs, ""; ; folder, rest = filepath.Dir(folder), filepath.Join(filepath.Base(folder), rest) {
		if real, err := filepath.EvalSymlinks(folder); err == nil {
			return filepath.Join(real, rest)
		}
		if folder == filepath.Dir(folder) {
			return abs
		}
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
