package matgen

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"perigee/internal/model"
)

// part is the share of a batch that one pattern moves.
type part struct {
	stage      int   // of the prefill pipeline
	first, end int64 // its layers
	chunk      int64 // which of the chunks of every request
	states     bool  // the states of the stage's layers, instead of their caches
	alone      bool  // it is all that moves of the batch
}

// load groups the bytes that move in a pattern to a stage of the decode pipeline and are shared out alike there.
type load struct {
	decodeStage int
	share       model.Share
	everyPart   bool  // every part of the sequence receives all of it
	bytes       int64 // once
}

// times returns how often the bytes of a load are sent.
func (l load) times(decode parallel) int64 {
	if l.everyPart {
		return l.share.Times() * int64(decode.cp)
	}
	return l.share.Times()
}

func bytesOf(loads []load) []int64 {
	bytes := make([]int64, len(loads))
	for i, l := range loads {
		bytes[i] = l.bytes
	}
	return bytes
}

// defaultRuns is into how many runs of layers --layerwise cuts a stage. Engines send layer by layer or a few at a time.
const defaultRuns = 8

// cut cuts a batch into the patterns that move its parts, in the order in which prefill has them: chunk by chunk,
// stage by stage, run by run of layers, and after the last chunk the states of the stage. A part that moves nothing
// is prefilled all the same: before the next one of its stage, or after the last one.
func (w *Workload) cut(batch BatchPattern) []BatchPattern {
	var all []BatchPattern
	idle := make([][]part, w.prefill.pp())
	last := make([]int, w.prefill.pp()) // the last pattern of each stage, from 1
	add := func(p part) {
		pattern := batch
		pattern.part, pattern.KVBytes = p, 0
		for _, l := range w.loads(pattern) {
			pattern.KVBytes += l.bytes
		}
		switch {
		case pattern.KVBytes > 0:
			pattern.before, idle[p.stage] = idle[p.stage], nil
			all = append(all, pattern)
			last[p.stage] = len(all)
		case !p.states:
			idle[p.stage] = append(idle[p.stage], p)
		}
	}
	chunks := w.chunks(batch)
	for chunk := range chunks {
		for stage := range w.prefill.pp() {
			runs := w.runs(stage)
			for i := range len(runs) - 1 {
				add(part{stage: stage, first: runs[i], end: runs[i+1], chunk: chunk})
			}
			if chunk == chunks-1 && w.Model.cache.Model.Stateful() {
				add(part{stage: stage, first: runs[0], end: runs[len(runs)-1], chunk: chunk, states: true})
			}
		}
	}
	for stage, parts := range idle {
		if last[stage] > 0 {
			all[last[stage]-1].after = parts
		}
	}
	for k := range all {
		all[k].parts, all[k].part.alone = len(all), len(all) == 1
	}
	return all
}

// runs returns where the runs of layers of a stage begin, and their end.
func (w *Workload) runs(stage int) []int64 {
	first, end := w.prefill.stages[stage], w.prefill.stages[stage+1]
	n := int64(1)
	if w.Options.Layerwise {
		n = int64(w.Options.Runs)
		if n == 0 {
			n = defaultRuns
		}
	}
	n = min(n, end-first)
	bounds := []int64{first}
	for _, size := range splitEven(end-first, int(n)) {
		bounds = append(bounds, bounds[len(bounds)-1]+size)
	}
	return bounds
}

// chunks returns how many chunks the longest request of a batch has.
func (w *Workload) chunks(batch BatchPattern) int64 {
	most := int64(1)
	for _, r := range w.requests(batch) {
		if c := w.Options.Chunk; c > 0 {
			most = max(most, (r.Tokens+c-1)/c)
		}
	}
	return most
}

func (w *Workload) requests(p BatchPattern) []WorkRequest {
	return w.Requests[p.FirstRequest : p.FirstRequest+p.Requests]
}

// tokens returns which tokens of a request a part is of.
func (w *Workload) tokens(p part, r WorkRequest) (from, to int64) {
	if w.Options.Chunk == 0 || p.states {
		return 0, r.Tokens
	}
	return min(p.chunk*w.Options.Chunk, r.Tokens), min((p.chunk+1)*w.Options.Chunk, r.Tokens)
}

// move is how a batch goes from one attention group to another.
func (w *Workload) move() model.Move {
	return model.Move{
		Serving: w.Model.cache.Serving, Replicas: w.Options.KVReplicas,
		From: int64(w.prefill.attention()), To: int64(w.decode.attention()),
	}
}

