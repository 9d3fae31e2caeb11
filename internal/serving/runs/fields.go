package runs

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/value"
	"perigee/internal/serving"
)

// reader takes values out of a document. Its first error stays; what is read
// after it means nothing.
type reader struct {
	err    error
	failed bool // no request was answered: figures may be missing
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// get returns the value of a key, nil if it is missing or null.
func (r *reader) get(v *conf.Value, key string) *conf.Value {
	if v == nil {
		return nil
	}
	if v.Kind != conf.Map {
		r.fail(v.Errorf("wanted a map, got %s", v.Kind))
		return nil
	}
	child := v.Get(key)
	if child == nil || child.Kind == conf.Null {
		return nil
	}
	return child
}

// dig is get for a way of several keys.
func (r *reader) dig(v *conf.Value, keys ...string) *conf.Value {
	for _, key := range keys {
		v = r.get(v, key)
	}
	return v
}

// need is get for a key that must be there.
func (r *reader) need(v *conf.Value, key string) *conf.Value {
	child := r.get(v, key)
	if child == nil && v != nil && r.err == nil {
		r.fail(v.Errorf("the key %s is missing", key))
	}
	return child
}

// text returns the text that v holds, "" for nil.
func (r *reader) text(v *conf.Value) string {
	if v != nil && v.Kind != conf.String {
		r.fail(v.Errorf("wanted text, got %s", v.Kind))
	}
	return v.Text()
}

// list returns the elements of v, none for nil.
func (r *reader) list(v *conf.Value) []*conf.Value {
	if v != nil && v.Kind != conf.List {
		r.fail(v.Errorf("wanted a list, got %s", v.Kind))
	}
	return v.List()
}

// number returns a number of at least 0, NaN for nil. Text that is a number is
// one, as the reports' own library has it. What is not finite is unknown: a
// mean over no requests is written as NaN.
func (r *reader) number(v *conf.Value) float64 {
	x, ok := asNumber(v)
	switch {
	case v == nil:
		return math.NaN()
	case !ok:
		r.fail(v.Errorf("wanted a number, got %s", shown(v)))
	case x < 0:
		r.fail(v.Errorf("wanted 0 or more, got %v", x))
	case math.IsInf(x, 0):
		return math.NaN()
	}
	return x
}

// whole returns a whole number between least and a million, NaN for nil.
func (r *reader) whole(v *conf.Value, least float64) float64 {
	x := r.number(v)
	if v == nil || r.err != nil {
		return x
	}
	f := value.Whole(int64(least), 1e6)
	if _, ok := f.Take(x); !ok {
		r.fail(v.Errorf("wanted %s, got %s", f.Wanted(), shown(v)))
	}
	return x
}

// asNumber returns the number that a value holds or, as text, says.
func asNumber(v *conf.Value) (float64, bool) {
	if v == nil {
		return 0, false
	}
	switch v.Kind {
	case conf.Int, conf.Float:
		return v.Float(), true
	case conf.String:
		x, err := strconv.ParseFloat(strings.TrimSpace(v.Text()), 64)
		return x, err == nil && !strings.ContainsAny(v.Text(), "xXpP_")
	}
	return 0, false
}

// shown is a value as messages show it.
func shown(v *conf.Value) string {
	switch v.Kind {
	case conf.List, conf.Map, conf.Null:
		return v.Kind.String()
	case conf.String:
		const most = 60
		return strconv.Quote(v.Text()[:min(len(v.Text()), most)])
	case conf.Bool:
		return strconv.FormatBool(v.Bool())
	}
	return strconv.FormatFloat(v.Float(), 'g', -1, 64)
}

// units maps the units that a quantity may have to what makes the common unit
// of them.
type units map[string]float64

var (
	timeUnits    = units{"ms": 1, "s": 1000}
	perToken     = units{"ms/token": 1, "s/token": 1000}
	lengthUnits  = units{"count": 1}
	tokenRates   = units{"tokens/s": 1}
	requestRates = units{"queries/s": 1}
)

func (u units) names() string {
	return strings.Join(slices.Sorted(maps.Keys(u)), " or ")
}

// statisticKeys are the spellings of the statistics: those of today and those of
// the first reports, which have the same version number.
var statisticKeys = [Statistics][]string{
	Mean: {"mean"}, StdDev: {"stddev"}, Min: {"min"}, Max: {"max"},
	P0p1: {"p0p1", "p001"}, P1: {"p1", "p01"}, P5: {"p5", "p05"}, P10: {"p10"},
	P25: {"p25"}, P50: {"p50", "median"}, P75: {"p75"}, P90: {"p90"}, P95: {"p95"},
	P99: {"p99"}, P99p9: {"p99p9", "p999"},
}

// stats reads the statistics of a quantity in the common unit. Units and mean
// are required; nil gives no statistics.
func (r *reader) stats(v *conf.Value, allowed units) serving.Latency {
	l := serving.NoLatency()
	if v == nil {
		return l
	}
	factor := r.unit(v, allowed)
	r.mean(v)
	for i, keys := range statisticKeys {
		for _, key := range keys {
			if x := r.get(v, key); x != nil {
				setStat(&l, Statistic(i), r.number(x)*factor)
				break
			}
		}
	}
	return l
}

// mean demands the mean of a quantity, which may be NaN but not missing.
func (r *reader) mean(v *conf.Value) { r.figure(v, "mean") }

// figure is need for what a run of which all requests failed does not have.
func (r *reader) figure(v *conf.Value, key string) *conf.Value {
	if r.failed {
		return r.get(v, key)
	}
	return r.need(v, key)
}

// counts reads the numbers of requests.
func (r *reader) counts(to *Record, requests *conf.Value) {
	to.Requests = r.number(r.get(requests, "total"))
	to.Failed = r.number(r.get(requests, "failures"))
	to.Unended = r.number(r.get(requests, "incomplete"))
	r.failed = to.failed()
}

// unit returns what a quantity's numbers are to be multiplied by.
func (r *reader) unit(v *conf.Value, allowed units) float64 {
	u := r.need(v, "units")
	factor, ok := allowed[r.text(u)]
	if !ok && u != nil {
		r.fail(u.Errorf("wanted the unit %s, got %s", allowed.names(), shown(u)))
	}
	return factor
}

// length reads the mean length of requests in tokens, and whether it shows that all have the same. Lengths in pixels
// are legal, but they are no tokens.
func (r *reader) length(v *conf.Value) (mean float64, same bool) {
	if v != nil && r.text(r.get(v, "units")) == "pixels" {
		r.mean(v)
		return math.NaN(), false
	}
	s := r.stats(v, lengthUnits)
	return s.Mean, s.Min == s.Max || s.Std == 0
}

// latencyKeys are the names of the latencies, which all versions share.
var latencyKeys = [Latencies]struct {
	key   string
	units units
}{
	TTFT:  {"time_to_first_token", timeUnits},
	TPOT:  {"time_per_output_token", perToken},
	ITL:   {"inter_token_latency", perToken},
	E2EL:  {"request_latency", timeUnits},
	NTPOT: {"normalized_time_per_output_token", perToken},
}

func (r *reader) latencies(to *Record, v *conf.Value) {
	for l, k := range latencyKeys {
		if figures := r.get(v, k.key); figures != nil {
			to.Latency[latencyNames[l]] = r.stats(figures, k.units)
		}
	}
}

// oneOf demands one of some words.
func (r *reader) oneOf(v *conf.Value, words ...string) string {
	text := r.text(v)
	for _, w := range words {
		if text == w {
			return text
		}
	}
	if v != nil {
		r.fail(v.Errorf("wanted one of %s, got %s%s", strings.Join(words, ", "), shown(v),
			value.Suggestion(text, words)))
	}
	return ""
}

// parallelism reads the degrees of parallelism of a host; each is 1 if it is not
// given.
func (r *reader) parallelism(h *Host, v *conf.Value, least float64) {
	for _, p := range []struct {
		key string
		to  *float64
	}{{"tp", &h.TP}, {"dp", &h.DP}, {"pp", &h.PP}, {"ep", &h.EP}} {
		*p.to = 1
		if x := r.get(v, p.key); x != nil {
			*p.to = r.whole(x, least)
		}
	}
}
