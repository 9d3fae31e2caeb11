package judge

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/lazyre"
	"perigee/internal/serving/benchlog"
)

// transfer is what a line of a log says of KV transfers.
type transfer struct {
	log   string // its name
	line  int
	rate  float64 // bytes per second; 0 where the line does not say it
	bytes float64 // of one, the mean of several; 0 where the line does not say it
}

// transfers are those of logs that bound what can be true.
type transfers struct {
	fastest  *transfer // nil where no line gives a speed
	smallest *transfer // by its bytes; nil where no line gives them
}

// add takes what a line says.
func (t *transfers) add(one transfer) {
	if one.rate > 0 && (t.fastest == nil || one.rate > t.fastest.rate) {
		t.fastest = &one
	}
	if one.bytes > 0 && (t.smallest == nil || one.bytes < t.smallest.bytes) {
		t.smallest = &one
	}
}

const (
	megabytes = 1 << 20 // vLLM's MB
	gigabytes = 1e9
)

// ofConnector and ofMetric mark the lines of vLLM's connectors, and of SGLang's and TensorRT-LLM's metric; ofRequest
// those with TensorRT-LLM's metrics of requests.
var (
	ofConnector = []byte("KV Transfer metrics:")
	ofMetric    = []byte("kv_transfer_speed_gb_s")
	ofRequest   = []byte(`"kv_cache_transfer_end"`)

	throughput = lazyre.New(`\bThroughput \(MB/s\)=([0-9.]+)`)
	meanMB     = lazyre.New(`\bAvg MB per transfer=([0-9.]+)`)
	meanMs     = lazyre.New(`\bAvg xfer time \(ms\)=([0-9.]+)`)
	metric     = lazyre.New(`kv_transfer_speed_gb_s(?:\{[^}]*\})?["']?\s*[:=]?\s*([0-9][0-9.]*(?:[eE][+-]?[0-9]+)?)`)
	request    = lazyre.New(`"kv_cache_size": *([0-9]+), *` +
		`"kv_cache_transfer_start": *([0-9.]+), *"kv_cache_transfer_end": *([0-9.]+)`)
)

// read takes what a line of a log says.
func (t *transfers) read(log string, n int, line []byte) {
	switch {
	case bytes.Contains(line, ofConnector):
		one := transfer{log, n, figure(throughput, line) * megabytes, figure(meanMB, line) * megabytes}
		if ms := figure(meanMs, line); one.rate == 0 && ms > 0 {
			one.rate = one.bytes / (ms / 1e3)
		}
		t.add(one)
	case bytes.Contains(line, ofMetric):
		t.add(transfer{log, n, figure(metric, line) * gigabytes, 0})
	case bytes.Contains(line, ofRequest):
		for _, found := range request.Get().FindAllSubmatch(line, -1) {
			size, start, end := parsed(found[1]), parsed(found[2]), parsed(found[3])
			one := transfer{log: log, line: n, bytes: size}
			if end > start {
				one.rate = size / (end - start)
			}
			t.add(one)
		}
	}
}

// figure returns the number that a pattern finds in a line, 0 for none.
func figure(p *lazyre.Regexp, line []byte) float64 {
	if found := p.FindSubmatch(line); found != nil {
		return parsed(found[1])
	}
	return 0
}

// parsed returns a number, 0 for none.
func parsed(text []byte) float64 {
	x, _ := strconv.ParseFloat(string(text), 64)
	return x
}

// transfersIn reads a log, or the logs of a folder.
func transfersIn(path string) (t transfers, err error) {
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files, _ = filepath.Glob(filepath.Join(glob(path), "*.log"))
	}
	for _, name := range files {
		in, err := file.Open(name)
		if err != nil {
			return t, fault.New(fault.Input, "%w", err)
		}
		n := 0
		_, err = benchlog.EachLine(in, func(_ int64, line []byte) {
			n++
			t.read(filepath.Base(name), n, line)
		})
		in.Close()
		if err != nil {
			return t, fault.New(fault.Input, "%s: %w", name, err)
		}
	}
	return t, nil
}

// mostOfLine is how much faster than the line a transfer may be: clocks and units differ.
const mostOfLine = 1.1

// HoldTransfers holds the KV transfers in a log, or in the logs of a folder, against the line of a host in bytes per
// second: none is faster, and no first token comes before the bytes of a cache can have gone over it. Without a line
// nothing is held.
func (v *Verdict) HoldTransfers(path string, line float64, g Gates) error {
	if line == 0 {
		return nil
	}
	t, err := transfersIn(path)
	if err != nil {
		return err
	}
	if t.fastest == nil && t.smallest == nil {
		v.Warnings = append(v.Warnings, "no log gives the speed of KV transfers, to be held against the line")
	}
	if f := t.fastest; f != nil && f.rate > line*mostOfLine {
		v.implausible(g, fmt.Sprintf("%s, line %d: a KV transfer of %.4g GB/s is faster than the line of %.4g GB/s: its time may be that of "+
			"the last chunk", f.log, f.line, f.rate/1e9, line/1e9))
	}
	if t.smallest != nil {
		v.holdFirstTokens(*t.smallest, line, g)
	}
	return nil
}

// holdFirstTokens fails levels whose first tokens come before the bytes of a transfer can have gone over the line. The
// latest one that the client knows counts: prompts that are short, or known to the decoding server, move less.
func (v *Verdict) holdFirstTokens(t transfer, line float64, g Gates) {
	least := t.bytes / (line * mostOfLine) * 1e3
	for _, l := range v.Levels {
		latest := 0.0
		for stat, ms := range l.Latency["TTFT"] {
			if stat != "std" {
				latest = max(latest, ms)
			}
		}
		if !l.Complete || latest <= 0 || latest >= least {
			continue
		}
		v.implausible(g, fmt.Sprintf("level %d: first tokens come within %.4g ms, but a KV transfer of %.4g MB (%s, line %d) "+
			"takes at least %.4g ms on the line of %.4g GB/s", l.Concurrency, latest, t.bytes/1e6, t.log, t.line, t.bytes/line*1e3, line/1e9))
	}
}

// implausible fails the case for what cannot be, unless that is allowed.
func (v *Verdict) implausible(g Gates, text string) {
	if g.Implausible {
		v.Warnings = append(v.Warnings, text)
		return
	}
	v.Reasons = append(v.Reasons, text+" (--allow-implausible lets it pass)")
	v.State = Failed
}
