package runs

import (
	"math"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/file"
	"perigee/internal/serving"
	"perigee/internal/serving/benchlog"
)

// clientEndings are those of files in which clients of serving benchmarks leave what they measured.
var clientEndings = []string{".json", ".jsonl", ".log", ".txt", ".out"}

// mayBeOfClient reports whether a file in a folder that is searched may be that of a client: its content decides.
func mayBeOfClient(name string) bool {
	return slices.Contains(clientEndings, strings.ToLower(filepath.Ext(name)))
}

// clientRuns makes a run of each level that a client of a serving benchmark has written into a file: vLLM's, SGLang's,
// TensorRT-LLM's, AIPerf, GenAI-Perf, InferenceX. The folder is the configuration, since such files do not say how the
// engines were set up. There are none where no client is known.
func clientRuns(f found) ([]*Run, error) {
	text, err := file.Open(f.absolute)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	log, err := benchlog.Read(text)
	if err != nil || log == nil {
		return nil, err
	}
	var list []*Run
	for i := range log.Levels {
		if l := &log.Levels[i]; l.Client != "" && (l.Complete || log.Unmarked) {
			list = append(list, ofLevel(l, log.JSON))
		}
	}
	return list, nil
}

// The schemas of what clients write. Of a result and a log of one name the result counts, which is the later one.
const (
	clientLog    = "client's log"
	clientResult = "client's result"
)

// ofLevel makes a run of a level.
func ofLevel(l *benchlog.Level, json bool) *Run {
	r, f := New(""), l.Figures()
	r.level, r.Schema, r.Harness, r.Model = l, clientLog, l.Client, l.Model
	if json {
		r.Schema = clientResult
	}
	r.Concurrency, r.Closed, r.SameLength = f.Concurrency, f.Closed, f.SameLength
	r.Failures, r.Duration = f.Failed, f.Duration
	if r.Completed = f.Requests; math.IsNaN(r.Completed) {
		r.Completed = f.Completed + known0(f.Failed)
	}
	r.InputLength, r.OutputLength = ratio(f.InputTokens, f.Completed), ratio(f.OutputTokens, f.Completed)
	r.Requests, r.InputTokens, r.OutputTokens, r.TotalTokens = f.RequestRate, f.InputRate, f.OutputRate, f.TotalRate
	if l.PerGPU {
		r.perGPU = l.Throughput
		r.Notes = append(r.Notes, "the rates of tokens are those of a GPU, of how many is not known: those of all are left out")
	}
	for kind := range NTPOT {
		if s, known := f.Latency[latencyNames[kind]]; known {
			r.Latency[kind] = statsOf(s)
		}
	}
	return r
}

// statsOf are the statistics of a latency, in ms.
func statsOf(l serving.Latency) Stats {
	s := NoStats()
	s[Mean], s[StdDev], s[Min], s[Max] = l.Mean, l.Std, l.Min, l.Max
	for place, percent := range percents {
		if v, known := l.Percentiles[percent]; known {
			s[place] = v
		}
	}
	return s
}

// percents are the percentiles of Stats.
var percents = map[Statistic]float64{P0p1: 0.1, P1: 1, P5: 5, P10: 10, P25: 25, P50: 50, P75: 75, P90: 90, P95: 95,
	P99: 99, P99p9: 99.9}
