package heap

import (
	"runtime/debug"
	"slices"
	"sync"
)

// limits are those in force, and what the process had before the first of them.
var limits struct {
	sync.Mutex
	list   []int64
	before int64
}

// Limit has garbage collected more often where this process would otherwise take more than so many bytes, until release
// is called: up to half of a heap may be garbage without it. It bounds no memory that is in use. Of several limits the
// least counts.
func Limit(bytes int64) (release func()) {
	limits.Lock()
	defer limits.Unlock()
	if len(limits.list) == 0 {
		limits.before = debug.SetMemoryLimit(-1)
	}
	limits.list = append(limits.list, bytes)
	setLeast()
	return sync.OnceFunc(func() {
		limits.Lock()
		defer limits.Unlock()
		i := slices.Index(limits.list, bytes)
		limits.list = slices.Delete(limits.list, i, i+1)
		setLeast()
	})
}

func setLeast() { debug.SetMemoryLimit(slices.Min(append([]int64{limits.before}, limits.list...))) }
