package figures

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// lane is a measurement of block transfers.
func lane(op string, block, batch int64, threads int, bandwidth float64) (l result.Lanes) {
	l.Op, l.Local, l.Remote, l.BlockBytes, l.Batch, l.Threads, l.Bandwidth = op, "dram", "dram", block, batch, threads, bandwidth
	l.Latency.P50 = 10
	return l
}

func TestBlocks(t *testing.T) {
	vague := lane("READ", 4096, 2, 1, 5e9)
	vague.StartNS, vague.EndNS, vague.UncertaintyNS = 1000, 5000, 1000
	for name, c := range map[string]struct {
		lanes  []result.Lanes
		axis   string
		series []string
		words  string
	}{
		"nothing": {nil, "block_bytes", nil, ""},
		"one":     {[]result.Lanes{lane("READ", 4096, 2, 1, 5e9)}, "block_bytes", []string{"READ, batch 2"}, "The bandwidth is 5.00 GB/s: READ with blocks of 4 KiB, batch 2."},
		"block sizes": {[]result.Lanes{lane("READ", 1000, 1, 1, 5e9), lane("READ", 2048, 1, 1, 9e9), lane("READ", 1<<20, 1, 1, 9.5e9), lane("READ", 1<<21, 1, 1, 8e9)},
			"block_bytes", []string{"READ, batch 1"}, "The best of 4 measurements is 9.50 GB/s: READ with blocks of 1 MiB, batch 1. Blocks of 2 KiB already reach 95 % of it."},
		"batches": {[]result.Lanes{lane("WRITE", 65536, 1, 1, 5e9), lane("WRITE", 65536, 8, 1, 9.9e9), lane("WRITE", 65536, 16, 1, 1e10)},
			"batch", []string{"WRITE, blocks of 64 KiB"}, "The best of 3 measurements is 10.0 GB/s: WRITE with blocks of 64 KiB, batch 16. A batch of 8 already reaches 99 % of it."},
		"threads": {[]result.Lanes{lane("READ", 4096, 1, 1, 1e9), lane("WRITE", 8192, 1, 4, 2e9)}, "block_bytes",
			[]string{"READ, batch 1, threads 1", "WRITE, batch 1, threads 4"}, "The best of 2 measurements is 2.00 GB/s: WRITE with blocks of 8 KiB, batch 1."},
		"between hosts": {[]result.Lanes{vague}, "block_bytes", []string{"READ, batch 2"}, "The bandwidth is 5.00 GB/s: READ with blocks of 4 KiB, batch 2. " +
			"The clocks of the hosts are uncertain by 25 % of the time over which that was measured: more iterations would help (--iters)."},
	} {
		d := handMade()
		d.Measurements, d.Lanes = nil, c.lanes
		f, err := Of(d)
		must.Do(t, err)
		var series []string
		for _, b := range f.Blocks.List {
			if len(series) == 0 || series[len(series)-1] != b.Series {
				series = append(series, b.Series)
			}
		}
		var words []string
		for _, x := range f.Findings {
			words = append(words, x.Text)
		}
		if c.lanes == nil {
			c.words = "Nothing was measured."
			if f.Answer.Charts == nil || len(f.Answer.Charts) > 0 {
				t.Errorf("charts of nothing are %#v, want an empty list: null is none in JSON", f.Answer.Charts)
			}
		}
		if diff := cmp.Diff(c.series, series); diff != "" || f.Blocks.Axis != c.axis || strings.Join(words, " ") != c.words {
			t.Errorf("%s: axis %s, %q, series (-want +got):\n%s", name, f.Blocks.Axis, words, diff)
		}
	}
}

func TestManyBlocks(t *testing.T) {
	fuzztest.Linear(t, "blocks", 500, func(n int) func() {
		d := handMade()
		for range n {
			d.Lanes = append(d.Lanes, lane("READ", 4096, 1, 1, 1e9))
		}
		return func() { blocksOf(d) }
	})
}

func TestBlocksCharts(t *testing.T) {
	d := toAndFro(0)
	d.World.Hosts[0].Memcpy = []result.Copy{{Bytes: 4096, Rate: 2e10}}
	d.Lanes = []result.Lanes{lane("READ", 8192, 1, 1, 9e9), lane("READ", 4096, 1, 1, 5e9)}
	d.Lanes[0].Latency.P99 = 30
	charts := answer(t, d).Charts
	if len(charts) != 2 || show(charts[0].Series[0]) != "READ, batch 1 4096:5e+09 8192:9e+09" ||
		show(charts[1].Series[0]) != "READ, batch 1 4096:10(10..0) 8192:10(10..30)" || len(charts[0].Limits) != 1 {
		t.Errorf("%+v", charts)
	}
	d.Lanes[0].Remote = "file"
	if c := answer(t, d).Charts[0]; len(c.Limits) != 0 {
		t.Errorf("a file: %+v", c.Limits)
	}
	d.Lanes = []result.Lanes{lane("READ", 4096, 8, 1, 9e9), lane("READ", 4096, 1, 1, 5e9)}
	if c := answer(t, d).Charts[0]; c.X.Unit != "" || show(c.Series[0]) != "READ, blocks of 4 KiB 1:5e+09 8:9e+09" || len(c.Limits) != 0 {
		t.Errorf("batches: %+v", c)
	}
}
