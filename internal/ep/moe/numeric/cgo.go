//go:build cgo

package numeric

// #cgo CFLAGS: -std=c11 -O3 -Wno-psabi
// #include "kernels.h"
import "C"

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

func reduce(out, base []uint16, rows []int32, weights []float32) {
	if len(out) == 0 || len(rows) == 0 {
		clear(out)
		return
	}
	C.perigee_reduce_rows((*C.uint16_t)(&out[0]), (*C.uint16_t)(&base[0]), (*C.int32_t)(&rows[0]),
		(*C.float)(&weights[0]),
		C.size_t(len(rows)), C.size_t(len(out)))
}
