package pmix

import (
	"errors"
	"fmt"
)

// ErrRankEnded says that a rank has ended before all had come: the others' [Client.Fence] is over then, too, with what
// PMIx calls a partial success.
var ErrRankEnded = errors.New("another rank has ended before all had met")

// LoadError says that the library cannot be used.
type LoadError struct {
	Path, Why string
}

// Error names the library and the reason.
func (e *LoadError) Error() string { return fmt.Sprintf("load %s: %s", e.Path, e.Why) }
