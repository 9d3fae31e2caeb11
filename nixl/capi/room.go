package capi

import (
	"cmp"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// agentRoom is enough for what UCX's transport posix takes in /dev/shm for an agent: 4.2 MiB with NIXL 1.5.
	agentRoom = 5 << 20
	// lonely is of how many agents an agent makes sure, among several hosts, that there is room for.
	lonely = 4

	// RoomHint names the remedy where there is not.
	RoomHint = "give /dev/shm more room (containers: --shm-size)"
)

// Tight says why so many agents of this host cannot share memory through UCX, or nothing if they can. UCX shares
// memory by files in /dev/shm, or in UCX_POSIX_DIR, and does not survive it if there is no room for them.
func Tight(agents int) string {
	return tight(cmp.Or(os.Getenv("UCX_POSIX_DIR"), "/dev/shm"), agents)
}

func tight(dir string, agents int) string {
	var st unix.Statfs_t
	err := unix.Access(dir, unix.W_OK|unix.X_OK)
	if err == nil {
		err = unix.Statfs(dir, &st)
	}
	if err != nil {
		return fmt.Sprintf("UCX cannot make files in %s (%v)", dir, err)
	}
	if free, need := int64(st.Bavail)*st.Bsize, int64(agents)*agentRoom; free < need {
		return fmt.Sprintf("%s has %d MiB free, and UCX takes %d MiB for %d agents", dir, free>>20, need>>20, agents)
	}
	return ""
}
