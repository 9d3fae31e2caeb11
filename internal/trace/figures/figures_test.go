package figures

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/model"
	"perigee/internal/trace"
	"perigee/internal/trace/blockcache"
)

// small is a trace of blocks of 10 tokens, whose figures are worked out by hand in the tests.
const small = `{"timestamp": 1000, "input_length": 25, "output_length": 4, "hash_ids": [0, 1, 2]}
{"timestamp": 1000, "input_length": 30, "output_length": 1, "hash_ids": [0, 1, 3]}
{"timestamp": 3000, "input_length": 25, "output_length": 2, "hash_ids": [0, 1, 2]}
{"timestamp": 63500, "input_length": 5, "output_length": 1, "hash_ids": [4]}
{"timestamp": 65000, "input_length": 15, "output_length": 9, "hash_ids": [5, 1]}
`

func read(t testing.TB, text string, blockTokens int64) *trace.Trace {
	t.Helper()
	tr, err := trace.Read("f", strings.NewReader(text), trace.Options{BlockTokens: blockTokens})
	must.Do(t, err)
	return tr
}

// alone moves from one rank to one rank.
var alone = model.Move{From: 1, To: 1}

func of(t testing.TB, tr *trace.Trace, o Options) *TraceFigures {
	t.Helper()
	o.Name = "f"
	f, err := Of(tr, o)
	must.Do(t, err)
	return f
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	must.Equal(t, want, got, cmpopts.EquateApprox(1e-12, 0))
}

// TestSmall has answers made by hand.
func TestSmall(t *testing.T) {
	f := of(t, read(t, small, 10), Options{})
	equal(t, f.SpanS, 64.0)
	// Gaps 0, 2, 60.5 and 1.5 s: mean 16, variance (256 + 196 + 1980.25 + 210.25) / 4.
	equal(t, f.Arrivals, Arrivals{Distinct: 4, Equal: 1, RatePerS: new(4 / 64.0),
		GapCV:   new(math.Sqrt(2642.5/4) / 16),
		Minutes: &Minutes{Full: 1, Mean: 3, Min: 3, Max: 3, P50: 3, P99: 3, Rest: 2}, Bins: f.Arrivals.Bins})
	equal(t, f.Input, Lengths{Sum: 100, Mean: 20, P50: 25, P90: 30, P99: 30, Max: 30, Bins: []Bin{
		{4, 6, 1}, {6, 8, 0}, {8, 12, 0}, {12, 16, 1}, {16, 24, 0}, {24, 32, 3}}})
	equal(t, f.Output, &Lengths{Sum: 17, Mean: 3.4, P50: 2, P90: 9, P99: 9, Max: 9, Bins: []Bin{
		{1, 2, 2}, {2, 3, 1}, {3, 4, 0}, {4, 6, 1}, {6, 8, 0}, {8, 12, 1}}})
	// 55 tokens come in the first 0.1 s and second, 80 in the first 10 s and minute; the mean is 100 / 64 s.
	equal(t, f.Windows, []Window{{0.1, 0, 55, 352}, {1, 0, 55, 35.2}, {10, 0, 80, 5.12}, {60, 0, 80, 80 / (60 * 100 / 64.0)}})
	equal(t, f.Blocks, &Blocks{Tokens: 10, References: 12, Distinct: 6, UsedOnce: 3, UsedOnceShare: 0.5, Hottest: 1,
		HottestRequests: 4, Checks: []Check{{Rule: rules[0]}, {rules[1], 1, 5}, {Rule: rules[2]}, {rules[3], 1, 5}}})
	h := f.Hits
	h.LRU, h.Curve = nil, nil
	// The second request has 20 tokens in two full blocks, the third one all of its 25, of which 20 are in full blocks.
	// The last one has block 1 behind a new one, so only at any position.
	equal(t, h, &Hits{HitTokens: 45, Token: 0.45, FullBlocks: 0.4, Block: 5 / 12.0, AnyPosition: 6 / 12.0, Request: (20/30.0 + 1) / 5,
		RequestsWithHit: 2, RequestsFully: 1})
	if f.Load != nil || f.Arrivals.Grid != nil {
		t.Errorf("load %v, grid %v; want none", f.Load, f.Arrivals.Grid)
	}
}

