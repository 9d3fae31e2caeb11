package cli

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"perigee/internal/kit/fault"
)

// Guarded calls a command, and returns a panic in it as an error.
func Guarded(command func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Defect(p)
		}
	}()
	return command()
}

// Defect is the error of a panic, which the deferred function that calls it has recovered from.
func Defect(p any) *fault.Error {
	at := "somewhere"
	callers := make([]uintptr, 100)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for panicked, more := false, true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if own := strings.HasPrefix(f.Function, "perigee/"); own && panicked {
			at = fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
			break
		}
		panicked = panicked || f.Function == "runtime.gopanic"
	}
	return fault.New(fault.Internal, "panic: %v, at %s", p, at).
		WithHint("this is a defect of perigee; please report it with what it read")
}
