package matgen

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/model"
	"perigee/internal/trace"
	"perigee/internal/traffic/matrix"
)

const defaultRequests = 1000

// Inputs hold the content of the files named in the options; see [Options.Load].
type Inputs struct {
	Draws []Draw         // nil: draw them
	Trace *trace.Summary // nil: they are of no trace
	Model *model.Model   // nil: the options name a model that perigee knows
}

// Workload is a planned workload: what the files will hold, without them.
type Workload struct {
	Options  Options
	Model    Model
	Requests []WorkRequest
	Trace    *trace.Summary // or nil
	Prefill  Side
	Decode   Side
	Patterns []BatchPattern // in the order of the run
	Warnings []string       // what looks doubtful, a sentence each
	Notes    []string       // what is not counted, or an engine refuses

	prefill, decode parallel
	clipped         clipped
}

// MaxMatrices is how many matrices a workload has at most, each of which is a file. A list of a few megabytes can ask
// for a million.
const MaxMatrices = 1 << 16

// BatchPattern is one batch of requests, or a part of it, whose cache moves from a prefill worker to a decode worker.
type BatchPattern struct {
	FirstRequest, Requests      int // of Workload.Requests
	Batch                       int
	PrefillWorker, DecodeWorker int
	ISL                         int64   // tokens of input, all requests
	KVBytes                     int64   // of cache or states, before --scale and without copies
	MovedBytes                  int64   // the same with copies
	Bytes                       int64   // the sum of the matrix
	SleepSec                    float64 // before the launch

	part                      part
	parts                     int    // patterns of the batch
	before, after             []part // that are prefilled then, and move nothing
	prefillGroup, decodeGroup int    // attention groups of the workers
	scaled                    int64  // KVBytes times --scale
	cellText                  string // --compat: what every cell is written as
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

// Load reads the files that the options name. The errors are of the kind Input, with file and line.
func (o *Options) Load() (Inputs, error) {
	var in Inputs
	var err error
	switch {
	case o.ISLList != "":
		in.Draws, err = LoadISLList(o.ISLList)
	case o.Trace != "":
		in.Draws, in.Trace, err = LoadTrace(o.Trace, o.TraceUnit)
	}
	switch _, shipped := model.Shipped(o.Model); {
	case err != nil:
	case o.ModelFile != "":
		in.Model, err = model.LoadFile(o.ModelFile)
	case o.Model != "" && !shipped && !o.Compat:
		in.Model, err = model.Load(o.Model)
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
	if err := w.makeWorkers(); err != nil {
		return nil, err
	}
	if !o.Compat {
		w.Model.Copies = w.copies()
		w.Notes = w.move().Notes(w.Model.cache.Model)
	}
	draws, err := o.draws(in)
	if err != nil {
		return nil, err
	}
	least, most := o.bounds()
	w.Requests, w.clipped = clip(draws, least, most)
	if o.Trace == "" { // for the metadata
		w.Options.MinISL, w.Options.MaxISL = &least, &most
	}
	if err := w.makePatterns(); err != nil {
		return nil, err
	}
	if err := w.fill(); err != nil {
		return nil, err
	}
	w.warn()
	return w, nil
}

// makeWorkers cuts the ranks into workers.
func (w *Workload) makeWorkers() error {
	o := &w.Options
	var err error
	if o.Compat {
		w.prefill = parallel{tp: o.PrefillTP, cp: o.PrefillCP, dp: 1, stages: []int64{0, w.Model.Layers}}
		w.decode = parallel{tp: o.DecodeTP, cp: o.DecodeCP, dp: 1, stages: w.prefill.stages}
		if w.Prefill, w.Decode, err = o.sides(o.PrefillTP*o.PrefillCP, o.DecodeTP*o.DecodeCP); err != nil {
			return err
		}
		return w.checkCompatWorkers()
	}
	if w.prefill, w.decode, err = o.parallels(w.Model); err != nil {
		return err
	}
	if w.Prefill, w.Decode, err = o.sides(w.prefill.size(), w.decode.size()); err != nil {
		return err
	}
	if err := w.checkShape(); err != nil {
		return err
	}
	if cells := w.decode.attention() * w.decode.cp * w.senders(); cells > matrix.MaxCells {
		return usage("workers of %s and %s exchange %d messages: wanted at most %d", w.prefill, w.decode, cells, matrix.MaxCells)
	}
	return nil
}

// draws returns the draws that become requests.
func (o *Options) draws(in Inputs) ([]Draw, error) {
	if in.Draws == nil {
		return sample(cli.Given(o.NumUserRequests, defaultRequests), o.ISLMean, o.ISLScale, o.Seed), nil
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
// k mod their number to decode worker k mod theirs, and there to the next attention group in turn.
//
// There are at most MaxMatrices.
func (w *Workload) makePatterns() error {
	limit := int64(math.MaxInt64)
	if w.Options.MaxBatchMem < math.MaxInt64 {
		limit = int64(w.Options.MaxBatchMem)
	}
	var total int64
	batch, first := 0, 0
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
		whole := BatchPattern{FirstRequest: first, Requests: n, Batch: batch, ISL: isl, KVBytes: kv,
			PrefillWorker: batch % w.Prefill.Workers(), DecodeWorker: batch % w.Decode.Workers()}
		if w.Options.Compat {
			w.Patterns = append(w.Patterns, whole)
		} else {
			whole.prefillGroup = batch / w.Prefill.Workers() % w.prefill.dp
			whole.decodeGroup = batch / w.Decode.Workers() % w.decode.dp
			w.Patterns = append(w.Patterns, w.cut(whole)...)
		}
		if len(w.Patterns) > MaxMatrices {
			return fault.New(fault.Usage, "%d requests make more than %d matrices", len(w.Requests), MaxMatrices).
				WithHint("--batch-size puts requests together, --num-user-requests takes the first ones only")
		}
		batch, first, isl, kv = batch+1, i+1, 0, 0
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
	w.fillSleeps()
	for _, p := range w.Patterns {
		if math.IsInf(p.SleepSec, 0) {
			return usage("--flops %v: the prefill of a batch would take for ever", w.Options.FLOPS)
		}
	}
	return nil
}

// fillBytes gives each pattern its bytes after --scale, and makes sure that the sum of all matrices fits an int64. The
// scaled bytes are divided over the loads of a pattern so that they add up exactly, copies not counted.
func (w *Workload) fillBytes() error {
	var total int64
	for k, scaled := range w.scaledBytes() {
		p := &w.Patterns[k]
		if scaled == 0 {
			return usage("--scale %v leaves nothing of the %d bytes of pattern %d", w.Options.Scale, p.KVBytes, k)
		}
		p.scaled = scaled
		loads := w.loads(*p)
		for _, l := range loads {
			moved, ok := product(l.bytes, l.times(w.decode))
			if !ok || moved > math.MaxInt64-p.MovedBytes {
				return errTooMuch("the caches of a batch and their copies")
			}
			p.MovedBytes += moved
		}
		for i, bytes := range apportion(scaled, bytesOf(loads)) {
			sum, ok := product(bytes, loads[i].times(w.decode))
			if !ok || sum > math.MaxInt64-total {
				return errTooMuch("the sum of all matrices")
			}
			p.Bytes += sum
			total += sum
		}
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
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainders[b], remainders[a]) })
	for _, i := range order[:left] {
		parts[i]++
	}
	return parts
}

// operations returns 4 squares H L + 16 tokens H^2 L for so many layers.
func operations(squares, tokens *big.Int, m Model, layers int64) float64 {
	hidden := big.NewInt(m.Hidden)
	scores := new(big.Int).Mul(big.NewInt(4), squares)
	mlp := new(big.Int).Mul(big.NewInt(16), tokens)
	sum := scores.Add(scores, mlp.Mul(mlp, hidden))
	sum.Mul(sum, hidden).Mul(sum, big.NewInt(layers))
	f, _ := new(big.Float).SetInt(sum).Float64()
	return f
}

// arrivalSec is when the last request of a batch comes.
func (w *Workload) arrivalSec(p BatchPattern) float64 {
	return w.Requests[p.FirstRequest+p.Requests-1].ArrivalSec
}

// Matrix returns the traffic matrix of a pattern. With --compat, its cells are
// what a reader gets from the rounded text.
func (w *Workload) Matrix(p BatchPattern) (*matrix.Matrix, error) {
	m := matrix.New(w.World())
	for _, c := range w.Cells(p) {
		if err := m.Set(c.From, c.To, c.Bytes); err != nil {
			return nil, err
		}
	}
	return m, nil
}
