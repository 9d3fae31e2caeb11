package report

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/page/pagetest"
	"perigee/tools/report/figures"
)

// A page of 64 ranks and 100 dense patterns can be mailed.
func TestPageCanBeMailed(t *testing.T) {
	const most = 5 << 20
	in, text := synthetic{ranks: 64, hosts: 8, patterns: 100, senders: 32, peers: 32, isolated: 2, iterations: 3}.write(t, "r.json.zst")
	path := pageOf(t, in)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MB of JSON became %d kB of page", text/1e6, info.Size()/1e3)
	if info.Size() > most {
		t.Errorf("the page has %d bytes, more than %d", info.Size(), most)
	}
}

// peakHeap runs f and returns the largest heap seen meanwhile, in bytes.
func peakHeap(f func()) uint64 {
	var peak atomic.Uint64
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
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
	return peak.Load()
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
	runtime.GC()
	small := peakHeap(read(few))
	runtime.GC()
	large := peakHeap(read(many))
	t.Logf("%d MB of JSON: %d MB of heap against %d MB", text/1e6, large>>20, small>>20)
	// The timeline may fill up to its bound, and there is garbage.
	if most := small*3/2 + 32<<20; large > most {
		t.Errorf("the heap grew to %d bytes, want at most %d", large, most)
	}
}

// What does not fit on a page is said to be left out.
func TestLeftOut(t *testing.T) {
	in, _ := synthetic{ranks: 64, hosts: 4, patterns: 60, senders: 30, peers: 30, isolated: 0, iterations: 50}.write(t, "r.json.zst")
	f, err := figures.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Timeline.Spans) != figures.MostSpans || f.Timeline.Dropped == 0 || len(f.LeftOut) != 1 {
		t.Fatalf("%d spans, %d dropped, left out: %q", len(f.Timeline.Spans), f.Timeline.Dropped, f.LeftOut)
	}
	tab := open(t, pagetest.Start(t), pageOf(t, in), pagetest.Light)
	if got := tab.Text(".banner.warn"); got != "Left out of this page\n\n"+f.LeftOut[0] && got != "Left out of this page\n"+f.LeftOut[0] {
		t.Errorf("the page says %q", got)
	}
}

// BenchmarkReport makes the page of 512 ranks and 1000 patterns from 512 messages each.
func BenchmarkReport(b *testing.B) {
	in, text := synthetic{ranks: 512, hosts: 64, patterns: 1000, senders: 64, peers: 8, isolated: 1, iterations: 3}.write(b, "r.json.zst")
	b.SetBytes(text)
	var peak uint64
	for b.Loop() {
		peak = max(peak, peakHeap(func() {
			f, err := figures.Read(in)
			if err != nil {
				b.Fatal(err)
			}
			out, err := os.Create(filepath.Join(b.TempDir(), "r.html"))
			if err != nil {
				b.Fatal(err)
			}
			if err := writeHTML(out, []input{{"r.json.zst", f}}); err != nil {
				b.Fatal(err)
			}
			size, err := out.Seek(0, io.SeekCurrent)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(size)/1e6, "page-MB")
		}))
	}
	b.ReportMetric(float64(peak)/1e6, "heap-MB")
}
