package traffic

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"perigee/internal/fault"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
)

// PeerRun is one message of a run: EndNS is when the initiator saw it complete,
// on the common time line.
type PeerRun struct {
	Peer  int   `json:"peer"`
	Bytes int64 `json:"bytes"`
	EndNS int64 `json:"end_ns"`
}

// RankRun is one initiator's part of a run. Stamps are nanoseconds on the
// common time line.
type RankRun struct {
	Rank    int       `json:"rank"`
	StartNS int64     `json:"start_ns"`
	PostNS  int64     `json:"posted_ns"`
	EndNS   int64     `json:"end_ns"`
	Bytes   int64     `json:"bytes"`
	Peers   []PeerRun `json:"peers,omitempty"`
}

// DurationNS is the initiator's own time, from before its first post until its
// last transfer was complete.
func (r RankRun) DurationNS() int64 { return r.EndNS - r.StartNS }

// Bandwidth is in bytes per second.
func (r RankRun) Bandwidth() float64 {
	return float64(r.Bytes) / (float64(max(r.DurationNS(), 1)) * 1e-9)
}

// PatternRun is one run of a pattern over all its initiators.
type PatternRun struct {
	// StartNS is the first start, EndNS the last end, on the common time line.
	StartNS int64 `json:"start_ns"`
	EndNS   int64 `json:"end_ns"`
	// UncertaintyNS is how far the difference of the two may be off, because
	// they were read off different hosts' clocks; 0 within a host.
	UncertaintyNS int64 `json:"uncertainty_ns"`
	// BarrierExitSkewNS is how far apart the initiators were when they left the
	// barrier before the run: the last exit minus the first, to within
	// UncertaintyNS. It is nil without such a barrier, or with one initiator.
	BarrierExitSkewNS *int64    `json:"barrier_exit_skew_ns,omitempty"`
	Ranks             []RankRun `json:"ranks"`
}

// LatencyNS is the last end minus the first start over the initiators, and 0
// for a pattern in which nobody sends.
func (r PatternRun) LatencyNS() int64 { return r.EndNS - r.StartNS }

// MeanBandwidth is the mean, over the initiators, of the bytes that each moved
// divided by its own time, in bytes per second.
func (r PatternRun) MeanBandwidth() float64 {
	if len(r.Ranks) == 0 {
		return 0
	}
	var sum float64
	for _, k := range r.Ranks {
		sum += k.Bandwidth()
	}
	return sum / float64(len(r.Ranks))
}

// Isolated is the latency of a pattern that ran alone several times, in
// nanoseconds: the maximum over initiators of the mean over runs of that
// initiator's own time.
func Isolated(runs []PatternRun) float64 {
	if len(runs) == 0 {
		return math.NaN()
	}
	var worst float64
	for i := range runs[0].Ranks {
		var sum float64
		for _, r := range runs {
			sum += float64(r.Ranks[i].DurationNS())
		}
		worst = max(worst, sum/float64(len(runs)))
	}
	return worst
}

