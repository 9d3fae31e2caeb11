package serving

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The tolerances. Ratios are of what figures say to the bound that they break.
const (
	general = 1.25 // of in-flight requests, of means to percentiles, and of rates
	sums    = 1.5  // of E2EL to the sum of its parts, and of a closed loop to its requests
	steady  = 3    // of the sum to E2EL, where not lengths, but times are known to be about the same for all requests
	client  = 1    // s that a client takes besides, to begin and to end
	tail    = 250  // ms between the last token of an answer and its end
	exact   = 0.05 // share of an output rate that the client itself has divided
	span    = 1.05 // of a request's time to the benchmark's
	rounded = 1.01 // of figures that are compared as they stand: JSON has more digits of one than of another
	chunk   = 16   // tokens that servers send at once though a client asks for each
	unseen  = 5e-3 // ms for a token, which two digits show as 0
	pieces  = 250  // of the time between tokens to that for one: servers send up to 100 at a time
	gaps    = 2    // of the time after the first token to that between tokens
	seen    = 0.4  // share of tokens in the text: of special tokens, which no text shows, honest logs have half
	likely  = 0.8  // the same, below which tokens may not have come
)

// checker holds the state of Check.
type checker struct {
	Run
	ms, rate float64 // half a unit of the last digit of latencies, and of rates and the duration
	osl      float64 // mean output length
	found    []Violation
}

