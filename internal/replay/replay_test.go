package replay

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/model"
	"perigee/internal/trace"
	"perigee/internal/traffic/load"
)

// cacheOf is a shipped model in a precision.
func cacheOf(t *testing.T, name, dtype string) *model.Cache {
	t.Helper()
	return served(t, name, dtype, model.Options{})
}

// pagedOf is a cache in 16 bit and pages of so many tokens.
func pagedOf(t *testing.T, name string, page int64) *model.Cache {
	t.Helper()
	return served(t, name, "bf16", model.Options{Page: page})
}

func served(t *testing.T, name, dtype string, o model.Options) *model.Cache {
	t.Helper()
	m, err := model.Named(name)
	must.Do(t, err)
	c, err := m.CacheIn(dtype, o)
	must.Do(t, err)
	return c
}

// traceOf reads a trace of Mooncake's form.
func traceOf(t *testing.T, lines ...string) *trace.Trace {
	t.Helper()
	tr, err := trace.Read("made.jsonl", strings.NewReader(strings.Join(lines, "\n")), trace.Options{Unit: "ms"})
	must.Do(t, err)
	return tr
}

func line(ms, input int, ids ...int) string {
	text := strings.ReplaceAll(fmt.Sprint(ids), " ", ",")
	if len(ids) == 0 {
		return fmt.Sprintf(`{"timestamp":%d,"input_length":%d}`, ms, input)
	}
	return fmt.Sprintf(`{"timestamp":%d,"input_length":%d,"hash_ids":%s}`, ms, input, text)
}

func mustMake(t *testing.T, tr *trace.Trace, o Options) *Schedule {
	t.Helper()
	s, err := Make(tr, o)
	must.Do(t, err)
	return s
}

// options are those of one worker of one rank on either side.
func options(c *model.Cache) Options {
	return Options{Model: c, Prefill: model.Workers{N: 1, TP: 1}, Decode: model.Workers{N: 1, TP: 1}, SpeedUp: 1, Scale: 1}
}

// shared is four prompts, of which two begin with blocks of earlier ones.
func shared(t *testing.T) *trace.Trace {
	return traceOf(t,
		line(0, 1500, 1, 2, 3),
		line(400, 1024, 4, 5),
		line(1000, 1400, 1, 2, 6), // 1024 tokens are those of line 1
		line(2000, 1500, 1, 2, 3)) // all of line 1
}

