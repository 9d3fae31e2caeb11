package parity

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/size"
)

// Reading is what one engine or exporter showed, after the transfers and, if known, before.
type Reading struct {
	After  *Text
	Before *Text // may be nil: then all began at 0
}

// rise says by how much the samples of a counter rose.
type rise struct {
	Counter
	samples []sample
	sum     float64 // of all, in the counter's unit
	gauge   bool
	anew    string // which sample is smaller than before, or gone; empty: none
}

// rises returns what the readings have of a counter; nil without a sample. A new sample counts from 0.
func (c Counter) rises(readings []Reading) (*rise, error) {
	r := &rise{Counter: c}
	for i, reading := range readings {
		after, gauge, err := reading.After.samples(c.Name)
		if err != nil {
			return nil, err
		}
		var before []sample
		if reading.Before != nil {
			if before, _, err = reading.Before.samples(c.Name); err != nil {
				return nil, err
			}
		}
		r.gauge = r.gauge || gauge
		r.subtract(i, after, before)
	}
	if r.samples == nil && r.anew == "" {
		return nil, nil
	}
	return r, nil
}

// subtract adds the samples of reading i, less what each was before.
func (r *rise) subtract(i int, after, before []sample) {
	was := map[string]float64{}
	for _, s := range before {
		was[s.name] = s.value
	}
	for _, s := range after {
		if s.value < was[s.name] && r.anew == "" {
			r.anew = fmt.Sprintf("%s is %.0f, and was %.0f before", s.name, s.value, was[s.name])
		}
		s.value -= was[s.name]
		delete(was, s.name)
		s.engine = fmt.Sprint(i, " ", s.engine)
		r.samples, r.sum = append(r.samples, s), r.sum+s.value
	}
	for _, s := range before {
		if was[s.name] > 0 && r.anew == "" {
			r.anew = s.name + " is gone"
		}
	}
}

// choose returns the counter to go by, and notes about others that are there. Without a name it is that of the first
// source in [Counters] that has any, and of its counters the one that rose most: NIXL's two are of both directions. A
// text without one is an error of the kind Input.
func choose(readings []Reading, metric *Counter) (*rise, []string, error) {
	known := Counters
	if metric != nil {
		known = []Counter{*metric}
	}
	var best *rise
	var others []string
	for _, c := range known {
		r, err := c.rises(readings)
		switch {
		case err != nil:
			return nil, nil, err
		case r == nil:
			continue
		case best == nil:
			best = r
			continue
		case r.Source == best.Source && r.sum > best.sum:
			best, r = r, best
		}
		others = append(others, fmt.Sprintf("%s is not counted: it rose by %s", r.Name, size.Decimal(r.sum*r.Unit)))
	}
	if best != nil {
		return best, others, nil
	}
	var sources []string
	for _, r := range readings {
		sources = append(sources, r.After.Source)
	}
	in := strings.Join(sources, ", ")
	if metric != nil {
		return nil, nil, fault.New(fault.Input, "%s: there is no sample of %s", in, metric.Name).
			WithHint("%s", kvNames(readings))
	}
	return nil, nil, fault.New(fault.Input, "%s: there is no known counter of moved KV caches", in).
		WithHint("known are %s; --metric NAME takes another, with its unit as in NAME:MiB unless it counts bytes", KnownNames())
}

// kvNames says which names in the texts may be meant.
func kvNames(readings []Reading) string {
	var names []string
	for _, r := range readings {
		names = append(names, r.After.names(func(name string) bool {
			name = strings.ToLower(name)
			return strings.Contains(name, "byte") || strings.Contains(name, "transfer")
		})...)
	}
	const most = 20
	slices.Sort(names)
	switch names = slices.Compact(names); {
	case names == nil:
		return "known are " + KnownNames()
	case len(names) > most:
		names = append(names[:most], "...")
	}
	return "names with bytes or transfer in them there: " + strings.Join(names, ", ")
}

// dropped returns how many events NIXL's exporters lost, by whatever name their version has for it.
func dropped(readings []Reading) (events float64, err error) {
	for _, r := range readings {
		for _, name := range r.After.names(func(name string) bool {
			return strings.HasPrefix(name, "agent_") && strings.Contains(name, "dropped")
		}) {
			lost, err := Counter{Name: name, Unit: 1}.rises([]Reading{r})
			if err != nil {
				return 0, err
			}
			if lost != nil {
				events += math.Max(lost.sum, 0)
			}
		}
	}
	return events, nil
}

// bytes adds up what the samples rose by. Where TP ranks of an engine have the same, they repeat its sum and count
// once; but not if all of them together are no more than what is kept: then each has counted the heads that it sends.
func (r *rise) bytes(kept float64) (bytes float64, notes []string) {
	all := r.sum * r.Unit
	if !r.ranks {
		return all, nil
	}
	engines, ranked := map[string][]float64{}, false
	for _, s := range r.samples {
		engines[s.engine] = append(engines[s.engine], s.value)
		ranked = ranked || s.rank
	}
	ranks := 0 // of the engines whose ranks have the same
	for _, values := range engines {
		if same(values) {
			ranks = max(ranks, len(values))
			values = values[:1]
		}
		for _, v := range values {
			bytes += v * r.Unit
		}
	}
	switch {
	case ranks > 1 && all > 0 && all <= kept*(1+tolerance):
		notes = append(notes, fmt.Sprintf("the %d TP ranks of an engine have the same, together no more than the caches: "+
			"added up, as each rank counts the heads that it sends", ranks))
		bytes = all
	case ranks > 1 && all > 0:
		notes = append(notes, fmt.Sprintf("the %d TP ranks of an engine have the same: counted once, as repeating its sum; "+
			"if each counts what it sends itself, it is %s", ranks, size.Decimal(all)))
	case ranks == 1 && ranked && bytes < kept*(1-tolerance):
		notes = append(notes, "of each engine one TP rank has a sample, and it may count only what it sends itself: "+
			"SGLang shows all ranks with --enable-metrics-for-all-schedulers")
	}
	return bytes, notes
}

// same reports whether all values are equal. Sums of the same numbers in another order differ a little.
func same(values []float64) bool {
	return slices.Max(values)-slices.Min(values) <= 1e-9*slices.Max(values)
}