// Collect gathers at rank 0 the recorded runs of plans since the last Collect:
// one list of runs per plan. The other ranks get nil. All ranks call it with
// the same plans, each of them once.
func (s *Session) Collect(plans []*Plan) ([][]PatternRun, error) {
	// The runs lie between the last comparison of the clocks and this one.
	if err := s.world.SyncClocks(); err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for _, p := range plans {
		if seen[p.number] {
			return nil, fault.New(fault.Script, "collect: %s is there twice", p.label())
		}
		seen[p.number] = true
	}
	data := encodeLogs(plans)
	for _, p := range plans {
		p.log = nil
	}
	all, err := s.world.All().Gather(0, data)
	if err != nil || all == nil {
		return nil, err
	}
	logs := make([][][]logged, len(all)) // by rank, by plan
	for r, data := range all {
		if logs[r], err = decodeLogs(data, plans, r); err != nil {
			return nil, fault.New(fault.KindOf(err), "collect: times from rank %d: %w", r, err).WithHint("%s", fault.HintOf(err))
		}
	}
	runs := make([][]PatternRun, len(plans))
	for i, p := range plans {
		if runs[i], err = s.assemble(p, func(rank int) []logged { return logs[rank][i] }); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// assemble joins the initiators' runs of one plan.
func (s *Session) assemble(p *Plan, log func(rank int) []logged) ([]PatternRun, error) {
	if len(p.initiators) == 0 {
		return nil, nil
	}
	n := len(log(p.initiators[0]))
	runs, exits := make([]PatternRun, n), make([][]exit, n)
	for _, rank := range p.initiators {
		times := log(rank)
		if len(times) != n {
			return nil, fault.New(fault.Script, "%s: rank %d has run it %d times since the last collect, rank %d %d times",
				p.label(), p.initiators[0], n, rank, len(times)).
				WithHint("all initiators of a pattern must run it equally often")
		}
		cells := postOrder(p.initiated(rank), rank, func(c matrix.Cell) int { return c.Peer })
		for k, t := range times {
			runs[k].add(s.rankRun(rank, t.Times, cells))
			exits[k] = append(exits[k], exit{t.Left.Barrier, s.world.ToCommon(rank, t.Left.NS)})
		}
	}
	for k := range runs {
		runs[k].UncertaintyNS = s.world.Uncertainty(p.initiators)
		runs[k].measureSkew(exits[k])
	}
	return runs, nil
}

func (s *Session) rankRun(rank int, t nixl.Times, cells []matrix.Cell) RankRun {
	r := RankRun{
		Rank:    rank,
		StartNS: s.world.ToCommon(rank, t.Start), PostNS: s.world.ToCommon(rank, t.Posted), EndNS: s.world.ToCommon(rank, t.End),
	}
	for i, c := range cells {
		r.Bytes += c.Bytes
		r.Peers = append(r.Peers, PeerRun{Peer: c.Peer, Bytes: c.Bytes, EndNS: s.world.ToCommon(rank, t.Done[i])})
	}
	return r
}

func (r *PatternRun) add(k RankRun) {
	if len(r.Ranks) == 0 {
		r.StartNS, r.EndNS = k.StartNS, k.EndNS
	}
	r.StartNS, r.EndNS = min(r.StartNS, k.StartNS), max(r.EndNS, k.EndNS)
	r.Ranks = append(r.Ranks, k)
}

// Logs travel as varints: the number of plans, for each plan its number and how
// many runs there are, for each run its start, all other stamps as differences to
// it, and the barrier before it with the exit from that.

func encodeLogs(plans []*Plan) []byte {
	b := binary.AppendUvarint(nil, uint64(len(plans)))
	for _, p := range plans {
		b = binary.AppendUvarint(b, uint64(p.number))
		b = binary.AppendUvarint(b, uint64(len(p.log)))
		for _, t := range p.log {
			b = binary.AppendVarint(b, t.Start)
			for _, stamp := range slices.Concat([]int64{t.Posted, t.End}, t.Done) {
				b = binary.AppendVarint(b, stamp-t.Start)
			}
			b = t.Left.encode(b, t.Start)
		}
	}
	return b
}

var (
	errTorn  = errors.New("the list is torn")
	errPlans = fault.New(fault.Script, "it collects other plans").
			WithHint("all ranks must collect the same plans in the same order")
)

func decodeLogs(b []byte, plans []*Plan, rank int) ([][]logged, error) {
	d := decoder{rest: b}
	if d.unsigned() != uint64(len(plans)) {
		return nil, cmp.Or(d.err, error(errPlans))
	}
	logs := make([][]logged, len(plans))
	for i, p := range plans {
		if d.unsigned() != uint64(p.number) {
			return nil, cmp.Or(d.err, error(errPlans))
		}
		peers := len(p.initiated(rank))
		for left := d.unsigned(); left > 0 && d.err == nil; left-- {
			t := d.times(peers)
			logs[i] = append(logs[i], logged{t, d.exit(t.Start)})
		}
	}
	if d.err == nil && len(d.rest) > 0 {
		d.err = errTorn
	}
	return logs, d.err
}

// decoder reads varints until one is torn; from then on all are 0.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) unsigned() uint64 {
	v, n := binary.Uvarint(d.rest)
	return taken(d, v, n)
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.rest)
	return taken(d, v, n)
}

func taken[T int64 | uint64](d *decoder, v T, n int) T {
	if n <= 0 {
		d.rest, d.err = nil, errTorn
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) times(peers int) nixl.Times {
	start := d.signed()
	t := nixl.Times{Start: start, Posted: start + d.signed(), End: start + d.signed(), Done: make([]int64, peers)}
	for k := range t.Done {
		t.Done[k] = start + d.signed()
	}
	return t
}
