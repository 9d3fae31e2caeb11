package lua

import (
	"fmt"
	"testing"
)

// Lanes and data planes that are closed are forgotten, with their memory: a script may open some for each of
// thousands of measurements.
func TestWhatIsClosedIsForgotten(t *testing.T) {
	for _, open := range []string{
		`transfer.lanes { peers = { [0] = { 0 } }, block = 4096, batch = 64 }`,
		`moe.open { tokens = 16, hidden = 1024, topk = 2 }`,
	} {
		const count = 100
		var heap heapProbe
		p := playWith(t, 1, body(fmt.Sprintf(`
			local function open(n) for _ = 1, n do `+open+`:close() end end
			open(10) print "measure" open(%d) print "measure"`, count)), nil, func(env *Env) { env.Out = &heap })
		if err := p.failed(); err != nil || len(heap) != 2 {
			t.Fatal(err, heap)
		}
		each := (heap[1] - heap[0]) / count
		t.Logf("%s: %d bytes for each", open, each)
		if each > 1000 {
			t.Errorf("%s: once closed it keeps %d bytes", open, each)
		}
	}
}
