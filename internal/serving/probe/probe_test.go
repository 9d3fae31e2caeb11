package probe

import (
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

func TestNew(t *testing.T) {
	p := New(3, []int{2}, []int{0, 1}, "Llama-3.1-8B-Instruct", 1024)
	if p == nil || !p.Known || p.Bytes != 128<<20 { // 32 layers * 8 heads * 128 * 2 * 2 B * 1024 tokens
		t.Fatalf("%+v", p)
	}
	if got := p.Files["probe_2_1.txt"]; got != "0 0 0\n0 0 0\n0 134217728 0\n" || len(p.Files) != 3 {
		t.Errorf("%q", got)
	}
	v, err := conf.Parse("probe.yaml", []byte(p.Files["probe.yaml"]))
	if err != nil || v.Get("traffic_patterns").Len() != 2 {
		t.Errorf("%v", err)
	}
	if p := New(2, []int{0}, []int{1}, "nothing", 10); p.Known || p.Bytes != usualBytes {
		t.Errorf("%+v", p)
	}
	if New(1, []int{0}, []int{0}, "", 0) != nil {
		t.Error("one node has a pair")
	}
	var many []int
	for i := range 100 {
		many = append(many, i)
	}
	if p := New(100, many, many, "", 0); len(p.Files) != mostPairs+1 {
		t.Errorf("%d files", len(p.Files))
	}
	// Of many pairs every node is in one before a node is in another.
	count := map[int]int{}
	pairs, all := sample(many[:40], many[40:80], mostPairs)
	for _, p := range pairs {
		count[p[0]]++
		count[p[1]]++
	}
	if least := slices.Min(slices.Collect(maps.Values(count))); len(pairs) != 64 || all != 1600 || len(count) != 80 || least != 1 {
		t.Errorf("%d of %d pairs, %d nodes, %d at least", len(pairs), all, len(count), least)
	}
	for _, c := range []struct{ prefill, decode, want int }{{3, 2, 6}, {2, 5, 10}, {1, 1, 1}, {0, 2, 0}} {
		if pairs, all := sample(many[:c.prefill], many[10:10+c.decode], 1000); len(pairs) != c.want || all != c.want {
			t.Errorf("%d prefill and %d decode nodes: %d of %d pairs", c.prefill, c.decode, len(pairs), all)
		}
	}
	// So it is where each node may be on both sides.
	for _, nodes := range []int{100, 80, 65} {
		seen := map[int]bool{}
		pairs, _ := sample(many[:nodes], many[:nodes], mostPairs)
		for _, p := range pairs {
			seen[p[0]], seen[p[1]] = true, true
		}
		if len(seen) != nodes {
			t.Errorf("%d of %d nodes are probed", len(seen), nodes)
		}
	}
	if pairs, all := sample(many[:4], many[:4], 1000); len(pairs) != 12 || all != 12 {
		t.Errorf("four nodes that are both: %d of %d pairs", len(pairs), all)
	}
	if p := New(4096, many[:1], many, "", 0); len(p.Files) != 3 {
		t.Errorf("%d files for two large matrices", len(p.Files))
	}
	if p := New(1<<16, many, many, "", 0); p != nil {
		t.Errorf("a matrix of 65536 nodes")
	}
}

func TestOfPairs(t *testing.T) {
	for text, want := range map[string]int{
		New(3, []int{0, 1}, []int{2}, "", 0).Files[configName]: 2, "# another\n": 0, "": 0,
	} {
		path := filepath.Join(t.TempDir(), configName)
		err := os.WriteFile(path, []byte(text), 0o600)
		must.Do(t, err)
		if got := ofPairs(filepath.Dir(path)); got != want {
			t.Errorf("%.60q: %d pairs, want %d", text, got, want)
		}
	}
}

func TestString(t *testing.T) {
	r := &Result{Engine: "nixl", Backend: "UCX", Bytes: 64 << 20, Of: 12, Median: 20e9, Slowest: 5e9, Pairs: []Pair{{"a", "b", 20e9, false}, {"a", "c", 5e9, true}}}
	if got := r.String(); !strings.HasSuffix(got, "median 20.00 GB/s, slowest 5.00 GB/s over 2 of 12 pairs (64.0 MiB of each, nixl, UCX); slow: a to c 5.00 GB/s") {
		t.Error(got)
	}
	if r := Read(t.TempDir()); !strings.Contains(r.String(), "no result") {
		t.Error(r)
	}
}

// turns makes latencies of pairs with these rates, which scatter by a factor from turn to turn.
func turns(rng *rand.Rand, n int, spread func() float64, rates ...float64) (times [][]float64) {
	for _, rate := range rates {
		var list []float64
		for range n {
			list = append(list, 1/rate*spread())
		}
		times = append(times, list)
	}
	return times
}

func medians(times [][]float64) (rates []float64) {
	for _, list := range times {
		rates = append(rates, 1/stats.Median(list))
	}
	return rates
}

// One slow pair, or the two of a slow node, are named however few pairs there are.
func TestSlow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		rates []float64
		want  []bool
	}{
		{[]float64{10}, []bool{false}},
		{[]float64{10, 8.5}, []bool{false, false}},
		{[]float64{10, 7}, []bool{false, true}},
		{[]float64{7, 10, 10.5}, []bool{true, false, false}},
		{[]float64{7, 7, 10, 10}, []bool{true, true, false, false}},
		{[]float64{9, 9.5, 10, 10.5}, []bool{false, false, false, false}},
	} {
		times := turns(rng, 10, func() float64 { return math.Exp(0.03 * rng.NormFloat64()) }, c.rates...)
		if got := slow(medians(times), times); !slices.Equal(got, c.want) {
			t.Errorf("%v: slow: %v, want %v", c.rates, got, c.want)
		}
	}
}

