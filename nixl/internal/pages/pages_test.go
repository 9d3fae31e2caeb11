package pages

import (
	"bytes"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
)

func TestRoom(t *testing.T) {
	if err := Room(4096); err != nil {
		t.Error(err)
	}
	if err := Room(1 << 60); fault.KindOf(err) != fault.Resource || fault.HintOf(err) == "" {
		t.Errorf("an exbibyte: got %v", err)
	}
}

// resident counts the present pages of a mapping.
func resident(t *testing.T, b []byte) int {
	t.Helper()
	vec := make([]byte, len(b)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, address(b), uintptr(len(b)), address(vec)); errno != 0 {
		t.Fatal(errno)
	}
	n := 0
	for _, v := range vec {
		n += int(v & 1)
	}
	return n
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

func TestPopulate(t *testing.T) {
	const count = 64
	size := count * os.Getpagesize()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	copy(b[size/2:], "keep this")
	if n := resident(t, b); n == count {
		t.Fatal("all pages are there before")
	}
	if err := Populate(b); err != nil {
		t.Fatal(err)
	}
	if n := resident(t, b); n != count {
		t.Errorf("%d of %d pages present", n, count)
	}
	if !bytes.HasPrefix(b[size/2:], []byte("keep this")) {
		t.Error("the contents are gone")
	}
	touch(b)
	if err := Populate(nil); err != nil {
		t.Error(err)
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3 << 19: "1.5 MiB", 1 << 30: "1.0 GiB", 1<<63 - 1: "8.0 EiB"} {
		if got := Human(n); got != want {
			t.Errorf("Human(%d) = %s, want %s", n, got, want)
		}
	}
}
