package matgen

import (
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"

	"perigee/internal/fault"
	"perigee/internal/trace"
	"perigee/internal/traffic/matrix"
)

const defaultRequests = 1000

// Inputs are what the files named in the options hold; see [Options.Load].
type Inputs struct {
	Draws []Draw         // nil: draw them
	Trace *trace.Summary // nil: they are of no trace
	Model *Model         // nil: the options name the model
}

// Workload is a planned workload: what the files will hold, without them.
type Workload struct {
	Options  Options
	Trace    *trace.Summary // or nil
	Model    Model
	Requests []Request
	Prefill  Side
	Decode   Side
	Patterns []Pattern // in the order of the run
	Warnings []string  // what looks doubtful, a sentence each

	clipped clipped
}

// MaxMatrices is how many matrices a workload has at most, each of which is a file. A list of a few megabytes can ask
// for a million.
const MaxMatrices = 1 << 16

// Pattern is one batch of requests, whose cache moves from a prefill worker to
// a decode worker.
type Pattern struct {
	FirstRequest, Requests      int // of Workload.Requests
	PrefillWorker, DecodeWorker int
	ISL                         int64   // tokens of input, all requests
	KVBytes                     int64   // of cache, before --scale and without replicas
	Bytes                       int64   // the sum of the matrix
	SleepSec                    float64 // before the launch
	scaled                      int64   // KVBytes times --scale
	cellText                    string  // --compat: what every cell is written as
}

// World returns the number of ranks.
func (w *Workload) World() int { return w.Prefill.Ranks + w.Decode.Ranks }

// Bytes returns the sum of all matrices.
func (w *Workload) Bytes() int64 {
	var sum int64
	for _, p := range w.Patterns {
		sum += p.Bytes // Plan made sure that it fits
	}
	return sum
}

// Load reads the files that the options name.
func (o *Options) Load() (Inputs, error) {
	var in Inputs
	var err error
	switch {
	case o.ISLList != "":
		in.Draws, err = LoadISLList(o.ISLList)
	case o.Trace != "":
		in.Draws, in.Trace, err = LoadTrace(o.Trace, o.TraceUnit)
	}
	if err == nil && o.ModelFile != "" {
		in.Model, err = LoadModel(o.ModelFile)
	}
	return in, err
}

// Check refuses options that no files can make right. [Plan] calls it, too.
func (o *Options) Check() error {
	if err := o.checkNumbers(); err != nil {
		return err
	}
	return o.checkWords()
}

// Plan makes the workload that the options and the files they name describe.
// It has no side effects, and the same arguments give the same workload. All
// errors are of the kind Usage.
func Plan(o Options, in Inputs) (*Workload, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	w := &Workload{Options: o, Trace: in.Trace}
	var err error
	if w.Model, err = o.model(in.Model); err != nil {
		return nil, err
	}
	if w.Prefill, w.Decode, err = o.sides(); err != nil {
		return nil, err
	}
	if err := w.checkWorkers(); err != nil {
		return nil, err
	}
	draws, err := o.draws(in)
	if err != nil {
		return nil, err
	}
	w.Requests, w.clipped = clip(draws, o.MinISL, o.MaxISL)
	if err := w.makePatterns(); err != nil {
		return nil, err
	}
	if err := w.fill(); err != nil {
		return nil, err
	}
	w.warn()
	return w, nil
}

func (w *Workload) checkWorkers() error {
	o := &w.Options
	if o.Compat {
		return w.checkCompatWorkers()
	}
	if err := o.checkShape(w.Model); err != nil {
		return err
	}
	if err := o.checkWhole(w.Model); err != nil {
		return err
	}
	if cells := o.DecodeTP * o.layout(w.Model).senders(); cells > matrix.MaxCells {
		return usage("workers of %s and %s exchange %d messages: wanted at most %d",
			shape(o.PrefillTP, o.PrefillCP), shape(o.DecodeTP, 1), cells, matrix.MaxCells)
	}
	return nil
}

