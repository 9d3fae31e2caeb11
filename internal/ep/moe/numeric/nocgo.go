//go:build !cgo

package numeric

func quantize(q []byte, scales []float32, x []uint16)            { goQuantize(q, scales, x) }
func dequantize(x []uint16, q []byte, scales []float32)          { goDequantize(x, q, scales) }
func scale(x []uint16, factor float32)                           { goScale(x, factor) }
func reduce(out, base []uint16, rows []int32, weights []float32) { goReduce(out, base, rows, weights) }
