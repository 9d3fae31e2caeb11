//go:build cgo

package numeric

// #cgo CFLAGS: -std=c11 -O3
// #include "kernels.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// The kernels in C do what goQuantize and its like do, several channels at a time.

func quantize(q []byte, scales []float32, x []uint16) {
	if len(x) == 0 {
		return
	}
	C.perigee_quantize((*C.uint8_t)(&q[0]), (*C.float)(&scales[0]), (*C.uint16_t)(&x[0]), C.size_t(len(scales)))
}

func dequantize(x []uint16, q []byte, scales []float32) {
	if len(x) == 0 {
		return
	}
	C.perigee_dequantize((*C.uint16_t)(&x[0]), (*C.uint8_t)(&q[0]), (*C.float)(&scales[0]), C.size_t(len(scales)))
}

func scale(x []uint16, factor float32) {
	if len(x) == 0 {
		return
	}
	C.perigee_scale((*C.uint16_t)(&x[0]), C.float(factor), C.size_t(len(x)))
}

// mostRows is how many rows reduce passes without memory of the heap.
const mostRows = 16

func reduce(out []uint16, rows [][]uint16, weights []float32) {
	if len(out) == 0 || len(rows) == 0 {
		clear(out)
		return
	}
	var few [mostRows]*C.uint16_t
	pointers := few[:0]
	var pinner runtime.Pinner // C must not be given memory with pointers that may move
	defer pinner.Unpin()
	for _, row := range rows {
		pinner.Pin(unsafe.SliceData(row))
		pointers = append(pointers, (*C.uint16_t)(unsafe.SliceData(row)))
	}
	C.perigee_reduce((*C.uint16_t)(&out[0]), (**C.uint16_t)(unsafe.SliceData(pointers)), (*C.float)(&weights[0]),
		C.size_t(len(rows)), C.size_t(len(out)))
}
