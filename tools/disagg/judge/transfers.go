package judge

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/lazyre"
	"perigee/tools/disagg/benchlog"
)

// Transfer is a speed of KV transfers that a log gives.
type Transfer struct {
	Log  string // name of the log
	Line int
	Rate float64 // bytes per second
}

// speeds are the lines that give such a speed: of vLLM's connectors, and SGLang's and TensorRT-LLM's metric.
var speeds = []struct {
	word    []byte
	pattern *lazyre.Regexp
	unit    float64
}{
	{[]byte("KV Transfer metrics:"), lazyre.New(`\bThroughput \(MB/s\)=([0-9.]+)`), 1 << 20},
	{[]byte("kv_transfer_speed_gb_s"), lazyre.New(`kv_transfer_speed_gb_s(?:\{[^}]*\})?["']?\s*[:=]?\s*([0-9][0-9.]*(?:[eE][+-]?[0-9]+)?)`), 1e9},
}

// FastestTransfer returns the fastest KV transfer in a log, or in the logs of a folder; nil where none gives a speed.
func FastestTransfer(path string) (fastest *Transfer, err error) {
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files, _ = filepath.Glob(filepath.Join(glob(path), "*.log"))
	}
	for _, name := range files {
		in, err := file.Open(name)
		if err != nil {
			return nil, fault.New(fault.Input, "%w", err)
		}
		n := 0
		_, err = benchlog.EachLine(in, func(_ int64, line []byte) {
			n++
			if rate := speedOf(line); rate > 0 && (fastest == nil || rate > fastest.Rate) {
				fastest = &Transfer{filepath.Base(name), n, rate}
			}
		})
		in.Close()
		if err != nil {
			return nil, fault.New(fault.Input, "%s: %w", name, err)
		}
	}
	return fastest, nil
}

// speedOf returns the bytes per second that a line gives, 0 for none.
func speedOf(line []byte) float64 {
	for i := range speeds {
		if s := &speeds[i]; bytes.Contains(line, s.word) {
			if found := s.pattern.FindSubmatch(line); found != nil {
				rate, _ := strconv.ParseFloat(string(found[1]), 64)
				return rate * s.unit
			}
		}
	}
	return 0
}

// mostOfLine is how much faster than the line a transfer may be: clocks and units differ.
const mostOfLine = 1.1

// HoldTransfer holds the fastest KV transfer against the line of a host, both in bytes per second. nil stands for none.
func (v *Verdict) HoldTransfer(t *Transfer, line float64, g Gates) {
	if t == nil {
		v.Warnings = append(v.Warnings, "no log gives the speed of KV transfers, to be held against the line")
		return
	}
	if t.Rate <= line*mostOfLine {
		return
	}
	text := fmt.Sprintf("%s, line %d: a KV transfer of %.4g GB/s is faster than the line of %.4g GB/s: its time may be that of "+
		"the last chunk", t.Log, t.Line, t.Rate/1e9, line/1e9)
	if g.Implausible {
		v.Warnings = append(v.Warnings, text)
		return
	}
	v.Reasons = append(v.Reasons, text+" (--allow-implausible lets it pass)")
	v.State = Failed
}
