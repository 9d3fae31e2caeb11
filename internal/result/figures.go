package result

import "perigee/internal/stats"

// IsolatedPhase is the name of the phase in which patterns run alone.
const IsolatedPhase = "isolated"

// Figures are what the runs of a pattern come to. A figure is absent where there were no such runs.
type Figures struct {
	LatencyMS         *float64 `json:"latency_ms,omitempty"`          // median over the runs that were not alone
	IsolatedLatencyMS *float64 `json:"isolated_latency_ms,omitempty"` // the same over the runs that were alone
	Slowdown          *float64 `json:"slowdown,omitempty"`            // the one by the other
	MeanBandwidth     *float64 `json:"mean_bandwidth_bytes_per_s,omitempty"`
}

// sumUp works out the figures of all patterns.
func (d *Document) sumUp() {
	alone := make([][]float64, len(d.Patterns))
	latencies, bandwidths := make([][]float64, len(d.Patterns)), make([][]float64, len(d.Patterns))
	for i := range d.Measurements {
		m := &d.Measurements[i]
		if m.Phase == IsolatedPhase {
			alone[m.Pattern] = append(alone[m.Pattern], float64(m.LatencyNS)/1e6)
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
			isolated := stats.Median(alone[i])
			f.IsolatedLatencyMS = &isolated
		}
		if f.LatencyMS != nil && f.IsolatedLatencyMS != nil && *f.IsolatedLatencyMS > 0 {
			slowdown := *f.LatencyMS / *f.IsolatedLatencyMS
			f.Slowdown = &slowdown
		}
	}
}

// Overlapped reports whether a message of the run overlapped with one of another pattern.
func (m *Measurement) Overlapped() bool {
	for i := range m.Ranks {
		for k := range m.Ranks[i].Peers {
			if m.Ranks[i].Peers[k].Overlap != nil {
				return true
			}
		}
	}
	return false
}
