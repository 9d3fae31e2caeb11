package probe

import (
	"strings"
	"testing"

	"perigee/internal/conf"
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
	if p := New(4096, many[:1], many, "", 0); len(p.Files) != 3 {
		t.Errorf("%d files for two large matrices", len(p.Files))
	}
	if p := New(1<<16, many, many, "", 0); p != nil {
		t.Errorf("a matrix of 65536 nodes")
	}
}

func TestString(t *testing.T) {
	r := &Result{Engine: "nixl", Backend: "UCX", Median: 20e9, Slowest: 5e9, Pairs: []Pair{{"a", "b", 20e9, false}, {"a", "c", 5e9, true}}}
	if got := r.String(); !strings.HasSuffix(got, "median 20.00 GB/s, slowest 5.00 GB/s over 2 pairs (nixl, UCX); slow: a to c 5.00 GB/s") {
		t.Error(got)
	}
	if r := Read(t.TempDir()); !strings.Contains(r.String(), "no result") {
		t.Error(r)
	}
}

// One slow pair, or the two of a slow node, are named however few pairs there are.
func TestSlow(t *testing.T) {
	for _, c := range []struct {
		rates []float64
		want  []bool
	}{
		{[]float64{10}, []bool{false}},
		{[]float64{10, 8.5}, []bool{false, false}},
		{[]float64{10, 7.5}, []bool{false, true}},
		{[]float64{7.5, 10, 10.5}, []bool{true, false, false}},
		{[]float64{7.5, 7.5, 10, 10}, []bool{true, true, false, false}},
		{[]float64{9, 9.5, 10, 10.5}, []bool{false, false, false, false}},
	} {
		for i, want := range c.want {
			if got := slow(c.rates, i); got != want {
				t.Errorf("%v: pair %d slow: %v, want %v", c.rates, i, got, want)
			}
		}
	}
}