// copies says who receives copies of what.
func (w *Workload) copies() string {
	text := w.move().Text(w.Model.cache.Model)
	if text != "" && w.decode.pp() > 1 {
		text += fmt.Sprintf(", of the layers of its stage of %d", w.decode.pp())
	}
	if text != "" && w.decode.cp > 1 {
		text += fmt.Sprintf(", in each of %d parts of the sequence its tokens", w.decode.cp)
	}
	if w.decode.cp > 1 && w.Options.KVReplicas == model.ReplicasFull && w.Model.cache.Model.Stateful() {
		text = strings.TrimPrefix(text+fmt.Sprintf(", each of %d parts of the sequence receives the states", w.decode.cp), ", ")
	}
	return text
}

// loads returns what moves in a pattern, copies not counted.
func (w *Workload) loads(p BatchPattern) []load {
	var all []load
	add := func(l load) {
		i := slices.IndexFunc(all, func(x load) bool {
			return x.decodeStage == l.decodeStage && x.share == l.share && x.everyPart == l.everyPart
		})
		if i < 0 {
			all = append(all, l)
		} else {
			all[i].bytes += l.bytes
		}
	}
	cache, move := w.Model.cache, w.move()
	full := move.Replicas == model.ReplicasFull
	for stage := range w.decode.pp() {
		first, end := max(p.part.first, w.decode.stages[stage]), min(p.part.end, w.decode.stages[stage+1])
		for i, g := range cache.Model.Groups {
			state := g.State.Any()
			layers := within(g.Layers, first, end)
			if layers == 0 || state != p.part.states {
				continue
			}
			for _, lot := range move.Lots(g.Keep, w.groupBytes(p, i)*layers, layers*int64(p.Requests)) {
				add(load{stage, lot.Share, full && state, lot.Bytes})
			}
		}
	}
	return all
}

// groupBytes are the bytes that one layer of a group moves in a pattern. Plan has seen that the sum of all fits.
func (w *Workload) groupBytes(p BatchPattern, group int) (sum int64) {
	for _, r := range w.requests(p) {
		from, to := w.tokens(p.part, r)
		if from < to {
			n, _ := w.Model.cache.LayerBytes(group, from, to, r.Tokens)
			sum += n
		}
	}
	return sum
}

// within counts the layers from first up to, but without, end.
func within(layers []int64, first, end int64) int64 {
	a, _ := slices.BinarySearch(layers, first)
	b, _ := slices.BinarySearch(layers, end)
	return int64(max(b-a, 0))
}

// fillSleeps computes when each stage of a prefill worker has each part, and from that its pauses. The prefill of a
// part takes
//
//	sum over its requests of (4 (e^2 - s^2) H + 16 (e - s) H^2) L / (flops * tp / dp * cp)
//
// for tokens s to e, hidden size H and L layers: the attention scores and values, and the matrices of an MLP of width
// 4 H. A stage begins with a chunk when it is free and the stage before has it; the first stage not before the last
// request of the batch has come. It does not wait for decode workers, which are free to receive several caches; the
// transfers themselves count as instantaneous.
func (w *Workload) fillSleeps() {
	type lane struct{ worker, group, stage int }
	type piece struct {
		chunk int64
		stage int
	}
	busy, launched := map[lane]float64{}, map[lane]float64{} // until when a stage computes; when it launched last
	ready := map[piece]float64{}                             // when a stage had a chunk of the batch
	for k := range w.Patterns {
		p := &w.Patterns[k]
		if k > 0 && p.Batch != w.Patterns[k-1].Batch {
			clear(ready)
		}
		at := lane{p.PrefillWorker, p.prefillGroup, p.part.stage}
		prefill := func(x part) {
			start := max(busy[at], ready[piece{x.chunk, x.stage - 1}])
			if x.stage == 0 && w.Options.Trace != "" {
				start = max(start, w.arrivalSec(*p))
			}
			busy[at] = start + w.computeSec(*p, x)
			ready[piece{x.chunk, x.stage}] = busy[at]
		}
		for _, x := range p.before {
			prefill(x)
		}
		if !p.part.states {
			prefill(p.part)
		}
		p.SleepSec = (busy[at] - launched[at]) * w.Options.TimeScale
		launched[at] = busy[at]
		for _, x := range p.after {
			prefill(x)
		}
	}
}

// computeSec is the time that the prefill of a part of a batch takes; see [Workload.fillSleeps]. The numerator is
// exact.
func (w *Workload) computeSec(batch BatchPattern, x part) float64 {
	squares, tokens := new(big.Int), new(big.Int)
	var n big.Int
	for _, r := range w.requests(batch) {
		from, to := w.tokens(x, r)
		squares.Add(squares, n.Mul(n.SetInt64(to-from), big.NewInt(to+from)))
		tokens.Add(tokens, n.SetInt64(to-from))
	}
	work := operations(squares, tokens, w.Model, x.end-x.first)
	return work / (w.Options.FLOPS * float64(w.prefill.attention()) * float64(w.prefill.cp))
}