// TestLRU is about caches that do not hold all.
func TestLRU(t *testing.T) {
	const two = `{"timestamp": 0, "input_length": 30, "hash_ids": [0, 1, 2]}
{"timestamp": 1, "input_length": 30, "hash_ids": [0, 1, 3]}
`
	// Caches of 1 and 2 blocks keep the end of the first prompt, and nothing of its beginning; if its head was used last,
	// they keep that.
	p := &prompts{requests: read(t, two, 10).Requests, blocks: make([][]int32, 2), blockTokens: 10}
	p.number()
	tail, found := p.lru(false)
	head, _ := p.lru(true)
	for blocks, want := range []Point{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {3, 20 / 60.0, 1 / 3.0}, {4, 20 / 60.0, 1 / 3.0}} {
		equal(t, tail.at(blocks), want)
	}
	for blocks, want := range []float64{0, 10 / 60.0, 20 / 60.0, 20 / 60.0} {
		equal(t, head.at(blocks).Token, want)
	}
	equal(t, found, []int{0, 2})
}

// TestAgainstCache compares the ratios of all sizes at once with a cache of each size.
func TestAgainstCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 4
		p := &prompts{blockTokens: size}
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			ids := rapid.SliceOfN(rapid.Uint64Range(0, 12), 1, 6).Draw(t, "ids")
			input := int64(len(ids)*size - rapid.IntRange(0, size-1).Draw(t, "short"))
			p.requests = append(p.requests, trace.Request{Input: input, HashIDs: ids})
		}
		p.blocks = make([][]int32, len(p.requests))
		p.number()
		got, _ := p.lru(false)
		for capacity := 1; capacity <= p.distinct+1; capacity++ {
			c, hit, all, shares := blockcache.New(capacity), int64(0), int64(0), 0.0
			for i, r := range p.requests {
				n := p.tokens(i, c.Prefix(r.HashIDs))
				c.Touch(r.HashIDs)
				hit, all, shares = hit+n, all+r.Input, shares+float64(n)/float64(r.Input)
			}
			want := Point{capacity, float64(hit) / float64(all), shares / float64(len(p.requests))}
			if diff := cmp.Diff(want, got.at(capacity), cmpopts.EquateApprox(1e-12, 1e-15)); diff != "" {
				t.Fatalf("capacity %d (-want +got):\n%s", capacity, diff)
			}
		}
	})
}

// TestCurve doubles the size until all blocks fit, and agrees with the infinite cache there.
func TestCurve(t *testing.T) {
	h := of(t, read(t, small, 10), Options{}).Hits
	var sizes []int
	for _, p := range h.Curve {
		sizes = append(sizes, p.Blocks)
	}
	equal(t, sizes, []int{1, 2, 4, 8})
	equal(t, h.Curve[3], Point{8, h.Token, h.Request})
	equal(t, h.LRU[0], LRU{1000, h.Token, h.Token, h.Request})
}

// TestWide has ids that differ above bit 31 only.
func TestWide(t *testing.T) {
	f := of(t, read(t, `{"timestamp": 0, "input_length": 5, "hash_ids": [1]}
{"timestamp": 1, "input_length": 5, "hash_ids": [4294967297]}
`, 10), Options{})
	if f.Blocks.Distinct != 2 || f.Hits.HitTokens != 0 {
		t.Errorf("%+v %+v", f.Blocks, f.Hits)
	}
}

// ticked is a trace of ticks of 3 s, a millisecond late from tick 5 on, of which ticks 2 and 3 are empty. Each other one
// has two requests of 10 tokens, the last one three.
func ticked() string {
	var b strings.Builder
	for tick := range 20 {
		n := 2
		switch tick {
		case 2, 3:
			n = 0
		case 19:
			n = 3
		}
		for range n {
			fmt.Fprintf(&b, `{"timestamp": %d, "input_length": 10}`+"\n", 3000*tick+min(tick/5, 1))
		}
	}
	return b.String()
}

