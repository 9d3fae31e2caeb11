package compare

import (
	"math/rand/v2"
	"strings"
	"testing"

	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// blockDocument is a result of two sizes of blocks. Of the second, the latency has a factor.
func blockDocument(rng *rand.Rand, factor float64) *result.Document {
	d := document(0, 0, nil)
	for i, batch := range []int64{1, 64} {
		ns := 1e6 * (1 + 0.01*rng.Float64())
		if i == 1 {
			ns *= factor
		}
		d.Lanes = append(d.Lanes, result.Lanes{Phase: "measure", Measurement: series.Measurement{
			BlockBytes: 4096, Batch: batch, Bandwidth: 4096e9 * float64(batch) / ns, Latency: series.Stats{Count: 100, Mean: ns, P99: int64(ns)},
		}})
	}
	return d
}

// Sizes of blocks are compared each by itself, and one run against one gives no verdict.
func TestBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var old, fresh []*result.Document
	for range 6 {
		old, fresh = append(old, blockDocument(rng, 1)), append(fresh, blockDocument(rng, 1.5))
	}
	r := mustCompare(t, old, fresh, defaults)
	if len(r.Rows) != 9 {
		t.Fatalf("%d rows, want 3 figures of 2 sizes, and their means", len(r.Rows))
	}
	for _, row := range r.Rows {
		want := Same
		if row.Batch == 64 || row.Of == 2 { // the mean of one that is as before and one that is not
			want = Worse
		}
		if row.Verdict != want || row.Block != 4096 && row.Of != 2 || row.OldN != 6 || row.NewN != 6 {
			t.Errorf("%+v, want the verdict %s", row, want)
		}
	}
	if got := r.Main(); got.Of != 2 || got.Metric != "block_bw_gb_per_s" {
		t.Errorf("the verdict is that of %+v", got)
	}
	if err := r.Err("worse"); err == nil || !strings.Contains(err.Error(), "64 x 4096 bytes, block_bw_gb_per_s -3") {
		t.Errorf("got %v", err)
	}
	var text strings.Builder
	if err := r.WriteText(&text, nil, false); err != nil || !strings.Contains(text.String(), "# block transfers\n") || !strings.Contains(text.String(), "Block (B)") {
		t.Errorf("%v\n%s", err, &text)
	}
	one := mustCompare(t, old[:1], fresh[:1], defaults)
	for _, row := range one.Rows {
		if row.Verdict != "" || one.Judged {
			t.Errorf("one run against one: %+v", row)
		}
	}
}
