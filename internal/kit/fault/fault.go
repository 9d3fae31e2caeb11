// Package fault holds the errors that a user sees: what went wrong, of which kind (each kind has its own exit code),
// and what to do about it.
//
// Code below the command line returns ordinary errors and wraps them in a *Error where the kind or a remedy is known:
// New for a new message, Wrap to put words in front of one and keep its kind and hint. main prints the message and the
// hint, and turns the outermost kind into the exit code. An error without a kind is Internal, a defect of perigee.
//
// A message says where, what was wanted and what was there, in one line without a period at its end; a hint says what
// to do next. Kinds are the exit codes themselves, which scripts and batch systems test for, so that a value is never
// used for anything else, and a new kind gets a new one; meaning.go has the sentence of each for the table of exit
// codes.
//
// At (at.go) writes the cause of a failure behind the rank, host and phase that it comes from, in one form for all
// ways on which the news of a failure travels.
package fault

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Kind says what sort of trouble an error is. Its value is the process's exit
// code, so a value, once given, is never used for anything else.
type Kind int

// The exit codes of perigee.
const (
	Internal  Kind = 1   // a defect of perigee, or something unforeseen
	Usage     Kind = 2   // the command line is wrong
	Input     Kind = 3   // a file that the user gave is missing or wrong
	Script    Kind = 4   // the Lua scenario failed
	Launch    Kind = 5   // the ranks could not be started or could not find each other
	Engine    Kind = 6   // the transfer engine is missing, unusable or failed
	Resource  Kind = 7   // the machine lacks what was asked for: memory, a GPU
	Corrupt   Kind = 8   // verification found bytes that should not be there
	RankLost  Kind = 9   // a rank died or went away
	Timeout   Kind = 10  // a wait outlasted --timeout
	Output    Kind = 11  // a result could not be written
	Threshold Kind = 12  // a measured figure is beyond a threshold that the user set
	Worse     Kind = 13  // a comparison found something worse than before
	Interrupt Kind = 130 // the user pressed Ctrl-C, or the job was told to end
)

var kindNames = map[Kind]string{
	Internal: "internal", Usage: "usage", Input: "input", Script: "script",
	Launch: "launch", Engine: "engine", Resource: "resource", Corrupt: "corrupt",
	RankLost: "rank lost", Timeout: "timeout", Output: "output", Threshold: "threshold", Worse: "worse",
	Interrupt: "interrupt",
}

// String names the kind in the words of the exit-code table.
func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("kind %d", int(k))
}

// Error is an error with a kind and, where there is one, a remedy.
type Error struct {
	Kind  Kind
	Msg   string // what happened, wanted and got, without a trailing period
	Hint  string // what to do next; may be empty
	Cause error  // may be nil; its text is already part of Msg where it helps

	limited bool // see New
}

// Error returns the message without the hint.
func (e *Error) Error() string { return e.Msg }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// WithHint adds what the user can do next and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	if e.limited {
		return e
	}
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// New makes an error of a kind. What %w in format stands for is the cause; there may be several. Where a file cannot be
// read or written because no descriptor is left for it, the file is not to blame: instead of Input and Output the kind
// is Resource, and the hint is about the limit, whatever WithHint says of the file.
func New(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	cause := errors.Unwrap(err)
	if _, several := err.(interface{ Unwrap() []error }); several {
		cause = err
	}
	e := &Error{Kind: kind, Msg: err.Error(), Cause: cause}
	if kind != Input && kind != Output {
		return e
	}
	switch {
	case errors.Is(cause, unix.EMFILE):
		e.Kind, e.Hint, e.limited = Resource, "raise the limit on open files: ulimit -n 1024", true
	case errors.Is(cause, unix.ENFILE):
		e.Kind, e.Hint, e.limited = Resource, "raise the system's limit on open files: sysctl fs.file-max", true
	}
	return e
}

// Wrap puts words in front of an error: "words: error". The kind and the hint stay those of err; an error
// without a kind is Internal. Where the kind is another, New with %w keeps the hint as well.
func Wrap(err error, format string, args ...any) *Error {
	return &Error{
		Kind: KindOf(err), Msg: fmt.Sprintf(format, args...) + ": " + err.Error(), Hint: HintOf(err), Cause: err,
	}
}

// KindOf returns the kind of the outermost *Error in err's tree, and
// Internal where there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// HintOf returns the first remedy in err's tree, from the outside to the inside.
func HintOf(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := err.(*Error); ok && e.Hint != "" {
		return e.Hint
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return HintOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, cause := range e.Unwrap() {
			if hint := HintOf(cause); hint != "" {
				return hint
			}
		}
	}
	return ""
}
