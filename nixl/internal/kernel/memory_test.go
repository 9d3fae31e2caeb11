package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

func TestRoom(t *testing.T) {
	if err := Room(4096); err != nil {
		t.Error(err)
	}
	if err := Room(1 << 60); fault.KindOf(err) != fault.Resource || fault.HintOf(err) == "" {
		t.Errorf("an exbibyte: got %v", err)
	}
}

const count = 64

// mapping returns pages with others on both sides that cannot be reached, so that the kernel keeps an account of
// them alone.
func mapping(t *testing.T, flags int) []byte {
	t.Helper()
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, (count+2)*page, unix.PROT_NONE, flags|unix.MAP_ANON)
	must.Do(t, err)
	t.Cleanup(func() { unix.Munmap(b) })
	b = b[page : (count+1)*page]
	if err := errors.Join(unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE),
		unix.Madvise(b, unix.MADV_NOHUGEPAGE)); err != nil {
		t.Fatal(err)
	}
	return b
}

// resident counts the pages of a mapping that are resident in memory.
func resident(t *testing.T, b []byte) int {
	t.Helper()
	text := must.Read(t, "/proc/self/smaps")
	_, rest, found := strings.Cut("\n"+string(text), fmt.Sprintf("\n%x-", uintptr(unsafe.Pointer(&b[0]))))
	_, rest, _ = strings.Cut(rest, "\nRss:")
	var kib int
	if n, err := fmt.Sscanf(rest, "%d kB", &kib); !found || n != 1 {
		t.Fatalf("the mapping is not in smaps: %v", err)
	}
	return kib << 10 / os.Getpagesize()
}

// Both ways make pages present and keep their contents, on private and on shared mappings.
func TestPopulate(t *testing.T) {
	for name, flags := range map[string]int{"private": unix.MAP_PRIVATE, "shared": unix.MAP_SHARED} {
		for way, populate := range map[string]func(b []byte) error{
			"at once": Populate,
			"touched": func(b []byte) error { touch(b); return nil },
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				b := mapping(t, flags)
				copy(b[len(b)/2:], "keep this")
				if n := resident(t, b); n != 1 {
					t.Fatalf("%d pages are there before", n)
				}
				must.Do(t, populate(b))
				if n := resident(t, b); n != count {
					t.Errorf("%d of %d pages present", n, count)
				}
				if !bytes.HasPrefix(b[len(b)/2:], []byte("keep this")) {
					t.Error("the contents are gone")
				}
			})
		}
	}
	if err := Populate(nil); err != nil {
		t.Error(err)
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3 << 19: "1.5 MiB",
		1 << 30: "1.0 GiB", 1<<63 - 1: "8.0 EiB"} {
		if got := Human(n); got != want {
			t.Errorf("Human(%d) = %s, want %s", n, got, want)
		}
	}
}
