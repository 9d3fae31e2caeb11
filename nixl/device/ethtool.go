package device

import (
	"encoding/binary"
	"math"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// statistics are those of ethtool -S. Of an interface that has none, or where it is refused, there are none.
func statistics(nic string) map[string]int64 {
	const nameBytes, mostStatistics, ofNIC = 32, 1 << 16, 1 // ofNIC is ETH_SS_STATS
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, nic)
	if err != nil || info.N_stats == 0 || info.N_stats > mostStatistics {
		return nil
	}
	// The kernel writes as many as there are when it is asked: queues may have been added since.
	room := 2*int(info.N_stats) + 1024
	heads, values := make([]byte, 12+room*nameBytes), make([]byte, 8+room*8)
	binary.NativeEndian.PutUint32(heads, unix.ETHTOOL_GSTRINGS)
	binary.NativeEndian.PutUint32(heads[4:], ofNIC)
	binary.NativeEndian.PutUint32(values, unix.ETHTOOL_GSTATS)
	if ethtool(fd, nic, heads) != nil || ethtool(fd, nic, values) != nil {
		return nil
	}
	n := binary.NativeEndian.Uint32(heads[8:])
	if n != binary.NativeEndian.Uint32(values[4:]) || int(n) > room {
		return nil // they have changed between
	}
	all := map[string]int64{}
	for i := range int(n) {
		name := unix.ByteSliceToString(heads[12+i*nameBytes : 12+(i+1)*nameBytes])
		if v := binary.NativeEndian.Uint64(values[8+i*8:]); v <= math.MaxInt64 {
			all[name] = int64(v)
		}
	}
	return all
}

// ethtool asks about an interface. The first four bytes of data are the question.
func ethtool(fd int, nic string, data []byte) error {
	var request struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	if len(nic) >= len(request.name) {
		return unix.EINVAL
	}
	copy(request.name[:], nic)
	request.data = unsafe.Pointer(&data[0])
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(data)
	if e != 0 {
		return e
	}
	return nil
}
