package cpuwait

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"perigee/internal/kit/must"
	"perigee/internal/traffic/series"
)

// threads is a folder such as /proc/self/task.
type threads struct {
	t      *testing.T
	folder string
}

func (f threads) set(id int, ran, waited int64) {
	f.t.Helper()
	dir := filepath.Join(f.folder, fmt.Sprint(id))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "schedstat"), fmt.Appendf(nil, "%d %d 7\n", ran, waited), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f threads) watch(own int) *Watch {
	w := in(f.folder, own)
	f.t.Cleanup(w.Stop)
	return w
}

var ignoreNS = cmpopts.IgnoreFields(series.Look{}, "NS")

// later looks at all threads, as after a while.
func (w *Watch) later() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(int64(len(w.looks)+1)*1e9, true)
}

// The thread that has run longest moves the bytes, but for those that poll; each Take goes on from the last look.
func TestTake(t *testing.T) {
	f := threads{t, t.TempDir()}
	f.set(10, 900, 5)
	f.set(11, 20, 3)
	f.set(12, 100, 1)
	w := f.watch(10)
	w.polls[13] = true
	w.later()
	f.set(10, 950, 6)
	f.set(12, 200, 41)
	f.set(13, 5000, 2000)
	w.later()
	must.Equal(t, []series.Look{{Own: 5, Moving: 1}, {Own: 6, Moving: 41}, {Own: 6, Moving: 41}}, w.Take(), ignoreNS)
	os.RemoveAll(filepath.Join(f.folder, "11"))
	f.set(12, 300, 50)
	if d := cmp.Diff([]series.Look{{Own: 6, Moving: 41}, {Own: 6, Moving: 50}}, w.Take(), ignoreNS); d != "" {
		t.Errorf("once more (-want +got)\n%s", d)
	}
}

// At the edges of a message only two threads are looked at; what is known of the others stays.
func TestEdges(t *testing.T) {
	f := threads{t, t.TempDir()}
	f.set(10, 900, 5)
	f.set(11, 20, 3)
	f.set(12, 100, 1)
	w := f.watch(10)
	w.later()
	f.set(10, 950, 6)
	f.set(11, 500, 30)
	f.set(12, 200, 41)
	w.Look()
	if got := w.looks[1].waited; len(got) != 2 || got[10] != 6 || got[12] != 41 {
		t.Errorf("%v", got)
	}
	f.set(11, 900, 33) // which moves the bytes from now on
	must.Equal(t, []series.Look{{Own: 5, Moving: 3}, {Own: 6, Moving: 3}, {Own: 6, Moving: 33}}, w.Take(), ignoreNS)
}

// Zeros of a thread that has run are no counts.
func TestKernelThatDoesNotCount(t *testing.T) {
	for _, counts := range [][2]int64{{0, 0}, {900, 0}} {
		f := threads{t, t.TempDir()}
		f.set(10, counts[0], counts[1])
		f.set(11, 800, 30)
		w := f.watch(10)
		w.later()
		if got := w.Take(); got != nil {
			t.Errorf("%v: %v", counts, got)
		}
	}
	var none *Watch
	none.Look()
	none.Polling()
	none.Start(1)
	if none.Stop(); none.Take() != nil {
		t.Error("a nil watch has seen something")
	}
}

// A watch that is not asked keeps the whole time, in fewer looks.
func TestMemoryIsBounded(t *testing.T) {
	f := threads{t, t.TempDir()}
	f.set(10, 900, 5)
	w := f.watch(10)
	w.mu.Lock()
	for i := range int64(3 * mostLooks) {
		w.look(i*1e6, i%40 == 0)
	}
	first, n := w.looks[0].ns, len(w.looks)
	w.mu.Unlock()
	if first != 0 || n > mostLooks || n < mostLooks/4 {
		t.Errorf("%d looks from %d on", n, first)
	}
}

// The kernel's counts of this process, whose other threads begin and end.
func TestOwn(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w := Own()
	defer w.Stop()
	w.Start(1)
	for until := time.Now().Add(150 * time.Millisecond); time.Now().Before(until); {
		w.Look() // ready all the time
	}
	list := w.Take()
	if len(list) < 3 {
		t.Fatalf("%d looks", len(list))
	}
	for i := range list[1:] {
		if list[i+1].NS < list[i].NS || list[i+1].Own < list[i].Own {
			t.Errorf("%v after %v", list[i+1], list[i])
		}
	}
}
