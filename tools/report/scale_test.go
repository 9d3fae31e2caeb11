package report

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/figures"
	"perigee/internal/kit/must"
	"perigee/internal/kit/page/pagetest"
)

// A page of 64 ranks and 100 dense patterns can be mailed.
func TestPageCanBeMailed(t *testing.T) {
	const most = 5 << 20
	in, text := synthetic{ranks: 64, hosts: 8, patterns: 100, senders: 32, peers: 32, isolated: 2, iterations: 3}.write(t, "r.json.zst")
	path := pageOf(t, in)
	info, err := os.Stat(path)
	must.Do(t, err)
	t.Logf("%d MB of JSON became %d kB of page", text/1e6, info.Size()/1e3)
	if info.Size() > most {
		t.Errorf("the page has %d bytes, more than %d", info.Size(), most)
	}
}

// Two views of the heap, in bytes: all of it, and what the last collection has found in
// use. When a collection comes, and so how much garbage there is, depends on the machine.
const (
	heapBytes = "/memory/classes/heap/objects:bytes"
	liveBytes = "/gc/heap/live:bytes"
)

// peak runs f and returns the largest value of a metric seen meanwhile.
func peak(metric string, f func()) uint64 {
	runtime.GC()
	var largest atomic.Uint64
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			now := []metrics.Sample{{Name: metric}}
			metrics.Read(now)
			largest.Store(max(largest.Load(), now[0].Value.Uint64()))
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(done)
	<-over
	return largest.Load()
}

// Four times the runs take no more memory: measurements are read as a stream.
func TestMemoryDoesNotGrowWithRuns(t *testing.T) {
	s := synthetic{ranks: 64, hosts: 8, patterns: 20, senders: 16, peers: 16, isolated: 5, iterations: 25}
	few, _ := s.write(t, "few.json.zst")
	s.iterations *= 4
	many, text := s.write(t, "many.json.zst")
	read := func(path string) func() {
		return func() {
			if _, err := figures.Read(path); err != nil {
				t.Error(err)
			}
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // many collections, many looks
	small, large := peak(liveBytes, read(few)), peak(liveBytes, read(many))
	t.Logf("%d MB of JSON: %d MB of heap in use against %d MB", text/1e6, large>>20, small>>20)
	// The timeline may fill up to its bound.
	if most := small*3/2 + 16<<20; large > most {
		t.Errorf("the heap grew to %d bytes, want at most %d", large, most)
	}
}

// What does not fit on a page is said to be left out.
func leftOut(t *testing.T, browser *pagetest.Browser) {
	in, _ := synthetic{ranks: 64, hosts: 4, patterns: 60, senders: 60, peers: 1, isolated: 0, iterations: 30}.write(t, "r.json.zst")
	f, err := figures.Read(in)
	must.Do(t, err)
	if len(f.Timeline.Spans) != figures.MostSpans || f.Timeline.Dropped == 0 || len(f.LeftOut) != 1 {
		t.Fatalf("%d spans, %d dropped, left out: %q", len(f.Timeline.Spans), f.Timeline.Dropped, f.LeftOut)
	}
	tab := open(t, browser, pageOf(t, in), pagetest.Light)
	if got := tab.Text(".banner.warn"); got != "Left out of this page\n\n"+f.LeftOut[0] && got != "Left out of this page\n"+f.LeftOut[0] {
		t.Errorf("the page says %q", got)
	}
}

// BenchmarkReport makes the page of 512 ranks and 1000 patterns from 512 messages each.
func BenchmarkReport(b *testing.B) {
	in, text := synthetic{ranks: 512, hosts: 64, patterns: 1000, senders: 64, peers: 8, isolated: 1, iterations: 3}.write(b, "r.json.zst")
	b.SetBytes(text)
	var most uint64
	for b.Loop() {
		most = max(most, peak(heapBytes, func() {
			f, err := figures.Read(in)
			must.Do(b, err)
			out, err := os.Create(filepath.Join(b.TempDir(), "r.html"))
			must.Do(b, err)
			must.Do(b, writeHTML(out, []input{{"r.json.zst", f}}))
			size, err := out.Seek(0, io.SeekCurrent)
			must.Do(b, err)
			b.ReportMetric(float64(size)/1e6, "page-MB")
		}))
	}
	b.ReportMetric(float64(most)/1e6, "heap-MB")
}
