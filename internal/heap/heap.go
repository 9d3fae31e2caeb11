// Package heap measures the memory of this process.
package heap

import "runtime/metrics"

// Bytes is what the objects in the heap take, with those that are no longer used but not yet swept.
func Bytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}
