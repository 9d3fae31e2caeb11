package metric

import (
	"perigee/internal/kit/expr"
	"perigee/internal/result"
)

// blocks are the metrics of block transfers, which have a sample for each size that was measured.
var blocks = []Def{
	perSize("block_bw_gb_per_s", "GB/s", expr.Higher, "bytes / (last end - first start)",
		func(m *result.Lanes) float64 { return m.Bandwidth / 1e9 }),
	perSize("block_latency_us", "us", expr.Lower, "mean time of an iteration / blocks in a batch",
		func(m *result.Lanes) float64 { return m.Latency.Mean / float64(m.Batch) / 1e3 }),
	perSize("batch_p50_us", "us", expr.Lower, "median time of an iteration",
		func(m *result.Lanes) float64 { return float64(m.Latency.P50) / 1e3 }),
	perSize("batch_p99_us", "us", expr.Lower, "99th percentile of the time of an iteration",
		func(m *result.Lanes) float64 { return float64(m.Latency.P99) / 1e3 }),
	perSize("batch_p999_us", "us", expr.Lower, "99.9th percentile of the time of an iteration",
		func(m *result.Lanes) float64 { return float64(m.Latency.P999) / 1e3 }),
	perSize("block_prep_us", "us", expr.Lower, "mean time to prepare the requests",
		func(m *result.Lanes) float64 { return m.Prep.Mean / 1e3 }),
	perSize("block_post_us", "us", expr.Lower, "mean time to post the requests",
		func(m *result.Lanes) float64 { return m.Post.Mean / 1e3 }),
	perSize("block_cpu_s_per_gb", "s/GB", expr.Lower, "processor time of all ranks / bytes",
		func(m *result.Lanes) float64 { return m.CPUSeconds / (float64(m.Bytes) / 1e9) }),
}

// perSize makes a metric with a sample for each measurement of block transfers.
func perSize(name, unit string, better expr.Better, help string, value func(m *result.Lanes) float64) Def {
	return perResult(name, unit, better, help+"; each size of blocks", func(v *view, yield func(Sample)) {
		for i := range v.d.Lanes {
			m := &v.d.Lanes[i]
			yield(Sample{
				Value: value(m), Pattern: -1, Phase: m.Phase, Iteration: -1, Rank: -1, Peer: -1,
				Block: m.BlockBytes, Batch: m.Batch, StartNS: m.StartNS, EndNS: m.EndNS,
			})
		}
	})
}
