package matgen

import (
	"io"
	"math"
	"math/big"
	"slices"

	"perigee/internal/kit/size"
	"perigee/internal/traffic/matrix"
)

// This file holds what --compat does otherwise: the original's rules, faults
// included, so that its workloads can be compared with ours.

// checkCompatWorkers does the original's checks in its order.
func (w *Workload) checkCompatWorkers() error {
	o := &w.Options
	switch {
	case o.PrefillPP != 1 || o.DecodePP != 1:
		return usage("--prefill-pp %d, --decode-pp %d: the original wants 1", o.PrefillPP, o.DecodePP)
	case o.PrefillTP > o.DecodeTP:
		return usage("--prefill-tp %d: the original wants at most --decode-tp %d", o.PrefillTP, o.DecodeTP)
	case o.PrefillCP < o.DecodeCP:
		return usage("--prefill-cp %d: the original wants at least --decode-cp %d", o.PrefillCP, o.DecodeCP)
	case o.DecodeCP != 1:
		return usage("--decode-cp %d: the original wants 1", o.DecodeCP)
	case o.RailOptimized && o.DecodeTP != len(railOrder):
		return usage("--rail-optimized: the original wants --decode-tp %d, got %d", len(railOrder), o.DecodeTP)
	case o.RailOptimized && o.PrefillTP != len(railOrder)/2:
		return usage("--rail-optimized: the original wants --prefill-tp %d, got %d", len(railOrder)/2, o.PrefillTP)
	case w.Prefill.Workers() != w.Decode.Workers():
		return usage("%d prefill workers and %d decode workers: the original wants as many of the one as of the other",
			w.Prefill.Workers(), w.Decode.Workers())
	case o.RailOptimized && w.Decode.Ranks%w.Decode.WorkerSize != 0:
		return usage("--rail-optimized: the original wants decode workers of %d ranks, got a smaller one",
			w.Decode.WorkerSize)
	case o.DecodeTP%(o.PrefillTP*o.PrefillCP) != 0:
		return usage("--decode-tp %d: the original wants a multiple of --prefill-tp %d x --prefill-cp %d", o.DecodeTP,
			o.PrefillTP, o.PrefillCP)
	}
	return nil
}

// compatPeers is how many decode ranks each prefill rank sends to.
func (o *Options) compatPeers() int { return o.DecodeTP / o.PrefillTP / o.PrefillCP }

// fillCompat rounds the cells and computes the original's sleeps,
//
//	(4 B S^2 H L + 16 B S H^2 L) / (36e12 * tp)
//
// where S is the sum of the input lengths and B the number of requests, so
// that a batch counts B times.
func (w *Workload) fillCompat() error {
	var total int64
	for k := range w.Patterns {
		p := &w.Patterns[k]
		from, to := w.Prefill.Worker(p.PrefillWorker)
		first, last := w.Decode.Worker(p.DecodeWorker)
		messages := (to - from) * w.Options.compatPeers()
		if messages > last-first {
			return usage("decode worker %d has %d ranks where %d are needed: the original fails on it", p.DecodeWorker,
				last-first, messages)
		}
		p.cellText = matrix.FormatSize(w.compatCell(p.KVBytes))
		read, err := size.Parse(p.cellText)
		if err != nil {
			return errTooMuch("a cell of " + p.cellText)
		}
		var ok bool
		if p.Bytes, ok = product(read, int64(messages)); !ok || p.Bytes > math.MaxInt64-total {
			return errTooMuch("the sum of all matrices")
		}
		total += p.Bytes
		p.SleepSec = w.compatSec(*p)
	}
	return nil
}

// compatCell divides in the original's order, since each division rounds.
func (w *Workload) compatCell(kv int64) float64 {
	o := &w.Options
	slice, _ := new(big.Rat).SetFrac64(kv, int64(o.PrefillTP)).Float64()
	slice /= float64(o.PrefillCP)
	return slice / float64(o.compatPeers())
}

func (w *Workload) compatSec(p BatchPattern) float64 {
	batch, isl := big.NewInt(int64(p.Requests)), big.NewInt(p.ISL)
	tokens := new(big.Int).Mul(batch, isl)
	squares := new(big.Int).Mul(tokens, isl)
	return operations(squares, tokens, w.Model, w.Model.Layers) / (originalFLOPS * float64(w.Options.PrefillTP))
}

// compatCells lets the ranks of the prefill worker, of which the last worker
// may have too few, send to the next ranks of the decode worker in turn.
func (w *Workload) compatCells(p BatchPattern) []Cell {
	from, to := w.Prefill.Worker(p.PrefillWorker)
	decode, _ := w.Decode.Worker(p.DecodeWorker)
	bytes, _ := size.Parse(p.cellText) // fillCompat has seen that it can be read
	peers := w.Options.compatPeers()
	var cells []Cell
	for r := range to - from {
		for i := range peers {
			cells = append(cells, Cell{from + r, decode + w.Options.place(r*peers+i), bytes})
		}
	}
	return cells
}

// writeCompatText writes a matrix as the original does: every cell that is not
// 0 as the pattern's rounded text, even where that reads back as 0.
func (w *Workload) writeCompatText(out io.Writer, p BatchPattern) error {
	peers := make([][]int, w.World())
	for _, c := range w.Cells(p) {
		peers[c.From] = append(peers[c.From], c.To)
	}
	var line []byte
	for _, to := range peers {
		slices.Sort(to)
		line = line[:0]
		for j := range w.World() {
			if j > 0 {
				line = append(line, ' ')
			}
			if len(to) > 0 && to[0] == j {
				line = append(line, p.cellText...)
				to = to[1:]
			} else {
				line = append(line, '0')
			}
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}
