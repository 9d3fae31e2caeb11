package replay

import (
	"fmt"
	"slices"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/size"
	"perigee/internal/model"
	"perigee/internal/trace"
)

// notes says what users must know of the schedule.
func (m *maker) notes() {
	note := func(format string, args ...any) { m.Notes = append(m.Notes, fmt.Sprintf(format, args...)) }
	period := time.Duration(float64(m.Grid) / m.SpeedUp)
	requests, bytes := m.largestTick()
	switch {
	case m.Spread:
		note("requests are spread over the ticks of the trace's grid of %v, drawn with seed %d: they are not due when the trace "+
			"says", m.Grid, m.Seed)
	case requests > 1:
		note("the trace's timestamps stand on a grid of %v, and are replayed so: %s (%s) come at once in the fullest tick; "+
			"--spread draws their times from the tick, which makes that %s over %v", m.Grid, cli.Count(requests, "request"),
			size.Decimal(bytes), size.Rate(float64(bytes)/period.Seconds()), period)
	}
	if last := m.Requests[len(m.Requests)-1].ArrivalNS; m.FLOPS > 0 && last > 0 {
		if busy := m.busy / m.SpeedUp / float64(m.Prefill.N) / float64(last); busy > 1 {
			note("prefill workers would be busy %.0f %% of the time: their queues grow; --prefill can have more workers", 100*busy)
		}
	}
	if m.FLOPS == 0 && m.Routing != RoundRobin {
		note("routing takes prefill for as long as it is at %g operations per second of a GPU; --flops says another number",
			float64(model.PrefillFLOPS))
	}
	if m.Model.Model.Hidden == 0 && (m.FLOPS > 0 || m.Routing != RoundRobin) {
		note("the model's file does not say its hidden size, which decides how long prefill takes: %d is assumed, that of all "+
			"query heads", m.Model.Model.HiddenSize())
	}
	hasIDs := func(r trace.Request) bool { return r.HashIDs != nil }
	if m.BlockTokens == 0 && slices.ContainsFunc(m.trace.Requests, hasIDs) {
		note("prefill computes every prompt as a whole: --block-size says the tokens of a hash id, which the trace does not")
	}
	m.Notes = append(m.Notes, m.move().Notes(m.Model.Model)...)
	if m.From > 0 && (m.Moved == Missing || m.Routing == PrefixAware) {
		note("caches are empty at --from %v: what came before is not in them", m.From)
	}
}

// largestTick returns the requests and the bytes of the tick of the grid that has the most bytes.
func (m *maker) largestTick() (requests int, bytes int64) {
	if m.Grid == 0 {
		return 0, 0
	}
	last, n, sum := int64(-1), 0, int64(0)
	for _, r := range m.Requests {
		if tick := m.grid.Tick(m.trace.Requests[r.Index].At); tick != last {
			last, n, sum = tick, 0, 0
		}
		n, sum = n+1, sum+r.Bytes
		if sum > bytes {
			requests, bytes = n, sum
		}
	}
	return requests, bytes
}