// draws returns the draws that become requests.
func (o *Options) draws(in Inputs) ([]Draw, error) {
	if in.Draws == nil {
		n := defaultRequests
		if o.NumUserRequests != nil {
			n = *o.NumUserRequests
		}
		return sample(n, o.ISLMean, o.ISLScale, o.Seed), nil
	}
	if o.NumUserRequests == nil {
		return in.Draws, nil
	}
	n := *o.NumUserRequests
	if n > len(in.Draws) {
		return nil, usage("--num-user-requests %d: %s has only %d", n, o.ISLList+o.Trace, len(in.Draws))
	}
	return in.Draws[:n], nil
}

// makePatterns cuts the requests into batches. A batch is closed as soon as it
// has --batch-size requests or its cache is larger than --max-batch-mem, so
// its last request may take it beyond that. Batch k goes from prefill worker
// k mod their number to decode worker k mod theirs.
//
// There are at most MaxMatrices.
func (w *Workload) makePatterns() error {
	limit := int64(math.MaxInt64)
	if w.Options.MaxBatchMem < math.MaxInt64 {
		limit = int64(w.Options.MaxBatchMem)
	}
	var total int64
	first := 0
	var isl, kv int64
	for i, r := range w.Requests {
		bytes, ok := w.Model.requestBytes(r.Tokens)
		if !ok || bytes > math.MaxInt64-total {
			return errTooMuch("the KV cache of all requests")
		}
		total += bytes
		kv += bytes
		isl += r.Tokens
		n := i + 1 - first
		if kv <= limit && n < w.Options.BatchSize && i+1 < len(w.Requests) {
			continue
		}
		k := len(w.Patterns)
		if k == MaxMatrices {
			return fault.New(fault.Usage, "%d requests make more than %d matrices", len(w.Requests), MaxMatrices).
				WithHint("--batch-size puts requests together, --num-user-requests takes the first ones only")
		}
		w.Patterns = append(w.Patterns, Pattern{
			FirstRequest: first, Requests: n, ISL: isl, KVBytes: kv,
			PrefillWorker: k % w.Prefill.Workers(), DecodeWorker: k % w.Decode.Workers(),
		})
		first, isl, kv = i+1, 0, 0
	}
	return nil
}

// fill computes the bytes and the sleep of every pattern.
func (w *Workload) fill() error {
	if w.Options.Compat {
		return w.fillCompat()
	}
	if err := w.fillBytes(); err != nil {
		return err
	}
	for k := range w.Patterns {
		w.Patterns[k].SleepSec = w.computeSec(w.Patterns[k])
	}
	if w.Options.Trace != "" {
		w.addWaits()
	}
	for _, p := range w.Patterns {
		if math.IsInf(p.SleepSec, 0) {
			return usage("--flops %v: the prefill of a batch would take for ever", w.Options.FLOPS)
		}
	}
	return nil
}

func (w *Workload) fillBytes() error {
	replicas := int64(w.Options.replicas(w.Model))
	var total int64
	for k, scaled := range w.scaledBytes() {
		p := &w.Patterns[k]
		if scaled == 0 {
			return usage("--scale %v leaves nothing of the %d bytes of batch %d", w.Options.Scale, p.KVBytes, k)
		}
		var ok bool
		p.scaled = scaled
		if p.Bytes, ok = product(scaled, replicas); !ok || p.Bytes > math.MaxInt64-total {
			return errTooMuch("the sum of all matrices")
		}
		total += p.Bytes
	}
	return nil
}

// scaledBytes returns the KV bytes of every batch times --scale, as whole
// numbers whose sum is the scaled sum, rounded down: the largest-remainder
// method. The factor counts as the decimal number that it was given as.
func (w *Workload) scaledBytes() []int64 {
	weights := make([]int64, len(w.Patterns))
	var total int64
	for k, p := range w.Patterns {
		weights[k] = p.KVBytes
		total += p.KVBytes
	}
	factor, _ := new(big.Rat).SetString(strconv.FormatFloat(w.Options.Scale, 'g', -1, 64))
	scaled := new(big.Rat).Mul(factor, new(big.Rat).SetInt64(total))
	return apportion(new(big.Int).Quo(scaled.Num(), scaled.Denom()).Int64(), weights)
}

