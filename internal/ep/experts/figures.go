package experts

import (
	"encoding/binary"
	"fmt"
	"slices"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/pack"
	"perigee/internal/kit/stats"
	"perigee/nixl/device"
	"perigee/spmd"
)

// PlaneFigures sum up the logs of all ranks of one measurement. Times are in microseconds, rates in 1e9 bytes
// per second. They are part of results, under values.ep.
type PlaneFigures struct {
	Mode  string `json:"mode"`
	Entry string `json:"entry"` // steady, fresh or moving

	Ranks      []RankFigures `json:"by_rank"`
	Iterations int           `json:"iterations"` // measured, the first left out where there are two or more
	// Asked is how many were to be measured, as long as not all of them are.
	Asked int `json:"asked_iterations,omitempty"`
	// By iteration, over ranks.
	LeastUS  []float64 `json:"least_us"`
	MedianUS []float64 `json:"median_us"`
	MostUS   []float64 `json:"most_us"`

	Bandwidth Summary `json:"bandwidth_gb_per_s"` // over ranks, of each rank's mean, on the basis of assignments
	Latency   Summary `json:"latency_us"`         // over ranks, of each rank's mean
	Slowest   Tail    `json:"slowest_us"`         // over iterations, of the slowest rank
	Typical   Tail    `json:"typical_us"`         // over iterations, of the median rank
	Fastest   Tail    `json:"fastest_us"`         // over iterations, of the fastest rank

	Bytes  Bases  `json:"bytes_per_rank"` // mean over ranks
	Rate   Rates  `json:"gb_per_s"`       // these over the mean time
	Shares Shares `json:"shares"`

	NICs         []HostNICs `json:"nics"`                // of hosts that have some, over all measured iterations
	BetweenHosts int64      `json:"between_hosts_bytes"` // of the messages of these iterations

	Waits   map[string][][]float64 `json:"waits_us"` // by operation, destination, source: mean of an iteration
	Verdict string                 `json:"verdict"`
	Named   string                 `json:"named"` // what Verdict names, without its size; empty for nothing
}

