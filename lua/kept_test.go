package lua

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/size"
)

// room makes every rank believe that its host has so much memory.
func room(bytes int64) func(env *Env) {
	return func(env *Env) { env.Available = func() (int64, error) { return bytes, nil } }
}

// A number of runs that cannot fit is refused before the first of them, with the numbers.
func TestRunsThatCannotFit(t *testing.T) {
	const prepare = `local plan = transfer.prepare { name = "ring", mem = "dram", matrix = matrix.ring { bytes = 8 } } local ran = 0 `
	for name, c := range map[string]struct{ statement, want string }{
		"announced":  {`transfer.expect({ plan }, 2e9)`, "ring: recording 2000000000 more runs would take "},
		"at once":    {`plan:run(2e9)`, "ring: recording 2000000000 more runs would take "},
		"one by one": {`for i = 1, 1e6 do ran = i plan:run() end`, "ring: recording 1 more run would take "},
		"posted":     {`for i = 1, 1e6 do ran = i plan:post() plan:wait() end`, "ring: recording 1 more run would take "},
	} {
		p := playWith(t, 2, body(prepare+`pcall(function() `+c.statement+` end) result.set("ran", ran)`), nil, room(10e6))
		err := p.failed()
		if fault.KindOf(err) != fault.Resource || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "may take 4.00 MB there, 40 % of what was available") || !strings.Contains(fault.HintOf(err), "fewer iterations") {
			t.Errorf("%s: got %v (%s), want %s", name, err, fault.HintOf(err), c.want)
		}
		if ran, _ := p.doc.Values["ran"].(int64); ran > 4000 {
			t.Errorf("%s: %d runs in 4 MB", name, ran)
		}
	}
	// Runs that are not recorded take nothing.
	p := playWith(t, 2, body(prepare+`for _ = 1, 3 do plan:run { iterations = 10000, record = false } end transfer.expect({ plan }, 100)`), nil, room(1e6))
	if err := p.failed(); err != nil || strings.Contains(p.out[0], "recording") {
		t.Errorf("not recorded: %v, %s", err, p.out[0])
	}
	// What is much is announced, once.
	p = playWith(t, 2, body(prepare+`transfer.expect({ plan }, 5e5) plan:run(2)`), nil, room(100e9))
	if err := p.failed(); err != nil || strings.Count(p.out[0], "# note: recording 500000 runs takes about ") != 1 || strings.Count(p.out[0], "recording") != 1 {
		t.Errorf("announced: %v, %s", err, p.out[0])
	}
	// Not in the middle of a table.
	p = playWith(t, 2, body(prepare+`plan:run() transfer.expect({ plan }, 5e5)`), nil, room(100e9))
	if err := p.failed(); err != nil || strings.Contains(p.out[0], "recording") {
		t.Errorf("announced late: %v, %s", err, p.out[0])
	}
}

// heapProbe is what a script prints to: it notes the size of the heap when that is "measure".
type heapProbe []int64

func (p *heapProbe) Write(b []byte) (int, error) {
	if string(b) == "measure\n" {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		*p = append(*p, int64(m.HeapAlloc))
	}
	return len(b), nil
}

// What recorded runs are expected to take is about what they take at rank 0, with the table that the script gets.
func TestKeptAsExpected(t *testing.T) {
	const runs = 1500
	for name, c := range map[string]struct {
		ranks  int
		matrix string
	}{
		"one message":  {1, `matrix.from { { 8 } }`},
		"7 messages":   {8, `matrix.outcast { bytes = 8, root = 0 }`},
		"7 initiators": {8, `matrix.incast { bytes = 8, root = 0 }`},
		"all to all":   {8, `matrix.all_to_all { bytes = 8 }`},
	} {
		prepare := `local plan = transfer.prepare { mem = "dram", matrix = ` + c.matrix + ` } `
		refused := playWith(t, c.ranks, body(prepare+`transfer.expect({ plan }, 1e6)`), nil, func(env *Env) {
			if env.World.Rank() == 0 {
				room(1)(env)
			}
		}).errs[0]
		_, text, _ := strings.Cut(fmt.Sprint(refused), "on memory0, ")
		text, _, _ = strings.Cut(text, " each")
		expected, err := size.Parse(text)
		if err != nil {
			t.Fatal(name, refused, err)
		}
		var heap heapProbe
		p := playWith(t, c.ranks, body(fmt.Sprintf(prepare+`
			plan:run { iterations = 10, record = false }
			world.barrier()
			if world.rank == 0 then print "measure" end
			world.barrier()
			plan:run(%d)
			collected = transfer.collect { plan }
			world.barrier()
			if world.rank == 0 then print "measure" end
			world.barrier()`, runs)), nil, func(env *Env) { env.Out = &heap })
		if err := p.failed(); err != nil || len(heap) != 2 {
			t.Fatal(name, err, heap)
		}
		took := float64(heap[1]-heap[0]) / runs
		t.Logf("%s: %.0f bytes per run, expected %d", name, took, expected)
		if ratio := took / float64(expected); ratio < 0.6 || ratio > 1.1 {
			t.Errorf("%s: a run takes %.0f bytes, expected are %d", name, took, expected)
		}
	}
}