// apportion cuts total, which is at most the sum of the weights, into whole
// parts in proportion to them. What rounding down leaves over goes, one each,
// to the largest remainders, and of equal ones to the first.
func apportion(total int64, weights []int64) []int64 {
	var sum int64
	for _, weight := range weights {
		sum += weight
	}
	parts := make([]int64, len(weights))
	if sum == 0 {
		return parts
	}
	remainders := make([]uint64, len(weights))
	left := total
	for i, weight := range weights {
		high, low := bits.Mul64(uint64(total), uint64(weight))
		part, remainder := bits.Div64(high, low, uint64(sum)) // fits: part <= weight
		parts[i], remainders[i] = int64(part), remainder
		left -= parts[i]
	}
	order := make([]int, len(weights))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case remainders[a] > remainders[b]:
			return -1
		case remainders[a] < remainders[b]:
			return 1
		}
		return 0
	})
	for _, i := range order[:left] {
		parts[i]++
	}
	return parts
}

// computeSec is the time that the prefill of a batch takes,
//
//	sum over its requests of (4 s^2 H + 16 s H^2) L / (flops * tp * cp)
//
// with s tokens, hidden size H and L layers: the attention scores and values,
// and the matrices of an MLP of width 4 H. The numerator is exact.
func (w *Workload) computeSec(p Pattern) float64 {
	squares := new(big.Int)
	var s big.Int
	for _, r := range w.Requests[p.FirstRequest : p.FirstRequest+p.Requests] {
		squares.Add(squares, s.Mul(s.SetInt64(r.Tokens), &s))
	}
	work := operations(squares, big.NewInt(p.ISL), w.Model)
	o := &w.Options
	return work / (o.FLOPS * float64(o.PrefillTP) * float64(o.PrefillCP))
}

// operations returns 4 squares H L + 16 tokens H^2 L.
func operations(squares, tokens *big.Int, m Model) float64 {
	hidden, layers := big.NewInt(m.Hidden), big.NewInt(m.Layers)
	scores := new(big.Int).Mul(big.NewInt(4), squares)
	mlp := new(big.Int).Mul(big.NewInt(16), tokens)
	sum := scores.Add(scores, mlp.Mul(mlp, hidden))
	sum.Mul(sum, hidden).Mul(sum, layers)
	f, _ := new(big.Float).SetInt(sum).Float64()
	return f
}

// addWaits makes the sleeps of a trace long enough that no batch is prefilled
// before its last request has come. A batch also waits for the batches before
// it on its prefill worker, as the run has it wait (meet: initiators), but not for
// its decode worker, which is free to receive several; the transfers themselves
// count as instantaneous. With --compat it waits for both, as in the original.
func (w *Workload) addWaits() {
	prefillFree := make([]float64, w.Prefill.Workers())
	decodeFree := make([]float64, w.Decode.Workers())
	for k := range w.Patterns {
		p := &w.Patterns[k]
		free := prefillFree[p.PrefillWorker]
		if w.Options.Compat {
			free = max(free, decodeFree[p.DecodeWorker])
		}
		p.SleepSec += max(0, w.arrivalSec(*p)-free)
		prefillFree[p.PrefillWorker] = free + p.SleepSec
		decodeFree[p.DecodeWorker] = free + p.SleepSec
	}
}

// arrivalSec is when the last request of a batch comes.
func (w *Workload) arrivalSec(p Pattern) float64 {
	return w.Requests[p.FirstRequest+p.Requests-1].ArrivalSec
}

// Cells returns the messages of a pattern.
func (w *Workload) Cells(p Pattern) []Cell {
	if w.Options.Compat {
		return w.compatCells(p)
	}
	prefill, _ := w.Prefill.Worker(p.PrefillWorker)
	decode, _ := w.Decode.Worker(p.DecodeWorker)
	return w.Options.layout(w.Model).cells(p.scaled, prefill, decode)
}

// Matrix returns the traffic matrix of a pattern. With --compat, its cells are
// what a reader gets from the rounded text.
func (w *Workload) Matrix(p Pattern) (*matrix.Matrix, error) {
	m := matrix.New(w.World())
	for _, c := range w.Cells(p) {
		if err := m.Set(c.From, c.To, c.Bytes); err != nil {
			return nil, err
		}
	}
	return m, nil
}
