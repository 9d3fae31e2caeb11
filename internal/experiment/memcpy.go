package experiment

import (
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/result"
)

// copySizes are the bytes of the copies that are timed, ascending.
var copySizes = []int64{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}

// copyTime is for how long each size is copied, copyBytes what is timed at a time, at least.
const (
	copyTime  = 5 * time.Millisecond
	copyBytes = 256 << 10
)

// timeCopies times copies inside the host's memory by this thread, between two buffers that are used again and again,
// as those of transfers are. The fastest counts, since other processes make single ones slower. It takes about 50 ms
// and 32 MiB, and returns nil where there is no memory.
func timeCopies() (list []result.Copy) {
	largest := int(copySizes[len(copySizes)-1])
	memory, err := unix.Mmap(-1, 0, 2*largest, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Munmap(memory) }()
	from, to := memory[:largest], memory[largest:]
	for _, size := range copySizes {
		times := int(max(copyBytes/size, 1))
		fastest := time.Duration(0)
		for began := time.Now(); time.Since(began) < copyTime || fastest == 0; {
			start := time.Now()
			for range times {
				copy(to[:size], from[:size])
			}
			if took := time.Since(start); fastest == 0 || took < fastest {
				fastest = took
			}
		}
		list = append(list, result.Copy{Bytes: size, Rate: float64(size) * float64(times) / fastest.Seconds()})
	}
	return list
}
