package runs

import (
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/file"
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
func clientRuns(f found) ([]*Record, error) {
	text, err := file.Open(f.absolute)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	log, err := benchlog.Read(text)
	if err != nil || log == nil {
		return nil, err
	}
	var list []*Record
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
func ofLevel(l *benchlog.Level, json bool) *Record {
	r := New("")
	r.Run, r.Schema, r.Harness, r.Model = l.Figures(), clientLog, l.Client, l.Model
	if json {
		r.Schema = clientResult
	}
	if failed, total := l.Counts(); total >= 0 {
		r.Requests = float64(total)
		if l.Requests >= 0 || l.Failed >= 0 { // what is not completed of those that were asked for has failed
			r.Failed = float64(failed)
		}
	}
	r.InputLength, r.OutputLength = ratio(r.InputTokens, r.Completed), ratio(r.OutputTokens, r.Completed)
	if l.PerGPU {
		r.perGPU = benchlog.Or(l.OutputRate, 0)
		r.Notes = append(r.Notes, "the rates of tokens are those of a GPU, of how many is not known: they are left out")
	}
	return r
}
