package runs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// isResult reports whether a file's name may be that of a result of perigee.
func isResult(name string) bool {
	base := filepath.Base(name)
	if strings.HasPrefix(base, reportPrefix) {
		return false
	}
	return strings.HasSuffix(base, ".json") || strings.HasSuffix(base, ".json.gz") ||
		strings.HasSuffix(base, ".json.zst")
}

// HasResult reports whether a file begins like a result of perigee. Results are
// the only files that are known by their content: their names are free.
func HasResult(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return ofPerigee.Match(result.Head(file, 256))
}

// ofPerigee matches the beginning of a result, also of a newer version, of which the reader says so, and with blanks,
// as other programs write JSON.
var ofPerigee = func() *regexp.Regexp {
	family, _, _ := strings.Cut(result.Schema, "/")
	return regexp.MustCompile(`"schema"\s*:\s*"` + regexp.QuoteMeta(family) + "/")
}()

// figures collect the measurements of one traffic pattern in a phase: latencies (ms) and bandwidths (bytes/s).
type figures struct{ latencies, bandwidths []float64 }

// resultRuns makes a run of each phase of a result of perigee in which patterns were measured, and of each
// measurement of block transfers. Patterns differ in size, so the figures of a phase are the geometric means over the
// patterns of their medians: each pattern counts alike, and a mean over all runs would be that of the largest.
func resultRuns(file found) ([]*Record, error) {
	phases := map[string]map[int]*figures{}
	doc, err := result.Scan(file.path, func(_ *result.Document, m *result.Measurement) error {
		if phases[m.Phase] == nil {
			phases[m.Phase] = map[int]*figures{}
		}
		if len(m.Ranks) == 0 { // no rank sent
			return nil
		}
		f := phases[m.Phase][m.Pattern]
		if f == nil {
			f = &figures{}
			phases[m.Phase][m.Pattern] = f
		}
		f.latencies, f.bandwidths = append(f.latencies, float64(m.LatencyNS)/1e6), append(f.bandwidths, m.MeanBandwidth)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []*Record
	for _, phase := range slices.Sorted(maps.Keys(phases)) {
		r := transferRun(doc, phase)
		var latencies, bandwidths []float64
		for _, pattern := range slices.Sorted(maps.Keys(phases[phase])) {
			f := phases[phase][pattern]
			latencies, bandwidths = append(latencies, stats.Median(f.latencies)),
				append(bandwidths, stats.Median(f.bandwidths))
		}
		r.TransferMS, r.TransferBytes = stats.GeometricMean(latencies), stats.GeometricMean(bandwidths)
		list = append(list, r)
	}
	for _, m := range doc.Lanes {
		r := transferRun(doc, fmt.Sprintf("%s %d B x%d, %d threads", m.Op, m.BlockBytes, m.Batch, m.Threads))
		if m.Latency.Count > 0 {
			r.TransferMS, r.TransferBytes = m.Latency.Mean/1e6, m.Bandwidth
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		list = append(list, transferRun(doc, ""))
	}
	return list, nil
}

// transferRun makes a run of all measurements of a document.
func transferRun(doc *result.Document, part string) *Record {
	r := New("")
	r.Transfer, r.Schema, r.Harness = true, doc.Schema, "perigee"
	r.Label = strings.TrimSpace(doc.Scenario.Name + " " + part)
	if doc.Status != result.Complete {
		r.Notes = append(r.Notes, "the result is partial: its job failed or still runs")
	}
	r.Start = doc.Started
	if doc.Finished != nil {
		r.Duration = max(0, doc.Finished.Sub(doc.Started).Seconds())
	}
	if doc.Engine != nil {
		r.Backend = doc.Engine.Name
	}
	return r
}
