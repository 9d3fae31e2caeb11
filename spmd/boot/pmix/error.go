package pmix

import "fmt"

// LoadError says that the library cannot be used.
type LoadError struct {
	Path, Why string
}

// Error names the library and the reason.
func (e *LoadError) Error() string { return fmt.Sprintf("load %s: %s", e.Path, e.Why) }
