package figures

import (
	"math"
	"slices"

	"perigee/internal/kit/fault"
	"perigee/internal/model"
	"perigee/internal/trace"
	"perigee/internal/trace/grid"
)

// offered is the load of the requests' caches, with the copies that decode ranks receive. hits are tokens of each
// request that need not move, or nil.
func offered(requests []trace.Request, hits []int64, ticks grid.Grid, o Options) (*Load, error) {
	c := o.Cache
	l := &Load{
		CacheDType: c.DType.Name, CacheDTypeBy: c.DTypeBy, StateDType: c.State, StateDTypeBy: c.StateBy,
		DecodeRanks: o.Move.To, Copies: o.Move.Text(c.Model), Notes: o.Move.Notes(c.Model),
	}
	if c.Serving != model.Exact {
		l.Serving, l.Block, l.BlockBy = string(c.Serving), c.Block, c.BlockBy
	}
	span := seconds(requests[len(requests)-1].At)
	none := make([]int64, len(requests))
	bytes, err := bytesOf(requests, none, o)
	if err != nil {
		return nil, err
	}
	l.Prompt = rate(bytes, span)
	if hits != nil {
		missing, err := bytesOf(requests, hits, o)
		if err != nil {
			return nil, err
		}
		l.Miss = new(rate(missing, span))
	}
	sized := slices.Clone(requests)
	for i := range sized {
		sized[i].Input = bytes[i] // so that they are summed as tokens are
	}
	for _, w := range windows(sized) {
		gb := float64(w.Tokens) / 1e9
		l.Windows = append(l.Windows, ByteWindow{w.LengthS, w.StartS, w.Tokens, gb / w.LengthS, w.PeakToMean})
	}
	if o.Link != nil {
		l.Fit = fit(sized, o.Link)
	}
	if ticks.Period > 0 {
		l.MaxTick = slices.Max(sums(sized, ticks.Tick, input))
	}
	return l, nil
}

// bytesOf are those of each request's cache without its first tokens.
func bytesOf(requests []trace.Request, without []int64, o Options) ([]int64, error) {
	list, all := make([]int64, len(requests)), int64(0)
	for i, r := range requests {
		n, ok := o.Move.Bytes(o.Cache, without[i], r.Input)
		if !ok || n > math.MaxInt64-all {
			return nil, fault.New(fault.Input,
				"the caches that %s keeps of the requests up to line %d do not fit 63 bits", o.Cache.Model.Name, r.Line)
		}
		list[i], all = n, all+n
	}
	return list, nil
}

// rate is a load over a time in seconds.
func rate(bytes []int64, span float64) (o Offered) {
	for _, n := range bytes {
		o.Bytes += n
	}
	if span > 0 {
		o.GBPerS = new(float64(o.Bytes) / span / 1e9)
	}
	return o
}