func TestParseWorkers(t *testing.T) {
	for text, want := range map[string]model.Workers{"4xTP8": {N: 4, TP: 8}, "TP8": {N: 1, TP: 8}, "4xtp8": {N: 4, TP: 8}, "12XTp1": {N: 12, TP: 1}} {
		got, err := model.ParseWorkers(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
		if again, err := model.ParseWorkers(got.String()); err != nil || again != got {
			t.Errorf("%s: written as %s, which reads as %v, %v", text, got, again, err)
		}
	}
	for text, want := range map[string]string{
		"":                            "wanted workers such as 4xTP8",
		"4x8":                         "got \"4x8\"",
		"4xTP8 ":                      "wanted workers such as",
		"-1xTP8":                      "wanted workers such as",
		"0xTP8":                       "at least one worker of one rank, got 0xTP8",
		"TP0":                         "at least one worker",
		"1048577xTP1":                 "at most 1048576 ranks",
		"99999999999999999999999xTP1": "at most 1048576 ranks",
		"4294967296xTP4294967296":     "at most 1048576 ranks",
	} {
		if _, err := model.ParseWorkers(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// T2: the load of all prompts and of what is missing, reckoned by hand. Llama 3.1 8B in 16 bit has 131,072 B a token.
func TestOffered(t *testing.T) {
	const token = 131072
	s := mustMake(t, shared(t), options(cacheOf(t, "llama3.1-8b", "bf16")))
	if want := int64((1500 + 1024 + 1400 + 1500) * token); s.Bytes != want {
		t.Errorf("all prompts have %d bytes, want %d", s.Bytes, want)
	}
	if s.Whole != s.Bytes {
		t.Errorf("all prompts are %d bytes, of which %d move", s.Whole, s.Bytes)
	}

	o := options(cacheOf(t, "llama3.1-8b", "bf16"))
	o.Moved, o.Decode = Missing, model.Workers{N: 1, TP: 2}
	s = mustMake(t, shared(t), o)
	if want := int64((1500 + 1024 + 376) * token); s.Bytes != want || s.Empty != 1 || len(s.Requests) != 3 {
		t.Errorf("missing are %d bytes of %d requests, %d empty, want %d", s.Bytes, len(s.Requests), s.Empty, want)
	}
	if want := int64((1500 + 1024 + 1400 + 1500) * token); s.Whole != want { // with the one that is empty
		t.Errorf("whole prompts have %d bytes, want %d", s.Whole, want)
	}
	o.LayerRuns, o.FLOPS, o.Scale, o.Model = 3, 1e15, 0.5, pagedOf(t, "llama3.1-8b", 16)
	paged := mustMake(t, shared(t), o)
	if want := int64((1504+1024+1408+1504)*token) / 2; paged.Whole != want { // whole pages of 16 tokens
		t.Errorf("whole prompts have %d bytes in pages at half the scale, want %d", paged.Whole, want)
	}
	if r := s.Requests[2]; r.Index != 2 || r.Cached != 1024 || r.Moved != 376 || r.Bytes != 376*token {
		t.Errorf("got %+v", r)
	}
}

// Two workers take turns, so that neither has what the other one was sent.
func TestMissingByWorker(t *testing.T) {
	o := options(cacheOf(t, "llama3.1-8b", "bf16"))
	o.Moved, o.Decode = Missing, model.Workers{N: 2, TP: 1}
	tr := traceOf(t, line(0, 1024, 1, 2), line(1, 1024, 1, 2), line(2, 1536, 1, 2, 3), line(3, 512, 1))
	s := mustMake(t, tr, o)
	var moved []int64
	for _, r := range s.Requests {
		moved = append(moved, r.Moved)
	}
	if !slices.Equal(moved, []int64{1024, 1024, 512}) || s.Empty != 1 {
		t.Errorf("got %v, %d empty", moved, s.Empty)
	}
	o.Decode, o.CacheBlocks = model.Workers{N: 1, TP: 1}, 2 // of 1 2, the tail of 1 2 3 stays: 2 3
	s = mustMake(t, tr, o)
	moved = nil
	for _, r := range s.Requests {
		moved = append(moved, r.Moved)
	}
	if !slices.Equal(moved, []int64{1024, 512, 512}) {
		t.Errorf("with a cache of two blocks: got %v", moved)
	}
}

// Ids that differ above bit 31 alone are different blocks.
func TestLongIDs(t *testing.T) {
	o := options(cacheOf(t, "llama3.1-8b", "bf16"))
	o.Moved = Missing
	if s := mustMake(t, traceOf(t, line(0, 512, 1), line(1, 512, 1<<32+1)), o); s.Bytes != 2*512*131072 {
		t.Errorf("got %d bytes", s.Bytes)
	}
}

// T3: handoffs of Kimi K2.5 in fp8, with 61 x 576 = 35,136 B a token.
func TestHandoff(t *testing.T) {
	s := mustMake(t, traceOf(t, line(0, 8150), line(1, 9174)), options(cacheOf(t, "kimi-k2.5", "fp8")))
	if got := s.Requests[0].Bytes; got != 286_358_400 {
		t.Errorf("8,150 tokens have %d bytes", got)
	}
	if got := float64(s.Requests[1].Bytes) / (1 << 30); math.Abs(got-0.3002) > 0.00005 {
		t.Errorf("9,174 tokens have %.6f GiB", got)
	}
}

// T4: a speed-up of 2 halves every offset, those of prefills and runs of layers, too.
func TestSpeedUp(t *testing.T) {
	o := options(cacheOf(t, "llama3.1-8b", "bf16"))
	o.FLOPS, o.LayerRuns = 1e15, 4
	once := mustMake(t, shared(t), o)
	o.SpeedUp = 2
	twice := mustMake(t, shared(t), o)
	if len(once.Transfers) != 16 || len(twice.Transfers) != 16 {
		t.Fatalf("%d and %d transfers", len(once.Transfers), len(twice.Transfers))
	}
	for i, x := range twice.Transfers {
		if whole := once.Transfers[i]; x.DueNS != whole.DueNS/2 || x.Request != whole.Request || x.Run != whole.Run {
			t.Errorf("transfer %d: got %+v, of %+v", i, x, whole)
		}
	}
	for i, r := range twice.Requests {
		if whole := once.Requests[i]; r.ArrivalNS != whole.ArrivalNS/2 || r.PrefillNS != whole.PrefillNS/2 {
			t.Errorf("request %d: got %+v, of %+v", i, r, whole)
		}
	}
}

// T4: both ends of a window are in it, and its beginning is the schedule's zero.
func TestWindow(t *testing.T) {
	o := options(cacheOf(t, "llama3.1-8b", "bf16"))
	o.From, o.To = 400*time.Millisecond, time.Second
	s := mustMake(t, shared(t), o)
	if len(s.Requests) != 2 || s.Requests[0].Index != 1 || s.Requests[0].DueNS != 0 || s.Requests[1].DueNS != 6e8 ||
		s.Outside != 2 || s.SpanNS != 6e8 {
		t.Errorf("got %+v, %d outside, span %d", s.Requests, s.Outside, s.SpanNS)
	}
	o.From, o.To = 401*time.Millisecond, 999*time.Millisecond
	_, err := Make(shared(t), o)
	if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "--from 401ms to --to 999ms") ||
		!strings.Contains(fault.HintOf(err), "2s") {
		t.Errorf("an empty window: got %v (%s)", err, fault.HintOf(err))
	}
}

// Prefills of a worker follow each other. One of s tokens takes (4 s^2 H + 16 s H^2) L / FLOPS.
func TestPrefill(t *testing.T) {
	c := cacheOf(t, "llama3.1-8b", "bf16") // H 4096, L 32
	o := options(c)
	o.Prefill, o.FLOPS, o.LayerRuns = model.Workers{N: 1, TP: 2}, 5e11, 2
	s := mustMake(t, traceOf(t, line(0, 1000, 1, 2), line(100, 1000, 1, 3)), o)
	first := (4.*1000*1000*4096 + 16.*1000*4096*4096) * 32 / 1e12 // s
	second := (4.*(1000*1000-512*512)*4096 + 16.*488*4096*4096) * 32 / 1e12
	want := []float64{first / 2, first, first + second/2, first + second}
	for i, x := range s.Transfers {
		if math.Abs(float64(x.DueNS)/1e9-want[i]) > 1e-6 || x.Run != i%2 {
			t.Errorf("transfer %d: got %+v, want at %v s", i, x, want[i])
		}
	}
	if r := s.Requests[1]; r.Cached != 512 || math.Abs(float64(r.PrefillNS)/1e9-second) > 1e-6 || r.DueNS != s.Transfers[2].DueNS {
		t.Errorf("got %+v", r)
	}
	if len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "prefill workers would be busy") {
		t.Errorf("got notes %q", s.Notes)
	}
	o.FLOPS, o.LayerRuns = 0, 0 // transfers do not wait
	s = mustMake(t, traceOf(t, line(0, 1000, 1, 2), line(100, 1000, 1, 3)), o)
	if s.Transfers[1].DueNS != 1e8 || s.Requests[0].PrefillNS != int64(first*1e12/800e12*1e9) || s.Notes != nil {
		t.Errorf("got %+v, %+v, %q", s.Transfers, s.Requests, s.Notes)
	}
}

func TestRouting(t *testing.T) {
	tr := traceOf(t,
		line(0, 4096, 1, 2, 3, 4, 5, 6, 7, 8),
		line(0, 1024, 11, 12),
		line(1, 1024, 11, 13),
		line(2, 4608, 1, 2, 3, 4, 5, 6, 7, 8, 9),
		line(3, 1024, 21, 22))
	for _, tt := range []struct {
		routing         Routing
		moved           Moved
		prefill, decode []int
	}{
		{RoundRobin, WholePrompt, []int{0, 1, 0, 1, 0}, []int{0, 1, 1, 0, 0}},
		// 4096 tokens take worker 0 longer than all others take worker 1; decode counts tokens.
		{LeastLoaded, WholePrompt, []int{0, 1, 1, 1, 0}, []int{0, 1, 1, 1, 0}},
		{PrefixAware, Missing, []int{0, 1, 1, 0, 1}, []int{0, 1, 1, 0, 1}},
	} {
		o := options(cacheOf(t, "llama3.1-8b", "bf16"))
		o.Prefill, o.Decode, o.Routing, o.Moved = model.Workers{N: 2, TP: 1}, model.Workers{N: 2, TP: 1}, tt.routing, tt.moved
		s := mustMake(t, tr, o)
		var prefill, decode []int
		for _, r := range s.Requests {
			prefill, decode = append(prefill, r.Prefill), append(decode, r.Decode)
		}
		if !slices.Equal(prefill, tt.prefill) || !slices.Equal(decode, tt.decode) {
			t.Errorf("%s: got %v and %v, want %v and %v", tt.routing, prefill, decode, tt.prefill, tt.decode)
		}
		again := mustMake(t, tr, o)
		if fmt.Sprint(again.Requests, again.Transfers) != fmt.Sprint(s.Requests, s.Transfers) {
			t.Errorf("%s: two schedules of the same options differ", tt.routing)
		}
	}
}

// Workers in turn: all pairs come equally often, and neither side has a worker that waits for long.
func TestInTurn(t *testing.T) {
	for _, n := range [][2]int{{1, 1}, {2, 2}, {1, 4}, {4, 1}, {3, 5}, {4, 6}, {6, 4}, {8, 2}} {
		pairs, last := map[[2]int]int{}, map[int]int{}
		for k := range 3 * n[0] * n[1] {
			p, d := inTurn(k, n[0], n[1])
			if p != k%n[0] {
				t.Errorf("%v: request %d has prefill worker %d", n, k, p)
			}
			if at, ok := last[d]; ok && k-at > 2*n[1]-1 {
				t.Errorf("%v: decode worker %d has waited for %d requests", n, d, k-at)
			}
			last[d] = k
			pairs[[2]int{p, d}]++
		}
		if len(pairs) != n[0]*n[1] {
			t.Errorf("%v: %d pairs", n, len(pairs))
		}
		for pair, times := range pairs {
			if times != 3 {
				t.Errorf("%v: pair %v comes %d times, want 3", n, pair, times)
			}
		}
	}
}

// T8: the ticks of a grid are spread, requests of a tick keep their order, and none leaves its tick.
func TestSpread(t *testing.T) {
	var lines []string
	for tick := range 60 {
		for i := range 1 + tick*7%5 {
			lines = append(lines, line(3000*tick+tick%3, 100+i)) // clocks are read up to 2 ms late
		}
	}
	tr := traceOf(t, lines...)
	o := options(cacheOf(t, "llama3.1-8b", "bf16"))
	whole := mustMake(t, tr, o)
	if whole.Grid != 3*time.Second || len(whole.Notes) != 1 || !strings.Contains(whole.Notes[0], "5 requests (") {
		t.Fatalf("grid %v, notes %q", whole.Grid, whole.Notes)
	}
	o.Spread, o.Seed = true, 1
	s := mustMake(t, tr, o)
	if s.Bytes != whole.Bytes || len(s.Requests) != len(whole.Requests) || len(s.Notes) != 1 ||
		!strings.Contains(s.Notes[0], "seed 1") {
		t.Errorf("%d bytes of %d requests, notes %q", s.Bytes, len(s.Requests), s.Notes)
	}
	var early, late int
	for i, r := range s.Requests {
		off := time.Duration(r.ArrivalNS - whole.Requests[i].ArrivalNS)
		if r.Index != i || i > 0 && r.ArrivalNS < s.Requests[i-1].ArrivalNS {
			t.Errorf("request %d: got index %d at %d", i, r.Index, r.ArrivalNS)
		}
		if off < -3*time.Millisecond || off > 3*time.Second {
			t.Errorf("request %d left its tick by %v", i, off)
		}
		if off < 1500*time.Millisecond {
			early++
		} else {
			late++
		}
	}
	if n := len(s.Requests); early < n*2/5 || late < n*2/5 {
		t.Errorf("%d requests in the first half of their tick, %d in the second", early, late)
	}
	o.Seed = 2
	if other := mustMake(t, tr, o); other.Requests[5].DueNS == s.Requests[5].DueNS {
		t.Error("another seed draws the same times")
	}
	o.From = 90 * time.Second
	part := mustMake(t, tr, o)
	o.From = 0
	all := mustMake(t, tr, o)
	if r := part.Requests[0]; r.ArrivalNS+90e9 != all.Requests[r.Index].ArrivalNS {
		t.Errorf("in a window request %d comes at %d, otherwise at %d", r.Index, r.ArrivalNS, all.Requests[r.Index].ArrivalNS)
	}
}

// vllm#50913: pages of 16 tokens of Llama 3 70B are pieces of 8 KiB at TP 8.
func TestPages(t *testing.T) {
	o := options(pagedOf(t, "llama3.1-70b", 16))
	o.Prefill, o.Decode = model.Workers{N: 1, TP: 8}, model.Workers{N: 1, TP: 8}
	s := mustMake(t, traceOf(t, line(0, 33)), o)
	parts := s.Parts(nil, 0)
	if len(parts) != 8 {
		t.Fatalf("got %d parts", len(parts))
	}
	for i, p := range parts {
		if p.From != i || p.To != 8+i || !slices.Equal(p.Runs, []load.DescriptorRun{{Count: 3 * 80, Bytes: 8192}}) {
			t.Errorf("part %d: got %+v", i, p)
		}
	}
	// Each rank receives its copy of the latent vectors, 3 x 61 pages of 16 x 576 x 2 bytes.
	o.Model = pagedOf(t, "deepseek-v3", 16)
	s = mustMake(t, traceOf(t, line(0, 33)), o)
	for i, p := range s.Parts(nil, 0) {
		if p.From != i || p.To != 8+i || !slices.Equal(p.Runs, []load.DescriptorRun{{Count: 3 * 61, Bytes: 16 * 576 * 2}}) {
			t.Errorf("got %+v", p)
		}
	}
	// Where it is asked for, they share the pages.
	o.Replicas = model.ReplicasSplit
	s = mustMake(t, traceOf(t, line(0, 33)), o)
	var pages int64
	for _, p := range s.Parts(nil, 0) {
		if len(p.Runs) != 1 || p.Runs[0].Bytes != 16*576*2 || p.Runs[0].Count < 3*61/8 {
			t.Errorf("got %+v", p)
		}
		pages += p.Runs[0].Count
	}
	if pages != 3*61 || s.Bytes != 3*61*16*576*2 {
		t.Errorf("got %d pages of %d bytes", pages, s.Bytes)
	}
	// A miss begins with a whole page.
	o = options(pagedOf(t, "llama3.1-8b", 1000))
	o.Moved = Missing
	s = mustMake(t, traceOf(t, line(0, 1024, 1, 2), line(1, 2000, 1, 2, 3, 4)), o)
	if r := s.Requests[1]; r.Moved != 1000 || r.Bytes != 1000*131072 {
		t.Errorf("got %+v", r)
	}
}

// Where buffers do not fit, the pool and the scale that are named do, and are no smaller than they need be.
func TestFitting(t *testing.T) {
	const token = 131072
	tr := traceOf(t, line(0, 100), line(7, 50), line(9, 100))
	o := options(cacheOf(t, "llama3.1-8b", "bf16"))
	o.Pool = 30 * token
	s := mustMake(t, tr, o)
	_, err := s.Place()
	hint := s.Fitting(func(load.Schedule) bool { return true })
	if want := "--pool 13107200, the least that holds the largest transfer, or --scale 0.2"; fault.KindOf(err) != fault.Input ||
		hint != want || !strings.Contains(err.Error(), "a pool of 3932160 bytes cannot hold transfer 0 at a rank: wanted at least 13107200") {
		t.Fatalf("got %v\n%s", err, hint)
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Pool = 100 * token }, func(o *Options) { o.Scale = 0.2 },
	} {
		mended := o
		change(&mended)
		if _, err := mustMake(t, tr, mended).Place(); err != nil {
			t.Error(err)
		}
	}
	// The default pool holds all three transfers; a host has room for so many bytes in either buffer.
	o.Pool = 0
	for room, want := range map[int64]string{
		100 * token: "--pool 13107200, the least that holds the largest transfer, or --scale 0.2", // 250 tokens at 0.2 are 50
		99 * token:  "--scale 0.2; no --pool is small enough, since the largest transfer needs 13107200 bytes of a rank's buffer",
		0:           "fewer ranks on a host, or more hosts: the largest transfer needs 13107200 bytes of a rank's buffer",
	} {
		got := mustMake(t, tr, o).Fitting(func(l load.Schedule) bool { return l.Needs(2, 0)[0].Send[l.Mem] <= room })
		if got != want {
			t.Errorf("room for %d bytes: got %q, want %q", room, got, want)
		}
	}
}

func TestLoad(t *testing.T) {
	o := options(cacheOf(t, "llama3.1-8b", "bf16"))
	o.Pool = 1 << 30
	l := mustMake(t, traceOf(t, line(0, 100), line(7, 50)), o).Load()
	if !slices.Equal(l.Due, []int64{0, 7e6}) || l.Pool != 1<<30 || len(l.Parts(nil, 1)) != 1 {
		t.Errorf("got %+v", l)
	}
}