func TestGrid(t *testing.T) {
	c := cache(t, "llama3.1-8b")
	f := of(t, read(t, ticked(), 0), Options{Cache: c, Move: alone})
	mean := 37 / 20.0
	squares := 2*mean*mean + 17*(2-mean)*(2-mean) + (3-mean)*(3-mean)
	equal(t, f.Arrivals.Grid, &Grid{PeriodMS: 3000, OffMS: 1, Ticks: 20, Empty: 2, Max: 3, Mean: mean,
		Dispersion: squares / 20 / mean, MeanTokens: 10 * mean, P99Tokens: 30, MaxTokens: 30})
	equal(t, f.Load.MaxTick, int64(30*131072))
	equal(t, f.Arrivals.Bins.WidthS, 3.0)
	equal(t, f.Arrivals.Bins.Requests[:6], []int64{2, 2, 0, 0, 2, 2})
	if f.Blocks != nil || f.Hits != nil || f.Output != nil || f.Load.Miss != nil {
		t.Error("figures of ids or outputs, which the trace has not got")
	}
}

func cache(t *testing.T, name string) *model.Cache {
	t.Helper()
	m, err := model.Named(name)
	must.Do(t, err)
	d, err := m.ParseDType("bf16")
	must.Do(t, err)
	c, err := m.Cache(model.Options{DType: d})
	must.Do(t, err)
	return c
}

// TestLoad has the bytes of a model whose layers keep all tokens, and of one with windows.
func TestLoad(t *testing.T) {
	const perToken = 131072 // 32 layers x 8 heads x 128 x 2 x 2 B
	f := of(t, read(t, small, 10), Options{Cache: cache(t, "llama3.1-8b"), Move: alone, Model: "M"})
	l := f.Load
	equal(t, l.Model+" "+l.CacheDType, "M bf16")
	equal(t, l.Prompt, Offered{100 * perToken, new(100 * perToken / 64e9)})
	equal(t, l.Miss, &Offered{55 * perToken, new(55 * perToken / 64e9)})
	equal(t, l.Windows[2], ByteWindow{10, 0, 80 * perToken, 80 * perToken / 10e9, 5.12})

	// gpt-oss-120b: 36 layers of 8 heads x 64, every other one with a window of 128 tokens.
	const layer = 8 * 64 * 2 * 2
	f = of(t, read(t, `{"timestamp": 0, "input_length": 1000, "hash_ids": [0, 1]}
{"timestamp": 1000, "input_length": 1000, "hash_ids": [0, 2]}
{"timestamp": 2000, "input_length": 1000, "hash_ids": [0, 2]}
`, 900), Options{Cache: cache(t, "gpt-oss-120b"), Move: alone})
	equal(t, f.Load.Prompt.Bytes, int64(3*18*layer*(1000+128)))
	equal(t, f.Load.Miss.Bytes, int64(18*layer*(1000+128)+18*layer*(100+100)))
}

// TestWithin leaves requests out as if the file had not got them; both ends are included.
func TestWithin(t *testing.T) {
	tr := read(t, small, 10)
	f := of(t, tr, Options{From: 2 * time.Second, To: new(62500 * time.Millisecond)})
	if f.Requests != 2 || f.Outside != 3 || *f.FromS != 2 || *f.ToS != 62.5 || f.SpanS != 60.5 {
		t.Errorf("%+v", f)
	}
	if f.Hits.HitTokens != 0 {
		t.Errorf("hit %d tokens of requests that were left out", f.Hits.HitTokens)
	}
	if again := of(t, tr, Options{}); again.Requests != 5 || again.SpanS != 64 {
		t.Errorf("the trace has changed: %+v", again)
	}
	one := of(t, tr, Options{From: 63 * time.Second})
	if one.Requests != 1 || one.Arrivals.RatePerS != nil || one.Arrivals.GapCV != nil || one.Windows != nil {
		t.Errorf("%+v", one)
	}
	_, err := Of(tr, Options{Name: "f", From: time.Hour})
	must.Fail(t, err, fault.Input, "f: none of 5 requests")
}

// TestBinsWithin begins the bins at the first request that is left, whose tick is not the trace's first one.
func TestBinsWithin(t *testing.T) {
	text := "timestamp_s,input_length\n"
	for i := range 400 {
		text += fmt.Sprintf("%d,10\n", i/4*3)
	}
	f := of(t, read(t, text, 0), Options{From: 240 * time.Second})
	tr := read(t, text+"1200.01,10\n", 0)
	if g := of(t, tr, Options{}).Arrivals.Grid; g.OffMS != 10 {
		t.Errorf("of all: %+v", g)
	}
	if g := of(t, tr, Options{To: new(time.Minute)}).Arrivals.Grid; g.OffMS != 0 {
		t.Errorf("of a minute, in which all stand on their tick: %+v", g)
	}
	if b := f.Arrivals.Bins; b.BeginS != -1.5 || b.WidthS != 3 || len(b.Requests) != 20 || b.Requests[0] != 4 {
		t.Errorf("%+v", b)
	}
}

