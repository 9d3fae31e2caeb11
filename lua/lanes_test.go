package lua

import (
	"runtime"
	"testing"
)

// Lanes that are closed are forgotten, with their memory: a script may open some for each of thousands of measurements.
func TestClosedLanesAreForgotten(t *testing.T) {
	const count = 300
	var heap []uint64
	measure := func() {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		heap = append(heap, m.HeapAlloc)
	}
	p := playWith(t, 1, body(`
		local function open(n)
			for _ = 1, n do transfer.lanes { peers = { [0] = { 0 } }, block = 4096, batch = 64 }:close() end
		end
		open(10) print(1) open(300) print(2)`), nil, func(env *Env) { env.Out = probe(measure) })
	if err := p.failed(); err != nil || len(heap) < 2 {
		t.Fatal(err, heap)
	}
	each := (int64(heap[len(heap)-1]) - int64(heap[len(heap)-2])) / count
	t.Logf("%d bytes for each", each)
	if each > 1000 {
		t.Errorf("closed lanes keep %d bytes each", each)
	}
}