// A pair at 70 % of 15 others is found though all scatter by 15 %.
func TestSlowAmongMany(t *testing.T) {
	const probes = 100
	rng := rand.New(rand.NewPCG(5, 6))
	found, others := 0, 0
	for range probes {
		rates := slices.Repeat([]float64{10}, 16)
		rates[3] = 7
		times := turns(rng, 10, func() float64 { return math.Exp(0.15 * rng.NormFloat64()) }, rates...)
		for i, is := range slow(medians(times), times) {
			if is && i == 3 {
				found++
			} else if is {
				others++
			}
		}
	}
	if found < 85 || others > 8 {
		t.Errorf("found in %d of %d probes, others named %d times", found, probes, others)
	}
}

// Pairs that are alike are called slow in at most 5 % of the probes, however much they scatter. Sampling error: 3 sigma.
func TestAlike(t *testing.T) {
	const probes = 200
	rng := rand.New(rand.NewPCG(3, 4))
	for name, spread := range map[string]func() float64{
		"20 %": func() float64 { return math.Exp(0.2 * rng.NormFloat64()) },
		"50 %": func() float64 { return math.Exp(0.5 * rng.NormFloat64()) },
		"two modes": func() float64 {
			if rng.Float64() < 0.3 {
				return 2
			}
			return 1 + 0.02*rng.Float64()
		},
	} {
		for _, pairs := range []int{2, 4, 16} {
			named := 0
			for range probes {
				times := turns(rng, 10, spread, slices.Repeat([]float64{10}, pairs)...)
				if slices.Contains(slow(medians(times), times), true) {
					named++
				}
			}
			if most := 0.05*probes + 3*math.Sqrt(0.05*0.95*probes); float64(named) > most {
				t.Errorf("%s, %d pairs: one is called slow in %d of %d probes", name, pairs, named, probes)
			}
		}
	}
}

// A pair between which bytes change is named with its hosts, and has no rates.
func TestReadCorrupt(t *testing.T) {
	if p := New(2, []int{0}, []int{1}, "", 0); !strings.Contains(p.Arguments, " --verify-buffers=every") {
		t.Errorf("a probe verifies nothing: %s", p.Arguments)
	}
	const cause = "probe_0_1: message from rank 0 to rank 1: byte 5 is 0x00, want 0x07 (wrong bytes in this message: 1)"
	d := &result.Document{Schema: result.Schema, Status: result.Partial, Failure: &result.Failure{Rank: 1, Host: "b", Kind: fault.Corrupt, Cause: cause},
		World: result.World{Size: 2, Hosts: []result.Host{{Name: "a", Ranks: []int{0}}, {Name: "b", Ranks: []int{1}}}}}
	dir := t.TempDir()
	must.Do(t, d.Write(filepath.Join(dir, ResultName)))
	r := Read(dir)
	if want := "from a to b: " + cause; r.Corrupt != want || r.Error != "" {
		t.Errorf("got %q, %q, want %q", r.Corrupt, r.Error, want)
	}
	if got := r.String(); !strings.HasPrefix(got, "probe: bytes do not arrive as they are sent from a to b: ") {
		t.Error(got)
	}
}
