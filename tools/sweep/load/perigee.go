package load

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"perigee/internal/result"
	"perigee/tools/sweep/runs"
)

// isResult reports whether a file's name may be that of a result of perigee.
func isResult(name string) bool {
	base := filepath.Base(name)
	if strings.HasPrefix(base, reportPrefix) {
		return false
	}
	return strings.HasSuffix(base, ".json") || strings.HasSuffix(base, ".json.gz") || strings.HasSuffix(base, ".json.zst")
}

// hasResult reports whether a file begins like a result of perigee. Results are
// the only files that are known by their content: their names are free.
func hasResult(root *os.Root, name string) bool {
	file, err := openRegular(root, name)
	if err != nil {
		return false
	}
	defer file.Close()
	var r io.Reader = file
	switch {
	case strings.HasSuffix(name, ".gz"):
		z, err := gzip.NewReader(file)
		if err != nil {
			return false
		}
		r = z
	case strings.HasSuffix(name, ".zst"):
		const mostMemory = 128 << 20
		z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostMemory), zstd.WithDecoderMaxWindow(mostMemory))
		if err != nil {
			return false
		}
		defer z.Close()
		r = z
	}
	head := make([]byte, 256)
	n, _ := io.ReadFull(r, head) // a shorter file is judged by what there is
	return bytes.Contains(head[:n], []byte(`"schema":"`+result.Schema+`"`))
}

// resultRuns makes a run of each phase of a result of perigee in which patterns
// were measured.
func resultRuns(file found) ([]*runs.Run, error) {
	doc, err := result.Read(file.absolute)
	if err != nil {
		return nil, err
	}
	var list []*runs.Run
	for _, phase := range phasesOf(doc) {
		r := runs.New(file.path)
		r.Transfer, r.Schema, r.Harness = true, doc.Schema, "perigee"
		r.Label = strings.TrimSpace(doc.Scenario.Name + " " + phase)
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
		r.TransferMS, r.TransferBytes = means(doc, phase)
		list = append(list, r)
	}
	return list, nil
}

func phasesOf(doc *result.Document) []string {
	var names []string
	for _, m := range doc.Measurements {
		if !slices.Contains(names, m.Phase) {
			names = append(names, m.Phase)
		}
	}
	if len(names) == 0 {
		return []string{""}
	}
	slices.SortFunc(names, cmp.Compare)
	return names
}

// means returns the mean latency (ms) and mean bandwidth (bytes/s) of a phase's
// measurements, leaving out those in which nobody sent.
func means(doc *result.Document, phase string) (latencyMS, bandwidth float64) {
	var n float64
	for _, m := range doc.Measurements {
		if m.Phase == phase && len(m.Ranks) > 0 {
			latencyMS += float64(m.LatencyNS) / 1e6
			bandwidth += m.MeanBandwidth
			n++
		}
	}
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	return latencyMS / n, bandwidth / n
}
