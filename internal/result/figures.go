package result

import (
	"perigee/internal/stats"
	"perigee/internal/traffic/series"
)

// IsolatedPhase is the name of the phase in which patterns run alone.
const IsolatedPhase = "isolated"

// Figures are what the runs of a pattern come to. A figure is absent where there were no such runs.
type Figures struct {
	LatencyMS         *float64 `json:"latency_ms,omitempty"`          // median over the runs that were not alone
	IsolatedLatencyMS *float64 `json:"isolated_latency_ms,omitempty"` // as series.Isolated has it
	Slowdown          *float64 `json:"slowdown,omitempty"`            // the one by the other
	MeanBandwidth     *float64 `json:"mean_bandwidth_bytes_per_s,omitempty"`
}

// sumUp works out the figures of all patterns.
func (d *Document) sumUp() {
	alone := make([][]series.Run, len(d.Patterns))
	latencies, bandwidths := make([][]float64, len(d.Patterns)), make([][]float64, len(d.Patterns))
	for i := range d.Measurements {
		m := &d.Measurements[i]
		if m.Phase == IsolatedPhase {
			alone[m.Pattern] = append(alone[m.Pattern], m.Run)
			continue
		}
		latencies[m.Pattern] = append(latencies[m.Pattern], float64(m.LatencyNS)/1e6)
		bandwidths[m.Pattern] = append(bandwidths[m.Pattern], m.MeanBandwidth)
	}
	for i := range d.Patterns {
		f := &d.Patterns[i].Figures
		*f = Figures{}
		if len(latencies[i]) > 0 {
			latency, bandwidth := stats.Median(latencies[i]), stats.Median(bandwidths[i])
			f.LatencyMS, f.MeanBandwidth = &latency, &bandwidth
		}
		if len(alone[i]) > 0 {
			isolated := series.Isolated(alone[i]) / 1e6
			f.IsolatedLatencyMS = &isolated
		}
		if f.LatencyMS != nil && f.IsolatedLatencyMS != nil && *f.IsolatedLatencyMS > 0 {
			slowdown := *f.LatencyMS / *f.IsolatedLatencyMS
			f.Slowdown = &slowdown
		}
	}
}