func given(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func (c *checker) broken(law, format string, args ...any) {
	c.found = append(c.found, Violation{law, fmt.Sprintf(format, args...)})
}

// half is half a unit of the last digit that any of the figures shows.
func half(figures []float64) float64 {
	digits := 0
	for _, x := range figures {
		if given(x) {
			_, behind, _ := strings.Cut(strconv.FormatFloat(x, 'f', -1, 64), ".")
			digits = max(digits, len(behind))
		}
	}
	return math.Pow(10, -float64(digits)) / 2
}

func (f Run) roundingMS() float64 {
	var all []float64
	for _, l := range f.Latency {
		all = append(all, l.Mean, l.Min, l.Max)
		all = slices.AppendSeq(all, maps.Values(l.Percentiles))
	}
	return half(all)
}

func (f Run) roundingRate() float64 {
	return half([]float64{f.Duration, f.RequestRate, f.InputRate, f.OutputRate, f.TotalRate})
}

// around is half a unit of the last digit of a rate or the duration. Clients print all alike, but some files have one
// with two digits and others with more.
func (c *checker) around(x float64) float64 { return max(c.rate, min(0.005, half([]float64{x}))) }

// aroundMS is the same of a latency.
func (c *checker) aroundMS(x float64) float64 { return max(c.ms, min(0.005, half([]float64{x}))) }

// noLatency is a quantity of which nothing is known.
var noLatency = Latency{Mean: math.NaN(), Min: math.NaN(), Max: math.NaN(), Std: math.NaN()}

// statistic is a figure of a latency with its name and its place between the least (0) and the greatest (1).
type statistic struct {
	name  string
	at    float64
	value float64
}

// ranks lists what is known of a latency except its mean, from the least to the greatest.
func (l Latency) ranks() (list []statistic) {
	add := func(name string, at, value float64) {
		if given(value) {
			list = append(list, statistic{name, at, value})
		}
	}
	add("Min", 0, l.Min)
	for _, percent := range slices.Sorted(maps.Keys(l.Percentiles)) {
		name := fmt.Sprintf("P%g", percent)
		if percent == 50 {
			name = "Median"
		}
		add(name, percent/100, l.Percentiles[percent])
	}
	add("Max", 1, l.Max)
	return list
}

// mean returns the mean of a quantity, NaN where it is not given.
func (c *checker) mean(quantity string) float64 {
	if mean := c.Latency[quantity].Mean; given(mean) {
		return mean
	}
	return math.NaN()
}

// greatest returns the most that a quantity can be of any request, which is no bound that a percentile gives: the
// maximum, or else the mean and sqrt(n - 1) standard deviations (Samuelson's inequality), or the sum over all requests.
// NaN stands for unknown.
func (c *checker) greatest(quantity string) float64 {
	l := c.Latency[quantity]
	if given(l.Max) {
		return l.Max
	}
	mean := c.mean(quantity) + c.ms
	most := mean * c.Completed
	if given(l.Std) && l.Std > 0 {
		most = min(most, mean+(l.Std+c.ms)*math.Sqrt(max(0, c.Completed-1)))
	}
	return most
}

// statistics lists the mean, if it is known, and the ranks.
func (l Latency) statistics() (list []statistic) {
	if given(l.Mean) {
		list = append(list, statistic{"Mean", math.NaN(), l.Mean})
	}
	return append(list, l.ranks()...)
}

func names(list []statistic) string {
	var all []string
	for _, s := range list {
		all = append(all, s.name)
	}
	return strings.Join(all, ", ")
}

// signs refuses what is below 0. Like what took 0 ms, it counts as not given from there on: one cause, one reason.
func (c *checker) signs() {
	for _, x := range []struct {
		name  string
		value *float64
	}{
		{"the concurrency", &c.Concurrency}, {"the number of requests", &c.Requests},
		{"the number of completed requests", &c.Completed}, {"the number of failed requests", &c.Failed},
		{"the duration", &c.Duration}, {"the number of input tokens", &c.InputTokens},
		{"the number of output tokens", &c.OutputTokens}, {"the request throughput", &c.RequestRate},
		{"the input token throughput", &c.InputRate}, {"the output token throughput", &c.OutputRate},
		{"the total token throughput", &c.TotalRate},
	} {
		if *x.value < 0 {
			c.broken(Sign, "%s is %.8g", x.name, *x.value)
			*x.value = math.NaN()
		}
	}
	for _, q := range quantities {
		list := c.Latency[q].statistics()
		if i := slices.IndexFunc(list, func(s statistic) bool { return s.value < 0 }); i >= 0 {
			c.broken(Sign, "%s %s is %.8g ms", list[i].name, q, list[i].value)
			c.Latency[q] = noLatency
		}
	}
}

func (c *checker) counts() {
	switch {
	case c.Completed > c.Requests:
		c.broken(Counts, "%.8g of %.8g requests succeeded", c.Completed, c.Requests)
	case c.Completed+c.Failed > c.Requests:
		c.broken(Counts, "%.8g requests succeeded and %.8g failed, of %.8g", c.Completed, c.Failed, c.Requests)
	}
}

// order compares the percentiles of a quantity with each other and with the mean. Of latencies, which are not
// negative, at least a share of 1 - p are no less than the percentile p: that bounds the mean from below.
func (c *checker) order(quantity string) {
	l := c.Latency[quantity]
	list := l.ranks()
	least, at := 0.0, 1.0
	for i, s := range list {
		if i > 0 && list[i-1].value > s.value*rounded+2*c.aroundMS(s.value) {
			c.broken(Order, "%s %s %.8g ms is above the %s, %.8g ms", list[i-1].name, quantity, list[i-1].value, s.name,
				s.value)
			return
		}
	}
	for _, s := range slices.Backward(list) {
		least += (at - s.at) * s.value
		at = s.at
	}
	switch {
	case !given(l.Mean) || l.Mean < 0:
	case l.Mean*rounded+2*c.ms < l.Min:
		c.broken(Order, "Mean %s %.8g ms is below the Min, %.8g ms", quantity, l.Mean, l.Min)
	case l.Mean > l.Max*rounded+2*c.ms:
		c.broken(Order, "Mean %s %.8g ms is above the Max, %.8g ms", quantity, l.Mean, l.Max)
	case l.Mean*general+2*c.aroundMS(l.Mean) < least:
		c.broken(Order, "Mean %s %.8g ms is less than %s allow: at least %.4g ms", quantity, l.Mean, names(list), least)
	}
}

// numbers refuses figures of completed requests that are no numbers. There is no time between tokens where answers
// have one token or come in one piece.
func (c *checker) numbers() {
	said := map[string]int{}
	for _, n := range c.NoNumbers {
		tokens := n.Quantity == TPOT || n.Quantity == ITL
		if (tokens || n.Quantity == TTFT) && c.Unstreamed ||
			tokens && len(c.Latency[n.Quantity].statistics()) == 0 && c.whole(n.Quantity) {
			continue
		}
		if said[n.Quantity]++; said[n.Quantity] == 1 {
			text := fmt.Sprintf("%s is %s, which is no number", n.Name, n.Value)
			if given(c.Completed) {
				text += fmt.Sprintf(", although %.8g requests completed", c.Completed)
			}
			c.broken(Number, "%s", text)
		}
	}
}

// zeros refuses what took 0 ms. A first token always takes time; tokens after it do where there are any, unless
// answers came whole. The median of the time between tokens is honestly 0 where several tokens come at once.
func (c *checker) zeros() {
	if c.Duration == 0 && c.Completed > 0 && c.rate < 0.5 { // at whole seconds, a short time is 0
		c.broken(Zero, "the duration is 0 s, and %.10g requests completed", c.Completed)
		c.Duration = math.NaN()
	}
	for _, q := range []string{TTFT, E2EL} {
		if q == TTFT && c.Unstreamed {
			continue
		}
		var none []statistic
		for _, s := range c.Latency[q].statistics() {
			if s.value == 0 && !(s.at < 0.5) { // a single request does not count
				none = append(none, s)
			}
		}
		if len(none) > 0 {
			c.broken(Zero, "%s %s is 0 ms, and nothing takes no time", names(none), q)
			c.Latency[q] = noLatency
		}
	}
	none := 0.0
	if c.Streamed {
		none = unseen
	}
	for _, q := range []string{TPOT, ITL} {
		list := c.Latency[q].statistics()
		if len(list) == 0 || c.Unstreamed || c.whole(q) {
			continue
		}
		if list[0].name == "Mean" {
			list = list[:1] // which is 0 only where all are
		}
		if !slices.ContainsFunc(list, func(s statistic) bool { return s.value > none }) {
			c.broken(Zero, "%s %s is %.1g ms, and tokens after the first take time", names(list), q, list[0].value)
			c.Latency[q] = noLatency
		}
	}
}

// whole reports whether a TPOT or ITL of 0 can be: answers are short or come in one piece, or nothing says otherwise.
func (c *checker) whole(quantity string) bool {
	length := c.osl
	if !given(length) {
		length = c.AskedOutput
	}
	if length <= chunk || c.ms >= 0.05 && !c.alike() { // with so few digits, a short time is 0
		return true
	}
	if c.Streamed && c.ms < 0.5 {
		return false
	}
	ends := c.Latency[E2EL].statistics()
	for _, first := range c.Latency[TTFT].statistics() {
		i := slices.IndexFunc(ends, func(s statistic) bool { return s.name == first.name })
		if i >= 0 && first.value > 0 {
			slack := (length + 2) * c.ms
			if c.ms >= 0.05 {
				slack += tail
			}
			return ends[i].value-first.value <= max(ends[i].value/100, slack)
		}
	}
	other := map[string]string{TPOT: ITL, ITL: TPOT}[quantity]
	return c.ms >= 0.5 || !(c.mean(other) > 0)
}

// firstToken holds each statistic of E2EL against that of TTFT: what is no less for every request is so for them.
func (c *checker) firstToken() {
	first := map[string]float64{}
	for _, s := range c.Latency[TTFT].statistics() {
		first[s.name] = s.value
	}
	var less []statistic
	for _, s := range c.Latency[E2EL].statistics() {
		if ttft, ok := first[s.name]; ok && s.value*rounded+2*c.ms < ttft {
			less = append(less, s)
		}
	}
	if len(less) == 0 {
		return
	}
	text := fmt.Sprintf("%s E2EL %.8g ms is below TTFT %.8g ms", less[0].name, less[0].value, first[less[0].name])
	if len(less) > 1 {
		text += "; so is " + names(less[1:])
	}
	c.broken(First, "%s", text)
}

// rates holds throughputs against counts and the duration, or that of tokens against that of requests where no
// duration is known. Only the client's own division of the output is
// exact. Of the rates of tokens, one is named.
func (c *checker) rates() {
	requests := c.Completed
	if c.Requests > requests && c.RequestRate > 0 { // some clients count failed ones, too
		requests = c.Requests
	}
	c.oneRate("req/s", "requests", c.RequestRate, requests, false)
	if !given(c.Duration) && given(c.RequestRate) && c.osl > 0 {
		if implied := c.RequestRate * c.osl; c.OutputRate-c.around(c.OutputRate) >
			(c.RequestRate+c.around(c.RequestRate))*c.osl*general {
			c.broken(Rate, "%.8g requests/s of %.4g tokens are %.4g tok/s, the %s says %.8g tok/s", c.RequestRate, c.osl,
				implied, c.Source, c.OutputRate)
		}
	}
	_ = c.oneRate("tok/s", "tokens", c.OutputRate, c.OutputTokens, c.Exact) ||
		c.oneRate("tok/s", "input tokens", c.InputRate, c.InputTokens, false) ||
		c.oneRate("tok/s", "input and output tokens", c.TotalRate, c.InputTokens+c.OutputTokens, false)
}

func (c *checker) oneRate(unit, what string, says, amount float64, exactly bool) (broken bool) {
	r, d := c.around(says), c.around(c.Duration)
	if !(c.Duration > d) || !given(amount) || !given(says) {
		return false
	}
	below, above := 1/general, math.Inf(1)
	if exactly {
		below, above = 1-exact, 1+exact
	}
	most, least := amount/(c.Duration-d), amount/(c.Duration+d)
	if (says-r)*below > most || (says+r)*above < least || says == 0 && least > 2*r {
		c.broken(Rate, "%.10g %s in %.8g s are %.4g %s, the %s says %.8g %s", amount, what, c.Duration, amount/c.Duration, unit,
			c.Source, says, unit)
		return true
	}
	return false
}

// span refuses requests that took longer than the benchmark.
func (c *checker) span() {
	for _, q := range []string{E2EL, TTFT} {
		for _, s := range c.Latency[q].statistics() {
			if given(c.Duration) && (s.value-c.ms)/1000 > (c.Duration+c.around(c.Duration))*span {
				c.broken(Span, "%s %s %.8g ms is longer than the benchmark of %.8g s", s.name, q, s.value, c.Duration)
				return
			}
		}
	}
}

// little holds requests x time / duration, the mean number of requests in flight, against their bound: Little's law.
// Fewer are explained by ramps and rate limits. Without a duration, the request throughput stands for requests /
// duration; without E2EL, what is known of its parts is the least that it is.
func (c *checker) little() {
	time := c.mean(E2EL)
	if !given(time) {
		time = c.mean(TTFT)
		if c.alike() && given(c.mean(TPOT)) {
			time += max(0, (c.osl-1)*(c.mean(TPOT)-c.ms)) / sums
		}
	}
	what := fmt.Sprintf("%.10g requests of %.6g ms in %.8g s", c.Completed, time, c.Duration)
	rate, least := c.Completed/c.Duration, c.Completed/(c.Duration+c.around(c.Duration))
	if !given(c.Duration) {
		what = fmt.Sprintf("%.8g requests/s of %.6g ms", c.RequestRate, time)
		rate, least = c.RequestRate, c.RequestRate-c.around(c.RequestRate)
	}
	if given(time) && c.Duration != 0 && c.Concurrency > 0 && least*(time-c.ms)/1000 > c.Concurrency*general {
		c.broken(Little, "%s keep %.4g in flight, more than the concurrency of %.8g (Little's law)", what, rate*time/1000,
			c.Concurrency)
	} else if given(time) && c.Duration != 0 && c.Peak > 0 && least*(time-c.ms)/1000 > c.Peak*general {
		c.broken(Little, "%s keep %.4g in flight, more than the peak of %.8g (Little's law)", what, rate*time/1000, c.Peak)
	}
	const unit = 0.005 // half of the last digit that clients show of it
	took, d := c.mean(E2EL), c.around(c.Duration)
	most, fewest := c.Completed*(took+c.ms)/1000/(c.Duration-d), c.Completed*(took-c.ms)/1000/(c.Duration+d)
	if c.Duration > d && (fewest > (c.InFlight+unit)*general || most*general < c.InFlight-unit) {
		c.broken(Little, "%s keep %.4g in flight, the %s says %.6g (Little's law)", what, rate*took/1000, c.Source, c.InFlight)
	}
}

// closed returns the places of a closed loop, and the most that it can take in s: all of them are taken until the last
// request begins, which takes no longer than the longest. ok is false where the loop is not known to be closed, or
// requests failed: nothing says how long those took.
func (c *checker) closed() (places, most float64, ok bool) {
	whole := c.Requests == c.Completed || c.Failed == 0 && !(c.Requests > c.Completed)
	if !c.Closed || !whole || c.Failed > 0 || !given(c.Concurrency) || !(c.Concurrency > 0 && c.Completed > 0) {
		return 0, 0, false
	}
	mean, longest := c.mean(E2EL)+c.ms, c.greatest(E2EL)
	if tokens := c.longest(); !given(mean) && given(tokens) { // no answer is longer, so this is the most that it can be
		mean = c.mean(TTFT) + c.ms + (tokens-1)*(c.mean(TPOT)+c.ms)
		longest = c.greatest(TTFT) + (tokens-1)*c.greatest(TPOT)
	}
	places = min(c.Concurrency, c.Completed)
	most = (c.Completed*mean/places + longest) / 1000
	return places, most, given(most)
}

// idle refuses a closed loop that took longer than its requests can: Little's law from below. A share of the
// concurrency in flight would be no law, since one request may take minutes longer than the others.
func (c *checker) idle() {
	places, most, ok := c.closed()
	if ok && c.Duration-c.around(c.Duration) > most*sums+client {
		c.broken(Idle, "%.10g requests, %.8g at a time, take at most %.4g s by their E2EL, the %s says %.8g s (Little's law)",
			c.Completed, places, most, c.Source, c.Duration)
	}
}

// mostlyIdle warns of a closed loop with less than half of its concurrency in flight. So few requests that the last
// ones are many do not count.
func (c *checker) mostlyIdle() {
	places, most, ok := c.closed()
	inFlight := c.Completed * (c.mean(E2EL) + c.ms) / 1000 / c.Duration
	if ok && c.Completed >= 2*places && c.Duration <= most*sums+client && inFlight < places/2 {
		c.broken(Idle, "%.10g requests of %.6g ms in %.8g s keep %.3g in flight, less than half of the concurrency of %.8g: "+
			"single requests took much longer than the others, or the client paused", c.Completed, c.mean(E2EL), c.Duration,
			inFlight, places)
	}
}

// longest is the number of tokens that no answer exceeds, NaN if it is not known.
func (c *checker) longest() float64 {
	if c.SameLength || c.Completed == 1 {
		return c.osl
	}
	return c.LongestOutput
}

// alike reports whether all answers are known to have the same length: by what the client says, or because together
// they have as many tokens as they may.
func (c *checker) alike() bool { return c.OutputTokens+0.5 > c.Completed*c.longest() }

// tokens refuses answers without a token, and those of one token each that go on after the first.
func (c *checker) tokens() {
	ttft, e2el := c.mean(TTFT), c.mean(E2EL)
	switch {
	case c.OutputTokens+0.5 < c.Completed:
		c.broken(Tokens, "%.10g requests were answered with %.10g tokens, less than one each", c.Completed, c.OutputTokens)
	case c.OutputTokens < c.Completed+0.5 && !c.Unstreamed && e2el > ttft*sums+tail+2*c.ms:
		c.broken(Tokens, "%.10g requests were answered with one token each, so E2EL is TTFT, but their means are %.8g and %.8g ms",
			c.Completed, e2el, ttft)
	}
}

// parts holds E2EL against TTFT + (OSL - 1) x TPOT. Of each request they are equal. The mean of products is the
// product of means only where lengths are alike; where they are spread, it is no more than that of the longest, and the
// time per token is still a mean of TPOTs, weighed by length, and lies between the least and the greatest.
func (c *checker) parts() {
	ttft, tpot, e2el := c.mean(TTFT), c.mean(TPOT), c.mean(E2EL)
	if !given(ttft+e2el) || !(tpot > 0) || !(c.osl > 1) {
		return
	}
	sum, r := ttft+(c.osl-1)*tpot, (c.osl+1)*c.ms
	if c.alike() {
		if e2el > sum*sums+r || e2el*sums < sum-r {
			c.broken(Parts, "TTFT + (%.4g tokens - 1) x TPOT are %.6g ms, the mean E2EL is %.8g ms", c.osl, sum, e2el)
		}
		return
	}
	if c.isSteady(TPOT) && c.isSteady(E2EL) && e2el*steady < sum-r { // whatever the lengths are
		c.broken(Parts, "TTFT + (%.4g tokens - 1) x TPOT are %.6g ms, the mean E2EL is %.8g ms, and neither TPOT nor E2EL "+
			"differs much between requests", c.osl, sum, e2el)
		return
	}
	most := ttft + (c.LongestOutput-1)*tpot
	if e2el > most*sums+tail+(c.LongestOutput+1)*c.ms {
		c.broken(Parts, "TTFT + (at most %.4g tokens - 1) x TPOT are %.6g ms, the mean E2EL is %.8g ms", c.LongestOutput, most,
			e2el)
		return
	}
	// What answers of one token take after it is no TPOT.
	after, greatest, least := e2el-ttft, c.greatest(TPOT), c.Latency[TPOT].Min
	if after > (c.osl-1)*greatest*sums+tail+r || after*sums < (c.osl-1)*least-r {
		c.broken(Parts, "(E2EL - TTFT) / (%.4g tokens - 1) is %.4g ms, TPOT is %.8g ms, and no request's is beyond %s", c.osl,
			after/(c.osl-1), tpot, beyond(least, greatest))
	}
}

// isSteady reports whether a quantity hardly differs between requests: mean and P99 are about the median.
func (c *checker) isSteady(quantity string) bool {
	l := c.Latency[quantity]
	median, most := l.Percentiles[50], l.Percentiles[99]
	return most > 0 && most <= median*1.5 && math.Abs(l.Mean-median) <= median/10
}

// beyond names the bounds of a quantity, as far as they are known.
func beyond(least, greatest float64) string {
	if given(least) {
		return fmt.Sprintf("%.4g to %.4g ms", least, greatest)
	}
	return fmt.Sprintf("%.4g ms", greatest)
}

// longer holds the time of a token against that of requests. TPOT is a mean over requests of several tokens, ITL one
// over tokens: only where all answers are alike is the mean E2EL their bound, else it is the longest request.
func (c *checker) longer() {
	if !(c.osl > 1) {
		return
	}
	most, name := c.greatest(E2EL), "the longest E2EL is at most"
	if c.alike() && c.osl >= 2 {
		most, name = c.mean(E2EL), "the mean E2EL is"
	}
	if mean := c.mean(TPOT); mean > most*general+2*c.ms {
		c.broken(Longer, "Mean TPOT %.8g ms is longer than a whole request, %s %.8g ms", mean, name, most)
	}
	if mean := c.mean(ITL); mean > most*gaps+2*c.ms {
		c.broken(Longer, "Mean ITL %.8g ms is longer than a whole request, %s %.8g ms", mean, name, most)
	}
}

// between holds the time between tokens against what follows the first one. Fewer and longer gaps than tokens are
// honest: several tokens may come at once. A request has at most two more chunks than tokens, which are empty.
func (c *checker) between() {
	const short = 8 // tokens
	itl, tpot, after := c.mean(ITL), c.mean(TPOT), c.mean(E2EL)-c.mean(TTFT)
	if itl > 0 && c.osl >= short && itl*(c.osl+1)*gaps+(c.osl+3)*c.ms*gaps+tail < after {
		c.broken(Between, "%.4g tokens with %.8g ms between them take less than the %.6g ms after the first one", c.osl, itl, after)
		return
	}
	if !(tpot > c.ms && itl > c.ms && c.osl > 1) {
		return
	}
	// All gaps together are the times of all tokens after the first ones. Of answers of spread lengths a single short
	// one may have all the time per token.
	share := 1 / c.Completed
	if c.alike() {
		share = c.osl - 1
	}
	if itl > (c.greatest(TPOT)+c.ms)*pieces || tpot*share > (itl+c.ms)*(c.osl+1)*gaps+tail {
		c.broken(Between, "Mean ITL %.8g ms and mean TPOT %.8g ms are of the same tokens, but differ too much", itl, tpot)
	}
}

// returned holds the tokens that were counted against those of the text.
func (c *checker) returned() {
	if c.Retokenized < seen*c.OutputTokens {
		c.broken(Returned, "the text that came back holds %.10g tokens, of %.10g that are said to be generated",
			c.Retokenized, c.OutputTokens)
	}
}

// partlyReturned warns of a text that lacks more tokens than special ones are. A client that counts those that it asked
// for makes throughput and TPOT look better by the same share.
func (c *checker) partlyReturned() {
	share := c.Retokenized / c.OutputTokens
	if !(share >= seen && share < likely) {
		return
	}
	text := fmt.Sprintf("the text that came back holds %.10g of %.10g tokens (%.3g %%)", c.Retokenized, c.OutputTokens, 100*share)
	if given(c.OutputRate) {
		text += fmt.Sprintf(": %.5g tok/s by those that came, %.5g by those that were counted", share*c.OutputRate, c.OutputRate)
	}
	if ratio := c.mean(TPOT) / c.mean(ITL); math.Abs(ratio-share) < share/10 { // chunks are of one token
		text += fmt.Sprintf("; TPOT is %.3g %% of ITL, too", 100*ratio)
	}
	c.broken(Returned, "%s", text)
}
