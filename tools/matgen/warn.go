package matgen

import (
	"fmt"
	"strings"
)

// warn collects what looks doubtful about a workload that can be made.
func (w *Workload) warn() {
	for _, check := range []func() string{
		w.warnClipped, w.warnDraws, w.warnLastBatch, w.warnLargeBatches, w.warnIgnored, w.warnHidden,
		w.warnIdle, w.warnUnequal, w.warnEmptyCells, w.warnPartial, w.warnRounding, w.warnSleeps,
	} {
		if text := check(); text != "" {
			w.Warnings = append(w.Warnings, text)
		}
	}
}

func (w *Workload) warnClipped() string {
	n, what := w.clipped, "draws were clipped"
	if n.below+n.above == 0 {
		return ""
	}
	if w.Trace != nil {
		what = "recorded lengths were clipped as asked"
	}
	var bounds []string
	for _, x := range []struct {
		draws int
		what  string
		bound *int64
	}{{n.below, "below --min-isl", w.Options.MinISL}, {n.above, "above --max-isl", w.Options.MaxISL}} {
		if x.bound != nil {
			bounds = append(bounds, fmt.Sprintf("%d %s %d", x.draws, x.what, *x.bound))
		}
	}
	return fmt.Sprintf("%d of %d %s: %s", n.below+n.above, len(w.Requests), what, strings.Join(bounds, ", "))
}

// warnDraws names options of drawn lengths where the lengths come from a file.
func (w *Workload) warnDraws() string {
	o, drawn := &w.Options, DefaultOptions()
	file := "--isl-list"
	if o.Trace != "" {
		file = "--trace"
	}
	if o.ISLList+o.Trace == "" {
		return ""
	}
	var idle []string
	for _, x := range []struct {
		flag  string
		given bool
	}{{"--isl-mean", o.ISLMean != drawn.ISLMean}, {"--isl-scale", o.ISLScale != drawn.ISLScale},
		{"--seed", o.Seed != drawn.Seed}} {
		if x.given {
			idle = append(idle, x.flag)
		}
	}
	if len(idle) == 0 {
		return ""
	}
	return fmt.Sprintf("%s without effect: the lengths of the requests come from %s", strings.Join(idle, ", "), file)
}

func (w *Workload) warnLastBatch() string {
	if len(w.Patterns) == 0 {
		return ""
	}
	last := w.Patterns[len(w.Patterns)-1]
	if last.Requests >= w.Options.BatchSize || memory(last.KVBytes) > w.Options.MaxBatchMem {
		return ""
	}
	return fmt.Sprintf("the last batch has only %d of --batch-size %d requests", last.Requests, w.Options.BatchSize)
}

func (w *Workload) warnLargeBatches() string {
	n := 0
	for _, p := range w.Patterns {
		if memory(p.KVBytes) > w.Options.MaxBatchMem {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d batches are larger than --max-batch-mem %v, each by its last request", n,
		len(w.Patterns), w.Options.MaxBatchMem)
}

// warnIgnored names the options that a named model overrides.
func (w *Workload) warnIgnored() string {
	if !w.Options.named() {
		return ""
	}
	var flags []string
	if w.Options.DtypeSize != nil {
		flags = append(flags, "--dtype-size")
	}
	for _, x := range w.Options.customNumbers() {
		if x.value != nil {
			flags = append(flags, "--"+x.flag)
		}
	}
	if flags == nil {
		return ""
	}
	return fmt.Sprintf("--model %s is given, so these do not count: %s", w.Options.Model, strings.Join(flags, ", "))
}

func (w *Workload) warnHidden() string {
	if !w.Model.hiddenGuessed {
		return ""
	}
	return fmt.Sprintf("the model file says no hidden size; the sleeps assume heads x head size = %d (--hidden-size says it)", w.Model.Hidden)
}

func (w *Workload) warnIdle() string {
	workers := max(w.Prefill.Workers(), w.Decode.Workers())
	batches := 0
	if n := len(w.Patterns); n > 0 {
		batches = w.Patterns[n-1].Batch + 1
	}
	if batches >= workers {
		return ""
	}
	return fmt.Sprintf("%d batches do not reach all of the %d prefill and %d decode workers", batches,
		w.Prefill.Workers(), w.Decode.Workers())
}

func (w *Workload) warnUnequal() string {
	p, d := w.Prefill.Workers(), w.Decode.Workers()
	if p == d {
		return ""
	}
	return fmt.Sprintf("%d prefill and %d decode workers: batches of one prefill worker run, and sleep, one after the other; "+
		"those of several may meet at a decode worker", p, d)
}

// warnEmptyCells counts matrices whose messages are so small that some round to nothing.
func (w *Workload) warnEmptyCells() string {
	if w.Options.Compat {
		return ""
	}
	n := 0
	for _, p := range w.Patterns {
		for _, l := range w.loads(p)[:1] {
			if p.scaled < l.share.Parts*l.share.Pieces*int64(w.decode.cp*w.prefill.cp) {
				n++
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d matrices have fewer bytes than messages, so some messages are empty", n,
		len(w.Patterns))
}

func (w *Workload) warnPartial() string {
	if w.Prefill.Ranks%w.Prefill.WorkerSize == 0 {
		return ""
	}
	return fmt.Sprintf("the last prefill worker has only %d of %d ranks: the original loses the rest of its batches",
		w.Prefill.Ranks%w.Prefill.WorkerSize, w.Prefill.WorkerSize)
}

func (w *Workload) warnRounding() string {
	if !w.Options.Compat {
		return ""
	}
	var kv int64
	for _, p := range w.Patterns {
		kv += p.KVBytes
	}
	if kv == w.Bytes() {
		return ""
	}
	return fmt.Sprintf("the matrices hold %d bytes instead of the %d of the cache (--compat rounds)", w.Bytes(), kv)
}

// usualRate is about what a rank sends, in bytes per second, where sleeps are compared with transfers.
const usualRate = 5e9

// warnSleeps names sleeps beside which transfers are nothing: then none of them meet, whatever the network does.
func (w *Workload) warnSleeps() string {
	sleep, bytes := w.busiest()
	transfers := float64(bytes) / usualRate
	if w.Options.Compat || sleep < 1 || sleep <= 100*transfers {
		return ""
	}
	return fmt.Sprintf("the busiest worker sleeps %s s, and sends for %s s at 5 GB/s a rank: transfers will hardly meet; --scale shrinks bytes alone, --time-scale %.2g would shrink the sleeps to ten times the transfers",
		seconds(sleep), seconds(transfers), 10*transfers/sleep*w.Options.TimeScale)
}
