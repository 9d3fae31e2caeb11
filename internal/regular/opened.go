package regular

import (
	"os"
	"sync"
	"syscall"
)

// opened are the files that have been opened.
var opened struct {
	sync.Mutex
	files map[file]int64 // bytes of each
	bytes int64
}

type file struct{ device, inode uint64 }

// Opened is how many bytes the files have that this process has opened for reading. Each counts once, however often it
// was opened. Holes, which take no room on the disk, do not count.
func Opened() int64 {
	opened.Lock()
	defer opened.Unlock()
	return opened.bytes
}

// note counts an open file.
func note(info os.FileInfo) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	const block = 512  // bytes of what stat calls a block
	const small = 4096 // a file may be in its inode
	n := min(st.Size, block*st.Blocks+small)
	opened.Lock()
	defer opened.Unlock()
	if opened.files == nil {
		opened.files = map[file]int64{}
	}
	of := file{st.Dev, st.Ino}
	if more := n - opened.files[of]; more > 0 { // it may have grown
		opened.files[of] = n
		opened.bytes += more
	}
}
