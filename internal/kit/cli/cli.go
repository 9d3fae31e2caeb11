package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/plaintext"
)

// Streams are a command's surroundings. main binds one for kong, and a
// command's Run method takes it as an argument.
type Streams struct {
	In  io.Reader
	Out io.Writer // what was asked for
	Err io.Writer // errors, warnings and progress

	// Env returns the value of an environment variable, "" where it is unset.
	Env func(name string) string
}

// PrintError writes an error to w and, if there is one, its hint. Errors name keys, files and values that others have
// written: no line of theirs begins as one of perigee's own does.
func PrintError(w io.Writer, err error) {
	safe := plaintext.Writer(w)
	defer safe.Close()
	fmt.Fprintln(safe, "perigee:", further(Shortened(err.Error())))
	if hint := fault.HintOf(err); hint != "" {
		fmt.Fprintln(safe, "  hint:", further(Shortened(hint)))
	}
}

// further marks all lines of a text but the first as its own.
func further(text string) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  | ")
}

// mostWords is how long an error may be on a terminal. It may quote a value of any length.
const mostWords = 8 << 10

// Shortened leaves out the middle of a long text: errors begin with where, and end with why.
func Shortened(text string) string {
	if len(text) <= mostWords {
		return text
	}
	first, last := text[:mostWords/2], text[len(text)-mostWords/2:]
	return fmt.Sprintf("%s ... (%d bytes left out) ... %s", strings.ToValidUTF8(first, ""),
		len(text)-len(first)-len(last), strings.ToValidUTF8(last, ""))
}

// Reported is an error that the user has seen already. It decides about the exit code only.
type Reported struct{ Err error }

// Error says what went wrong.
func (r Reported) Error() string { return r.Err.Error() }

// Unwrap returns the error itself.
func (r Reported) Unwrap() error { return r.Err }

// IsReported reports whether the user has seen an error already.
func IsReported(err error) bool { return errors.As(err, new(Reported)) }

// LostOutput is the error of a command whose output cannot be written any more.
func LostOutput(err error) *fault.Error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err // without how the system calls standard output
	}
	if errors.Is(err, syscall.EPIPE) {
		err = errNoReader
	}
	return fault.New(fault.Output, "cannot write the output: %w", err)
}

// What kong says of words that are not there.
var (
	missingArgument = lazyre.New(`^expected "(<[^"]*)"$`)
	missingValue    = lazyre.New(`^(--\S+): .*"EOL".*$`)
	notWhole        = lazyre.New(`^\[?([^ \]]+)(?: \.\.\.)?\]?: (wanted .*)$`)
	noNumber        = lazyre.New(`^(\S+): expected a float but got (".*") \(.*\)$`)
	flagForValue    = lazyre.New(`^(--\S+): expected .* but got "(-[^"]*)" \((?:short|long) flag\).*$`)
)

// Plain rewords those mistakes on the command line that kong describes in its parser's words. Any other error comes
// back as it is.
func Plain(err error) error {
	text := err.Error()
	for expr, words := range map[*lazyre.Regexp]string{
		missingArgument: "the argument $1 is missing",
		missingValue:    "$1: the value is missing",
		notWhole:        "$1: $2",
		noNumber:        "$1: wanted a number, got $2",
		flagForValue:    "$1: wanted a value, got $2; one that begins with a minus is written $1=$2",
	} {
		if expr.MatchString(text) {
			return errors.New(expr.ReplaceAllString(text, words))
		}
	}
	return err
}
