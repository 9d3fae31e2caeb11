package matgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/model"
)

// Side is one of the two sides of the system: consecutive ranks, cut into
// workers of equal size. Only the original cuts a shorter last worker.
type Side struct {
	First      int // rank
	Ranks      int
	WorkerSize int // ranks
}

// Workers returns the number of workers.
func (s Side) Workers() int { return (s.Ranks + s.WorkerSize - 1) / s.WorkerSize }

// Worker returns the ranks of a worker as a range [from, to).
func (s Side) Worker(i int) (from, to int) {
	from = s.First + i*s.WorkerSize
	return from, min(from+s.WorkerSize, s.First+s.Ranks)
}

// parallel is the parallelism inside a worker. Its ranks are numbered by stages of the pipeline, in each by parts of
// the sequence, in each by attention groups, in each by tensor parallelism.
type parallel struct {
	tp, cp, dp int     // dp attention groups of tp / dp ranks
	stages     []int64 // the first layer of each stage, and the end
}

func (p parallel) pp() int        { return len(p.stages) - 1 }
func (p parallel) size() int      { return p.tp * p.cp * p.pp() }
func (p parallel) attention() int { return p.tp / p.dp }

// rank returns where in a worker a rank of an attention group stands.
func (p parallel) rank(stage, part, group, t int) int {
	return (stage*p.cp+part)*p.tp + group*p.attention() + t
}

// String says how large a worker is, in the words of messages.
func (p parallel) String() string {
	text := fmt.Sprintf("tp %d", p.tp)
	for _, x := range []struct {
		n    int
		name string
	}{{p.pp(), "pp"}, {p.cp, "cp"}} {
		if x.n > 1 {
			text += fmt.Sprintf(" x %s %d", x.name, x.n)
		}
	}
	if p.dp > 1 {
		text += fmt.Sprintf(", %d attention groups", p.dp)
	}
	return text
}

// parallels returns the parallelism of both sides.
func (o *Options) parallels(m Model) (prefill, decode parallel, err error) {
	prefill = parallel{tp: o.PrefillTP, cp: o.PrefillCP, dp: o.PrefillDP}
	decode = parallel{tp: o.DecodeTP, cp: o.DecodeCP, dp: o.DecodeDP}
	for _, side := range []struct {
		name   string
		p      *parallel
		pp     int
		layers []int64
	}{{"prefill", &prefill, o.PrefillPP, o.PrefillPPLayers}, {"decode", &decode, o.DecodePP, o.DecodePPLayers}} {
		if side.p.tp%side.p.dp != 0 {
			return prefill, decode, usage("--%s-dp %d: wanted a divisor of --%s-tp %d", side.name, side.p.dp, side.name, side.p.tp)
		}
		if side.layers == nil {
			side.p.stages, err = model.Stages(m.Layers, int64(side.pp), model.Serving(o.Serving))
		} else {
			side.p.stages, err = model.StagesOf(m.Layers, side.layers)
		}
		if err == nil && side.layers != nil && side.pp != 1 && side.pp != side.p.pp() {
			err = fault.New(fault.Usage, "layers of %d stages, and --%s-pp is %d", side.p.pp(), side.name, side.pp)
		}
		if err != nil {
			return prefill, decode, usage("--%s-pp of %s: %w", side.name, m.Name, err)
		}
	}
	return prefill, decode, nil
}

// sides places the prefill ranks before the decode ranks.
func (o *Options) sides(prefill, decode int) (Side, Side, error) {
	p, okP := product(int64(o.NumPrefillNodes), int64(o.PPN))
	d, okD := product(int64(o.NumDecodeNodes), int64(o.PPN))
	if !okP || !okD || p+d > maxRanks {
		return Side{}, Side{}, usage("(%d prefill nodes + %d decode nodes) x ppn %d are too many ranks: wanted at most %d",
			o.NumPrefillNodes, o.NumDecodeNodes, o.PPN, maxRanks)
	}
	return Side{0, int(p), prefill}, Side{int(p), int(d), decode}, nil
}

// checkShape refuses what cannot be planned, with the numbers that can.
func (w *Workload) checkShape() error {
	o, prefill, decode := &w.Options, w.prefill.attention(), w.decode.attention()
	if o.RailOptimized && (o.DecodeTP != len(railOrder) || o.DecodeDP != 1) {
		return usage("--rail-optimized: wanted --decode-tp %d, got %d", len(railOrder), o.DecodeTP)
	}
	if o.RailOptimized && o.PrefillTP != len(railOrder)/2 {
		return usage("--rail-optimized: wanted --prefill-tp %d, got %d", len(railOrder)/2, o.PrefillTP)
	}
	if prefill%decode != 0 && decode%prefill != 0 {
		return usage("--prefill-tp %d and --decode-tp %d: one must be a multiple of the other", prefill, decode).
			WithHint("with --decode-tp %d, --prefill-tp can be %s or a multiple of %d", decode, list(divisors(decode)), decode)
	}
	for _, side := range []struct {
		name string
		tp   int
	}{{"prefill", prefill}, {"decode", decode}} {
		if err := w.Model.cache.Model.CheckCut(int64(side.tp)); err != nil {
			return usage("--%s-tp %d: %w", side.name, side.tp, err).
				WithHint("--%s-tp can be %s", side.name, list(w.Model.possible()))
		}
	}
	if err := w.checkWhole("prefill", w.Prefill, w.prefill, decode); err != nil {
		return err
	}
	return w.checkWhole("decode", w.Decode, w.decode, prefill)
}

