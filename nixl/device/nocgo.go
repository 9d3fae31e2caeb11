//go:build !cgo

package device

import (
	"unsafe"

	"perigee/internal/kit/fault"
)

// GPUs returns nothing: calling NVML takes cgo.
func GPUs() ([]GPU, error) { return nil, nil }

// Visible returns nothing.
func Visible() ([]string, error) { return nil, nil }

// CUDA stands for the memory of a GPU, which a perigee without cgo cannot reach.
type CUDA struct{}

// OpenCUDA always fails.
func OpenCUDA(int) (*CUDA, error) {
	return nil, fault.New(fault.Resource, "this perigee was built without cgo and cannot allocate GPU memory").
		WithHint("use memory type dram")
}

// Alloc is never reached.
func (*CUDA) Alloc(int64) (uintptr, error) { return 0, nil }

// Free is never reached.
func (*CUDA) Free(uintptr) error { return nil }

// Left is never reached.
func (*CUDA) Left() (int64, error) { return 0, nil }

// CopyIn is never reached.
func (*CUDA) CopyIn(uintptr, []byte) error { return nil }

// CopyOut is never reached.
func (*CUDA) CopyOut([]byte, uintptr) error { return nil }

// Ordinal is never reached.
func (*CUDA) Ordinal() int { return 0 }

// Hook is never reached.
func (*CUDA) Hook() (set, context unsafe.Pointer) { return nil, nil }
