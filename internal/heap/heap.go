// Package heap measures the memory of this process.
package heap

import (
	"runtime/metrics"
	"time"
)

// Bytes is what the objects in the heap take, with those that are no longer used but not yet swept.
func Bytes() int64 { return read("/memory/classes/heap/objects:bytes") }

// Live is what the objects in the heap took that the last collection of garbage found in use.
func Live() int64 { return read("/gc/heap/live:bytes") }

func read(name string) int64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// lookEvery is how often Watch looks at the heap.
const lookEvery = 5 * time.Millisecond

// Watch calls find again and again, until over is closed or find returns an error, which Watch returns. took is for how
// long it has watched, grown by how many bytes the heap has grown since.
func Watch(over <-chan struct{}, find func(took time.Duration, grown func() int64) error) error {
	began, first := time.Now(), Bytes()
	grown := func() int64 { return Bytes() - first }
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return nil
		case <-tick.C:
		}
		if err := find(time.Since(began), grown); err != nil {
			return err
		}
	}
}