// possible lists the first tensor parallelisms that the model's heads and states allow.
func (m Model) possible() []int {
	const most = 64
	var all []int
	for tp := 1; tp <= most; tp++ {
		if m.fits(tp) {
			all = append(all, tp)
		}
	}
	return all
}

// fits reports whether the model can be cut among so many ranks.
func (m Model) fits(tp int) bool { return m.cache.Model.CheckCut(int64(tp)) == nil }

// checkWhole refuses a side whose ranks do not divide into workers.
func (w *Workload) checkWhole(name string, side Side, p parallel, otherTP int) error {
	ranks, size := side.Ranks, side.WorkerSize
	if ranks%size == 0 {
		return nil
	}
	near := fmt.Sprint((ranks/size + 1) * size)
	if ranks > size {
		near = fmt.Sprintf("%d or %s", ranks/size*size, near)
	}
	hint := fmt.Sprintf("such workers fill %s GPUs", near)
	if beside := p.cp * p.pp(); ranks%beside == 0 && p.dp == 1 {
		possible := slices.DeleteFunc(divisors(ranks/beside), func(tp int) bool {
			return !w.Model.fits(tp) || tp%otherTP != 0 && otherTP%tp != 0
		})
		hint += fmt.Sprintf("; %d GPUs can have --%s-tp %s", ranks, name, list(possible)) // 1 is always possible
	}
	return usage("%s: the %d GPUs (%d x ppn %d) do not divide into workers of %d (%s)", name, ranks, ranks/w.Options.PPN,
		w.Options.PPN, size, p).WithHint("%s", hint)
}

// divisors returns the divisors of n in ascending order.
func divisors(n int) []int {
	var found []int
	for d := 1; d*d <= n; d++ {
		if n%d != 0 {
			continue
		}
		found = append(found, d)
		if d*d != n {
			found = append(found, n/d)
		}
	}
	slices.Sort(found)
	return found
}

func list(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, ", ")
}

// railOrder are the places of the TP ranks of a decode worker on its node when
// rails are optimized: the two that prefill rank r feeds stand at r and r + 4.
var railOrder = [...]int{0, 4, 1, 5, 2, 6, 3, 7}

// place returns where among the ranks of an attention group rank j stands.
func (o *Options) place(j int) int {
	if o.RailOptimized {
		return railOrder[j]
	}
	return j
}

// Cell is one message of a pattern.
type Cell struct {
	From, To int // ranks
	Bytes    int64
}

// senders returns how many prefill ranks each decode rank receives from.
func (w *Workload) senders() int {
	return w.prefill.cp * int(w.move().Senders())
}

// Cells returns the messages of a pattern, each pair of ranks once.
func (w *Workload) Cells(p BatchPattern) []Cell {
	if w.Options.Compat {
		return w.compatCells(p)
	}
	loads := w.loads(p)
	var cells []Cell
	for i, bytes := range apportion(p.scaled, bytesOf(loads)) {
		cells = append(cells, w.share(p, loads[i], bytes)...)
	}
	if len(loads) == 1 {
		return cells
	}
	slices.SortStableFunc(cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From))
	})
	return summed(cells)
}

// summed puts neighbours of the same ranks together.
func summed(cells []Cell) []Cell {
	var all []Cell
	for _, c := range cells {
		if n := len(all); n > 0 && all[n-1].From == c.From && all[n-1].To == c.To {
			all[n-1].Bytes += c.Bytes
		} else {
			all = append(all, c)
		}
	}
	return all
}

// share shares out the bytes of a load, copies not counted: by [model.Move] among the ranks of tensor parallelism, and
// by context parallelism, which cuts tokens, into equal parts on both sides.
func (w *Workload) share(p BatchPattern, l load, bytes int64) []Cell {
	move := w.move()
	prefill, _ := w.Prefill.Worker(p.PrefillWorker)
	decode, _ := w.Decode.Worker(p.DecodeWorker)
	cells := make([]Cell, 0, int(move.Pairs())*w.decode.cp*w.prefill.cp)
	for pair := range move.Pairs() {
		piece, moves := l.share.Piece(bytes, pair)
		if !moves {
			continue
		}
		t, j := move.Ranks(pair)
		parts := splitEven(piece, w.decode.cp)
		if l.everyPart {
			parts = slices.Repeat([]int64{piece}, w.decode.cp)
		}
		for d, part := range parts {
			to := decode + w.decode.rank(l.decodeStage, d, p.decodeGroup, w.Options.place(int(j)))
			for c, bytes := range splitEven(part, w.prefill.cp) {
				from := prefill + w.prefill.rank(p.part.stage, c, p.prefillGroup, int(t))
				cells = append(cells, Cell{from, to, bytes})
			}
		}
	}
	return cells
}

// splitEven cuts total into n whole parts: see [model.EvenPart].
func splitEven(total int64, n int) []int64 {
	parts := make([]int64, n)
	for i := range parts {
		parts[i] = model.EvenPart(total, int64(n), int64(i))
	}
	return parts
}

// errTooMuch refuses byte counts beyond 63 bits.
func errTooMuch(what string) *fault.Error {
	return usage("%s does not fit 63 bits", what)
}

// product multiplies two numbers that are not negative and reports whether the result fits.
func product(a, b int64) (int64, bool) {
	if a != 0 && b > (1<<63-1)/a {
		return 0, false
	}
	return a * b, true
}
