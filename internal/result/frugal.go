package result

import (
	"os"

	"perigee/internal/heap"
)

// What a process that reads results takes before its garbage is collected more often than the size of its heap asks
// for: so much, and so much for each byte of the files.
const (
	frugalBase    = 320 << 20
	frugalPerByte = 32
)

// Frugal keeps the memory of a process that reads results near what it needs, until restore is called: half of a heap
// may be garbage otherwise, which is much where a small file makes many rows. Large results are not slowed down.
func Frugal(files ...string) (restore func()) {
	limit := int64(frugalBase)
	for _, path := range files {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			limit += frugalPerByte * info.Size()
		}
	}
	return heap.Limit(limit)
}
