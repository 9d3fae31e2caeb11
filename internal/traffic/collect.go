package traffic

import (
	"errors"

	"perigee/internal/fault"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/series"
)

// Collect gathers at rank 0 the recorded runs of plans since the last Collect:
// one list of runs per plan. The other ranks get nil. All ranks call it with
// the same plans, each of them once.
func (s *Session) Collect(plans []*Plan) ([][]series.Run, error) {
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
	logs, err := s.gather(plans)
	if err != nil || logs == nil {
		return nil, err
	}
	runs := make([][]series.Run, len(plans))
	for i, p := range plans {
		if runs[i], err = s.assemble(p, func(rank int) []series.Logged { return logs[rank][i] }); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// gather takes the plans' logs to rank 0: by rank, by plan. The other ranks get nil.
func (s *Session) gather(plans []*Plan) ([][][]series.Logged, error) {
	mine := make([]series.Log, len(plans))
	for i, p := range plans {
		mine[i] = series.Log{Plan: p.number, Runs: p.log}
		p.log = nil
	}
	all, err := s.world.All().Gather(0, series.EncodeLogs(mine))
	if err != nil || all == nil {
		return nil, err
	}
	logs := make([][][]series.Logged, len(all))
	for r, data := range all {
		if logs[r], err = series.DecodeLogs(data, shapes(plans, r)); err != nil {
			return nil, foreign(r, err)
		}
	}
	return logs, nil
}

func shapes(plans []*Plan, rank int) []series.Shape {
	list := make([]series.Shape, len(plans))
	for i, p := range plans {
		list[i] = series.Shape{Plan: p.number, Transfers: len(p.initiated(rank))}
	}
	return list
}

// foreign words an error in what a rank has sent.
func foreign(rank int, err error) error {
	if errors.Is(err, series.ErrPlans) {
		return fault.New(fault.Script, "collect: times from rank %d: %w", rank, err).
			WithHint("all ranks must collect the same plans in the same order")
	}
	return fault.New(fault.Internal, "collect: times from rank %d: %w", rank, err)
}

// assemble joins the initiators' runs of one plan.
func (s *Session) assemble(p *Plan, log func(rank int) []series.Logged) ([]series.Run, error) {
	if len(p.initiators) == 0 {
		return nil, nil
	}
	n := len(log(p.initiators[0]))
	runs, exits := make([]series.Run, n), make([][]series.Exit, n)
	for _, rank := range p.initiators {
		times := log(rank)
		if len(times) != n {
			return nil, fault.New(fault.Script, "%s: rank %d has run it %d times since the last collect, rank %d %d times",
				p.label(), p.initiators[0], n, rank, len(times)).
				WithHint("all initiators of a pattern must run it equally often")
		}
		cells := postOrder(p.initiated(rank), rank, func(c matrix.Cell) int { return c.Peer })
		for k, t := range times {
			runs[k].Add(s.rankRun(rank, t.Stamps, cells))
			exits[k] = append(exits[k], series.Exit{Barrier: t.Left.Barrier, NS: s.world.ToCommon(rank, t.Left.NS)})
		}
	}
	for k := range runs {
		runs[k].UncertaintyNS = s.world.Uncertainty(p.initiators)
		runs[k].BarrierExitSkewNS = series.Skew(exits[k])
	}
	return runs, nil
}

func (s *Session) rankRun(rank int, t series.Stamps, cells []matrix.Cell) series.RankRun {
	r := series.RankRun{
		Rank:    rank,
		StartNS: s.world.ToCommon(rank, t.Start), PostNS: s.world.ToCommon(rank, t.Posted), EndNS: s.world.ToCommon(rank, t.End),
	}
	for i, c := range cells {
		r.Bytes += c.Bytes
		r.Peers = append(r.Peers, series.PeerRun{Peer: c.Peer, Bytes: c.Bytes, EndNS: s.world.ToCommon(rank, t.Done[i])})
	}
	return r
}
