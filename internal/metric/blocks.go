package metric

import (
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// blocks are the metrics of block transfers, which have a sample for each size that was measured.
var blocks = []Def{
	{Name: "block_bw_gb_per_s", Better: Higher, Help: "bytes / (last end - first start); each size of blocks",
		all: eachSize(func(m *result.Lanes) float64 { return m.Bandwidth / 1e9 })},
	{Name: "block_latency_us", Better: Lower,
		Help: "mean time of an iteration / blocks in a batch; each size of blocks",
		all: eachSize(func(m *result.Lanes) float64 {
			return m.Latency.Mean / float64(m.Batch) / 1e3
		})},
	{Name: "batch_p50_us", Better: Lower, Help: "median time of an iteration; each size of blocks",
		all: eachBatch(func(s *series.Stats) float64 { return float64(s.P50) })},
	{Name: "batch_p99_us", Better: Lower, Help: "99th percentile of the time of an iteration; each size of blocks",
		all: eachBatch(func(s *series.Stats) float64 { return float64(s.P99) })},
	{Name: "batch_p999_us", Better: Lower, Help: "99.9th percentile of the time of an iteration; each size of blocks",
		all: eachBatch(func(s *series.Stats) float64 { return float64(s.P999) })},
	{Name: "block_prep_us", Better: Lower, Help: "mean time to prepare the requests; each size of blocks",
		all: eachSize(func(m *result.Lanes) float64 { return m.Prep.Mean / 1e3 })},
	{Name: "block_post_us", Better: Lower, Help: "mean time to post the requests; each size of blocks",
		all: eachSize(func(m *result.Lanes) float64 { return m.Post.Mean / 1e3 })},
	{Name: "block_cpu_s_per_gb", Better: Lower, Help: "processor time of all ranks / bytes; each size of blocks",
		all: eachSize(func(m *result.Lanes) float64 {
			return m.CPUSeconds / (float64(m.Bytes) / 1e9)
		})},
}

func eachBatch(ns func(s *series.Stats) float64) func(*view, func(Sample)) {
	return eachSize(func(m *result.Lanes) float64 { return ns(&m.Latency) / 1e3 })
}

// eachSize makes a metric with a sample for each measurement of block transfers.
func eachSize(value func(m *result.Lanes) float64) func(*view, func(Sample)) {
	return func(v *view, yield func(Sample)) {
		for i := range v.d.Lanes {
			m := &v.d.Lanes[i]
			yield(Sample{
				Value: value(m), Pattern: -1, Phase: m.Phase, Iteration: -1, Rank: -1, Peer: -1,
				Block: m.BlockBytes, Batch: m.Batch, StartNS: m.StartNS, EndNS: m.EndNS,
			})
		}
	}
}