// TestFarApart has billions of empty minutes and ticks.
func TestFarApart(t *testing.T) {
	text := "timestamp_s,input_length\n"
	for i := range 40 {
		text += fmt.Sprintf("%d,10\n", i/2)
	}
	text += "6000000000,10\n"
	f := of(t, read(t, text, 0), Options{})
	g, m := f.Arrivals.Grid, f.Arrivals.Minutes
	if g == nil || g.Ticks != 6000000001 || g.Max != 2 || g.P99Tokens != 0 {
		t.Errorf("grid %+v", g)
	}
	if m.Full != 100_000_000 || m.Max != 40 || m.P99 != 0 || m.Rest != 1 {
		t.Errorf("minutes %+v", m)
	}
	if n := len(f.Arrivals.Bins.Requests); n < 200 || n > 401 {
		t.Errorf("%d bins", n)
	}
}

// TestTooMuch has sums that do not fit.
func TestTooMuch(t *testing.T) {
	c := cache(t, "llama3.1-8b")
	text := "timestamp,input_length\n" + strings.Repeat("0,1000000000000\n", 100)
	_, err := Of(read(t, text, 0), Options{Name: "f", Cache: c, Move: alone})
	must.Fail(t, err, fault.Input, "f: the caches that")
}

func TestNearestRank(t *testing.T) {
	for _, tt := range []struct {
		zeros   int
		sorted  []int64
		percent int
		want    int64
	}{
		{0, []int64{7}, 50, 7}, {0, []int64{1, 2}, 50, 1}, {0, []int64{1, 2, 3}, 50, 2}, {0, []int64{1, 2, 3}, 0, 1},
		{0, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 90, 9}, {0, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 99, 10},
		{1, []int64{4}, 50, 0}, {1, []int64{4}, 51, 4}, {99, []int64{4}, 99, 0}, {99, []int64{4}, 100, 4},
	} {
		if got := nearestRank(tt.zeros, tt.sorted, tt.percent); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

// TestAny describes any trace without a fault: ratios are shares, and what is counted twice is the same.
func TestAny(t *testing.T) {
	c := cache(t, "gpt-oss-120b")
	rapid.Check(t, func(t *rapid.T) {
		blockTokens := rapid.Int64Range(0, 20).Draw(t, "block")
		step := rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, 100 * 365 * 24 * time.Hour}).Draw(t, "step")
		tr := &trace.Trace{BlockTokens: blockTokens}
		at := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			r := trace.Request{At: at, Input: rapid.Int64Range(0, 100).Draw(t, "input"), Output: rapid.Int64Range(0, 1).Draw(t, "output")}
			if blockTokens > 0 {
				ids := rapid.SliceOfN(rapid.Uint64Range(0, 9), 0, 5)
				r.HashIDs = ids.Draw(t, "ids")
			}
			tr.Requests = append(tr.Requests, r)
			if gap := time.Duration(rapid.IntRange(0, 2).Draw(t, "gap")) * step; at < math.MaxInt64/2-gap {
				at += gap
			}
		}
		f, err := Of(tr, Options{Name: "f", Cache: c, Move: alone})
		must.Do(t, err)
		binned, inBins := 0, int64(0)
		for _, b := range f.Input.Bins {
			binned += b.Requests
		}
		for _, n := range f.Arrivals.Bins.Requests {
			inBins += n
		}
		if n := len(tr.Requests); binned != n || int(inBins) != n || f.Arrivals.Distinct+f.Arrivals.Equal != n {
			t.Fatalf("%d requests: %d in bins of lengths, %d in bins of time, %+v", n, binned, inBins, f.Arrivals)
		}
		if h := f.Hits; h != nil {
			for _, x := range []float64{h.Token, h.FullBlocks, h.Block, h.Request, h.AnyPosition} {
				if !(x >= 0 && x <= 1+1e-12) || h.FullBlocks > h.Token || h.LRU[2].TailLast != h.Token {
					t.Fatalf("%+v", h)
				}
			}
		}
		if f.Load.Miss != nil && f.Load.Miss.Bytes > f.Load.Prompt.Bytes {
			t.Fatalf("%+v", f.Load)
		}
	})
}