// Summary is the range of a figure over ranks.
type Summary struct {
	Avg float64 `json:"avg"`
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Tail are quantiles over iterations.
type Tail struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// RankFigures are those of one rank.
type RankFigures struct {
	Rank      int     `json:"rank"`
	Host      string  `json:"host"`
	MeanUS    float64 `json:"mean_us"`
	MinUS     float64 `json:"min_us"`
	MaxUS     float64 `json:"max_us"`
	SendUS    float64 `json:"send_us"` // means of the halves
	RecvUS    float64 `json:"recv_us"`
	WaitUS    float64 `json:"wait_us"` // of the receive half, mean: for the messages of others
	Bytes     int64   `json:"bytes"`   // on the basis of assignments
	Bandwidth float64 `json:"gb_per_s"`
	Tokens    float64 `json:"tokens_per_s"`
}

// Bases are the bytes that one iteration of a rank sends, on four bases.
type Bases struct {
	Assignment float64 `json:"assignment"` // the formula of the NIXL EP tests, own rank included
	Rank       float64 `json:"rank"`       // a payload for each rank that a token visits
	Remote     float64 `json:"remote"`     // a payload for each other rank that a token visits
	Wire       float64 `json:"wire"`       // what is written to other ranks, headers and notices included
}

// Rates are bytes on the same bases over the mean time of an iteration.
type Rates Bases

// Shares are the parts of an iteration in which a rank computes, copies or waits, over the mean time.
type Shares struct {
	Fill   float64 `json:"quantise"` // quantise and write headers
	Stage  float64 `json:"stage"`    // copy messages to where they depart
	Own    float64 `json:"own"`      // copy messages to own experts
	Wait   float64 `json:"wait"`     // for the messages of others
	Pack   float64 `json:"pack"`
	Reduce float64 `json:"reduce"`
}

// encode carries a log to rank 0, but for so many iterations at its beginning: the time of each, and the sums of parts.
func (l *Log) encode(without int) []byte {
	list := l.Iterations[without:]
	b := binary.AppendUvarint(nil, uint64(len(list)))
	var parts [kinds]Part
	for _, it := range list {
		b = binary.AppendVarint(b, it.Total())
		for kind, p := range it.Parts {
			parts[kind].add(p)
		}
	}
	for _, p := range parts {
		for _, v := range p.fields() {
			b = binary.AppendVarint(b, *v)
		}
	}
	for _, waits := range l.Waits {
		for _, v := range slices.Concat(waits[:]...) {
			b = binary.AppendVarint(b, v)
		}
	}
	return appendTraffic(b, l.NICs)
}

// rankPiece is what encode has written.
type rankPiece struct {
	times []int64
	parts [kinds]Part
	waits [kinds][halves][]int64
	nics  device.Traffic
}

// decodePiece reads what encode has written; the number of ranks is known at both ends and not sent.
func decodePiece(message []byte, ranks int) (*rankPiece, error) {
	r := pack.Read(message)
	l := &rankPiece{times: make([]int64, r.Count())}
	for i := range l.times {
		l.times[i] = r.Signed()
	}
	for kind := range l.parts {
		for _, v := range l.parts[kind].fields() {
			*v = r.Signed()
		}
	}
	for kind := range l.waits {
		for half := range halves {
			l.waits[kind][half] = make([]int64, ranks)
			for source := range ranks {
				l.waits[kind][half][source] = r.Signed()
			}
		}
	}
	l.nics = device.Traffic{Names: r.Texts(), Sent: r.Signed(), Received: r.Signed()}
	return l, r.End("log of iterations")
}

// gather brings the logs of all ranks, but for so many iterations at their beginning, to rank 0, adds them to what it
// keeps of a measurement, and works out the figures of all played iterations there. Elsewhere it returns nil. Waits and
// NICs of a log are those of all iterations so far.
func (p *Plane) gather(t *tally, log *Log, without, played int) (*PlaneFigures, error) {
	messages, err := p.world.All().Gather(0, log.encode(without))
	if err != nil || p.me != 0 {
		return nil, err
	}
	pieces := make([]*rankPiece, len(messages))
	for rank, message := range messages {
		if pieces[rank], err = decodePiece(message, len(messages)); err != nil {
			return nil, fmt.Errorf("what rank %d has measured: %w", rank, err)
		}
	}
	if err := t.add(pieces); err != nil {
		return nil, err
	}
	if t.census == nil {
		t.census = p.spec.Census()
		if t.between, err = p.betweenHosts(t.mode); err != nil {
			return nil, err
		}
	}
	hosts := make([]string, len(messages))
	for rank := range hosts {
		hosts[rank] = p.world.HostName(rank)
	}
	f := t.figures(hosts, played)
	p.doubt(t.mode, t.entry, f)
	p.slower(t.mode, t.entry, f, p.world.Hosts())
	f.count(t.mode, p.spec, t.census)
	f.NICs = hostNICs(pieces, hosts)
	f.BetweenHosts = t.between * int64(played)
	return f, nil
}

// doubt says so where steady iterations show what fresh ones before them did not: a rank that was held up for a while,
// as it happens, or where one pair is slow a rank that has no part in it, since waits pass on between iterations.
func (p *Plane) doubt(mode Mode, entry Entry, f *PlaneFigures) {
	switch named, known := p.named[mode]; {
	case entry == Fresh && p.named == nil:
		p.named = map[Mode]string{mode: f.Named}
	case entry == Fresh:
		p.named[mode] = f.Named
	case entry == Steady && known && f.Named != "" && f.Named != named:
		f.Verdict += "; fresh iterations did not show that, so it may be chance, or passed on from one iteration to the next"
		f.Named = ""
	}
}

// slower says so where steady iterations take far longer than fresh ones before them on hosts with fewer CPUs than
// ranks. It gives no reason elsewhere: one may be in the fabric.
func (p *Plane) slower(mode Mode, entry Entry, f *PlaneFigures, hosts []spmd.Host) {
	const far = 1.3
	switch fresh := p.fresh[mode]; {
	case entry == Fresh && p.fresh == nil:
		p.fresh = map[Mode]float64{mode: f.Latency.Avg}
	case entry == Fresh:
		p.fresh[mode] = f.Latency.Avg
	case entry == Steady && fresh > 0 && f.Latency.Avg > far*fresh:
		for _, h := range hosts {
			if short, _ := h.Short(); short != "" {
				f.Verdict += fmt.Sprintf("; steady iterations took %.1f times as long as fresh ones: %s, and ranks that "+
					"poll for messages keep others from a CPU until they meet at a barrier", f.Latency.Avg/fresh, short)
				return
			}
		}
	}
}

func summarize(ranks []RankFigures, value func(RankFigures) float64) Summary {
	var list []float64
	for _, r := range ranks {
		list = append(list, value(r))
	}
	return Summary{stats.Mean(list), slices.Min(list), slices.Max(list)}
}

func microseconds(ns int64) float64 { return float64(ns) / 1e3 }

// count adds bytes and rates.
func (f *PlaneFigures) count(mode Mode, s Spec, census *moe.Census) {
	hidden, payload := s.Selection.Hidden, s.Payload.TokenBytes(s.Selection.Hidden)
	row, tokens := 2*int64(hidden), float64(s.Selection.Tokens)
	n := float64(len(f.Ranks))
	notices := float64((s.Selection.Ranks - 1) * len(notice(dispatching, 0, 0, make([]uint32, s.Placement.PerRank))))
	for rank, c := range census.Sources {
		var b Bases
		r := &f.Ranks[rank]
		if mode.has(dispatching) {
			r.Bytes += moe.DispatchBytes(c.Assignments, hidden, s.Payload)
			b.add(c.Copies*payload, c.RemoteCopies*payload, float64(c.Remote*(payload+moe.HeaderBytes))+notices)
		}
		if mode.has(combining) {
			// Rows go the other way: a rank sends as many as it has received messages.
			r.Bytes += moe.CombineBytes(c.Assignments, hidden)
			b.add(c.Copies*row, c.RemoteCopies*row, float64((census.Received[rank]-local(census, rank))*row)+notices)
		}
		r.Bandwidth, r.Tokens = rate(float64(r.Bytes), r.MeanUS), tokens/(r.MeanUS*1e-6)
		f.Bytes.Assignment += float64(r.Bytes) / n
		f.Bytes.Rank, f.Bytes.Remote, f.Bytes.Wire = f.Bytes.Rank+b.Rank/n, f.Bytes.Remote+b.Remote/n,
			f.Bytes.Wire+b.Wire/n
	}
	f.Bandwidth = summarize(f.Ranks, func(r RankFigures) float64 { return r.Bandwidth })
	mean := f.Latency.Avg
	f.Rate = Rates{rate(f.Bytes.Assignment, mean), rate(f.Bytes.Rank, mean), rate(f.Bytes.Remote, mean),
		rate(f.Bytes.Wire, mean)}
}

func local(c *moe.Census, rank int) int64 {
	return c.Sources[rank].Assignments - c.Sources[rank].Remote
}

func (b *Bases) add(copies, remote int64, wire float64) {
	b.Rank, b.Remote, b.Wire = b.Rank+float64(copies), b.Remote+float64(remote), b.Wire+wire
}

// rate returns GB/s; no time is no rate.
func rate(bytes, us float64) float64 {
	if us <= 0 {
		return 0
	}
	return bytes / 1e3 / us
}

// wait fills the wait matrices, means of so many iterations, and the verdict.
func (f *PlaneFigures) wait(mode Mode, ranks []*rankPiece, played int, hosts []string) {
	for kind, name := range kindNames {
		if !mode.has(kind) {
			continue
		}
		rows := make([][]float64, len(ranks))
		var parts [halves][][]float64
		for destination, l := range ranks {
			rows[destination] = make([]float64, len(ranks))
			for half, waits := range l.waits[kind] {
				parts[half] = append(parts[half], make([]float64, len(ranks)))
				for source, ns := range waits {
					us := microseconds(ns) / float64(played)
					rows[destination][source] += us
					parts[half][destination][source] = us * halves
				}
			}
		}
		f.Waits[name] = rows
		if f.Verdict == "" {
			f.Verdict, f.Named = verdict(name, rows, parts[:], hosts, f.Latency.Avg)
		}
	}
	if f.Verdict == "" {
		f.Verdict = "no rank, no host and no pair of them was waited for much more than the others"
		if len(ranks) < fewest {
			f.Verdict = fmt.Sprintf("too few ranks to find out which one others wait for; it takes %d", fewest)
		}
	}
}
