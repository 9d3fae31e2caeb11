//go:build !cgo

package capi

import (
	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// loaderPath cannot ask the loader without cgo.
func loaderPath(string) (string, error) { return "", nil }

// Engine has no instances in a perigee without cgo.
type Engine struct{ nixl.Engine }

// Load always fails.
func Load(string) (*Engine, error) {
	return nil, fault.New(fault.Engine, "this perigee was built without cgo and cannot load NIXL").
		WithHint("build it with CGO_ENABLED=1 and a C compiler, or use --engine shm for ranks of one host")
}

// WithoutSharedMemory is never called.
func (e *Engine) WithoutSharedMemory() *Engine { return e }

// Flush has no streams of C to write out.
func Flush() {}

// OnDevices is never called.
func (e *Engine) OnDevices(string) *Engine { return e }

// WithBackend is never called.
func (e *Engine) WithBackend(nixl.Backend) (*Engine, Plugin, error) {
	return e, Plugin{}, nil
}
