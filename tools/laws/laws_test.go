package laws

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// request is one request of a simulated run. Times are in ms.
type request struct {
	tokens         int
	ttft, tpot     float64
	chunk          int // tokens that come at once
	start, latency float64
	failed         bool
}

func lognormal(r *rand.Rand, mean, sigma float64) float64 {
	return mean * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)
}

// simulate serves requests as a client sees them: at most concurrency at a time (0: no bound), arriving at a rate (0:
// at once), with a ramp. It returns the requests and the duration in ms.
func simulate(r *rand.Rand, concurrency int) (list []request, duration float64) {
	n := 1 + r.IntN(200)
	length, spread, correlation := 1+r.IntN(600), r.Float64(), r.Float64()*2-1
	ttft, tpot := lognormal(r, 200, 1)+1, lognormal(r, 10, 0.5)+0.1
	chunk, rate, failing := 1, 0.0, 0.0
	switch r.IntN(4) {
	case 0:
		length = 1
	case 1:
		chunk = 1 + r.IntN(8)
	case 2:
		rate = lognormal(r, 5, 1)
	case 3:
		failing = 0.2 * r.Float64()
	}
	if r.IntN(2) == 0 {
		spread = 0
	}
	slots := make([]float64, max(1, concurrency)) // when each is free
	now := 0.0
	for i := range n {
		z := r.NormFloat64()
		q := request{tokens: max(1, int(math.Round(float64(length)*math.Exp(spread*z)))), chunk: chunk,
			ttft: lognormal(r, ttft, 0.5), tpot: tpot * math.Exp(0.2*(correlation*z+r.NormFloat64())), failed: r.Float64() < failing}
		if q.tokens <= q.chunk {
			q.tpot = 0 // the whole answer is one chunk
		}
		q.latency = q.ttft + float64(q.tokens-1)*q.tpot
		if rate > 0 {
			now += r.ExpFloat64() * 1000 / rate
		} else {
			now += 50 * r.Float64() * float64(min(i, 20)) / 20 // a ramp
		}
		slot := 0
		if concurrency > 0 {
			slot = slices.Index(slots, slices.Min(slots))
			q.start = max(now, slots[slot])
		} else {
			q.start = now
		}
		slots[slot] = q.start + q.latency
		duration = max(duration, q.start+q.latency)
		list = append(list, q)
	}
	return list, duration * (1 + 0.02*r.Float64())
}

// peak is the greatest number of requests at the same time.
func peak(list []request) (most float64) {
	for _, a := range list {
		now := 0.0
		for _, b := range list {
			if !b.failed && b.start <= a.start && a.start < b.start+b.latency {
				now++
			}
		}
		most = max(most, now)
	}
	return most
}

// figures works figures out of requests as clients do.
func figures(r *rand.Rand, list []request, duration float64, concurrency int) Figures {
	f := Unknown()
	f.Exact = r.IntN(2) == 0
	if concurrency > 0 {
		f.Concurrency = float64(concurrency)
	}
	f.Requests, f.Failed, f.Completed, f.OutputTokens, f.InputTokens = float64(len(list)), 0, 0, 0, 0
	all := map[string][]float64{}
	for _, q := range list {
		if q.failed {
			f.Failed++
			continue
		}
		f.Completed++
		f.InputTokens += 100
		f.OutputTokens += float64(q.tokens)
		all[TTFT] = append(all[TTFT], q.ttft)
		all[E2EL] = append(all[E2EL], q.latency)
		if q.tokens > 1 {
			all[TPOT] = append(all[TPOT], q.tpot)
		}
		for at := q.chunk; at < q.tokens; at += q.chunk {
			all[ITL] = append(all[ITL], float64(min(q.chunk, q.tokens-at))*q.tpot)
		}
	}
	f.Duration = duration / 1000
	if r.IntN(2) == 0 && f.Completed > 0 {
		sum := 0.0
		for _, x := range all[E2EL] {
			sum += x
		}
		f.InFlight = math.Round(sum/duration*100) / 100
	}
	f.RequestRate, f.InputRate, f.OutputRate = f.Completed/f.Duration, f.InputTokens/f.Duration, f.OutputTokens/f.Duration
	f.TotalRate = f.InputRate + f.OutputRate
	f.Streamed = r.IntN(2) == 0
	if r.IntN(2) == 0 {
		f.Peak = peak(list)
	}
	f.Retokenized = f.OutputTokens * (0.8 + 0.3*r.Float64())
	for _, q := range quantities {
		f.Latency[q] = summary(r, all[q])
	}
	return f
}

// summary is the statistics of values: zeros of none, as clients print them.
func summary(r *rand.Rand, values []float64) Latency {
	if len(values) == 0 {
		values = []float64{0}
	}
	slices.Sort(values)
	l := Latency{Min: values[0], Max: values[len(values)-1], Percentiles: map[float64]float64{}}
	for _, v := range values {
		l.Mean += v / float64(len(values))
	}
	for _, p := range []float64{1, 25, 50, 75, 90, 99, 99.9} {
		at := p / 100 * float64(len(values)-1)
		low := int(at)
		l.Percentiles[p] = values[low] + (at-float64(low))*(values[min(low+1, len(values)-1)]-values[low])
	}
	if r.IntN(2) == 0 { // as most clients, which have neither
		l.Min, l.Max = math.NaN(), math.NaN()
	}
	return l
}

// change gives every figure to do, which returns what takes its place.
func change(f Figures, do func(float64) float64) Figures {
	for _, x := range []*float64{&f.Duration, &f.RequestRate, &f.InputRate, &f.OutputRate, &f.TotalRate} {
		*x = do(*x)
	}
	latency := map[string]Latency{}
	for _, q := range quantities {
		l := f.Latency[q]
		to := Latency{do(l.Mean), do(l.Min), do(l.Max), map[float64]float64{}}
		for p, x := range l.Percentiles {
			to.Percentiles[p] = do(x)
		}
		latency[q] = to
	}
	f.Latency = latency
	return f
}

// No honest run breaks a law, however its figures are rounded and whichever of them are given.
func TestHonestRunsBreakNoLaw(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		concurrency := r.IntN(65)
		list, duration := simulate(r, concurrency)
		f := figures(r, list, duration, concurrency)
		if r.IntN(2) == 0 {
			f.AskedOutput = float64(list[0].tokens)
		}
		for digits := range 5 {
			unit := math.Pow(10, float64(digits))
			printed := change(f, func(x float64) float64 {
				if digits == 4 || digits >= 2 && r.IntN(20) == 0 {
					return x
				}
				return math.Round(x*unit) / unit
			})
			given := change(printed, func(x float64) float64 {
				if r.IntN(10) == 0 {
					return math.NaN()
				}
				return x
			})
			for _, g := range []Figures{printed, given} {
				for _, v := range g.Check() {
					t.Errorf("seed %d, %d digits: %s: %s\n%+v", seed, digits, v.Law, v.Text, g)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}

// sample is what a client prints of 32 requests of 1024 tokens each, four at a time.
func sample() Figures {
	f := Unknown()
	f.Concurrency, f.Requests, f.Completed, f.Failed, f.Duration = 4, 32, 32, 0, 63.38
	f.InputTokens, f.OutputTokens, f.Retokenized, f.AskedOutput = 65536, 32768, 32760, 1024
	f.RequestRate, f.InputRate, f.OutputRate, f.TotalRate = 0.50, 1034.02, 517.01, 1551.03
	f.Exact = true
	f.Latency = map[string]Latency{
		TTFT: {148.10, 120.02, 410.55, map[float64]float64{50: 131.42, 90: 201.17, 99: 402.90}},
		TPOT: {7.60, 7.01, 9.03, map[float64]float64{50: 7.55, 90: 8.03, 99: 8.90}},
		ITL:  {7.50, 0, 21.75, map[float64]float64{50: 7.41, 90: 8.05, 99: 15.20}},
		E2EL: {7922.90, 7310.11, 9420.45, map[float64]float64{50: 7855.73, 90: 8422.80, 99: 9120.40}},
	}
	return f
}

// Each law breaks where a figure leaves its tolerance, and no other breaks with it than the ones named.
func TestEachLaw(t *testing.T) {
	set := func(f *Figures, quantity string, change func(l *Latency)) {
		l := f.Latency[quantity]
		change(&l)
		f.Latency[quantity] = l
	}
	scale := func(f *Figures, quantity string, by float64) {
		set(f, quantity, func(l *Latency) {
			l.Mean, l.Min, l.Max = l.Mean*by, l.Min*by, l.Max*by
			for p := range l.Percentiles {
				l.Percentiles[p] *= by
			}
		})
	}
	spread := func(f *Figures) { f.AskedOutput, f.OutputTokens = math.NaN(), 32771; f.Requests = math.NaN() }
	for _, c := range []struct {
		name   string
		change func(f *Figures)
		laws   string // "": none
		text   string
	}{
		{"as it is", func(*Figures) {}, "", ""},
		{"nothing is known", func(f *Figures) { *f = Unknown() }, "", ""},
		{"infinite figures count as unknown", func(f *Figures) { scale(f, TPOT, math.Inf(1)); f.OutputRate = math.Inf(1) }, "", ""},
		{"no request completed", func(f *Figures) {
			f.Completed, f.Failed, f.OutputTokens = 0, 32, 0
			for _, q := range quantities {
				scale(f, q, 0)
			}
		}, "", ""},
		{"a negative latency", func(f *Figures) { set(f, TTFT, func(l *Latency) { l.Min = -1 }) }, "sign", "Min TTFT is -1 ms"},
		{"a negative duration", func(f *Figures) { f.Duration = -2 }, "sign", "the duration is -2"},
		{"minus zero", func(f *Figures) { set(f, ITL, func(l *Latency) { l.Min = math.Copysign(0, -1) }) }, "", ""},

		{"no first token", func(f *Figures) { scale(f, TTFT, 0) }, "zero", "Mean, Median, P90, P99, Max TTFT is 0 ms"},
		{"one request without a first token", func(f *Figures) { set(f, TTFT, func(l *Latency) { l.Min = 0 }) }, "", ""},
		{"no first token of answers that come whole", func(f *Figures) { scale(f, TTFT, 0); f.Unstreamed = true }, "", ""},
		{"nothing between tokens", func(f *Figures) { scale(f, ITL, 0) }, "zero", "Mean ITL is 0 ms"},
		{"no time per token", func(f *Figures) { scale(f, TPOT, 0) }, "zero", "Mean TPOT is 0 ms"},
		{"a quantity that is 0 and others", func(f *Figures) { scale(f, TTFT, 0); f.Concurrency = 2 }, "little zero", ""},
		{"no time of a request", func(f *Figures) { scale(f, E2EL, 0) }, "zero", "Mean, Median, P90, P99, Max E2EL is 0 ms"},
		{"tokens that come together", func(f *Figures) { set(f, ITL, func(l *Latency) { l.Percentiles[50] = 0 }) }, "", ""},
		{"answers of one token", func(f *Figures) {
			f.OutputTokens, f.Retokenized, f.OutputRate, f.TotalRate, f.AskedOutput = 32, 32, 0.50, 1034.53, 1
			f.Latency[E2EL] = f.Latency[TTFT]
			scale(f, TPOT, 0)
			scale(f, ITL, 0)
		}, "", ""},
		{"whole answers", func(f *Figures) { f.Latency[TTFT] = f.Latency[E2EL]; scale(f, TPOT, 0); scale(f, ITL, 0) }, "", ""},

		{"whole answers of a stream", func(f *Figures) {
			f.Latency[TTFT] = f.Latency[E2EL]
			scale(f, TPOT, 0)
			scale(f, ITL, 0)
			f.Streamed = true
		}, "zero", "Mean TPOT is 0 ms"},
		{"tokens of a stream at once", func(f *Figures) {
			*f = Unknown()
			f.Streamed = true
			f.AskedOutput = 256
			f.Latency[TPOT] = Latency{4e-4, 4e-4, 4e-4, nil}
		},
			"zero", "Mean TPOT is 0.0004 ms"},
		{"short answers of a stream", func(f *Figures) { *f = Unknown(); f.Streamed = true; f.AskedOutput = 8; f.Latency[TPOT] = Latency{} }, "", ""},
		{"a figure that is no number", func(f *Figures) {
			f.NoNumbers = []NoNumber{{TTFT, "p90_ttft_ms", "NaN"}, {TTFT, "p99_ttft_ms", "NaN"}}
		}, "number", "p90_ttft_ms is NaN, which is no number, although 32 requests completed"},
		{"a mean between tokens that is no number", func(f *Figures) {
			delete(f.Latency, ITL)
			f.NoNumbers = []NoNumber{{ITL, "mean_itl_ms", "NaN"}}
		}, "number", ""},
		{"no time between tokens of answers of one", func(f *Figures) {
			*f = Unknown()
			f.Completed, f.OutputTokens, f.NoNumbers = 32, 32, []NoNumber{{TPOT, "mean_tpot_ms", "nan"}}
		}, "", ""},
		{"no number of requests that failed", func(f *Figures) {
			*f = Unknown()
			f.Completed, f.NoNumbers = 0, []NoNumber{{E2EL, "mean_e2e_latency_ms", "NaN"}}
		}, "", ""},
		{"a token longer than its request", func(f *Figures) {
			spread(f)
			scale(f, TPOT, 2000)
			set(f, TPOT, func(l *Latency) { l.Min = math.NaN() })
		}, "longer",
			"Mean TPOT 15200 ms is longer than a whole request, Mean E2EL 7922.9 ms"},
		{"a gap longer than any request", func(f *Figures) { scale(f, ITL, 3000) }, "longer", "Mean ITL 22500 ms"},
		{"percentiles that descend", func(f *Figures) { set(f, TTFT, func(l *Latency) { l.Percentiles[99] = 190 }) }, "order",
			"P90 TTFT 201.17 ms is above the P99, 190 ms"},
		{"a mean below the least", func(f *Figures) { set(f, TPOT, func(l *Latency) { l.Mean = 2 }) }, "order parts", "Mean TPOT 2 ms is below the Min, 7.01 ms"},
		{"a mean above the greatest", func(f *Figures) { set(f, TTFT, func(l *Latency) { l.Mean = 500 }) }, "order", "above the Max"},
		{"a mean that its median denies", func(f *Figures) {
			set(f, TTFT, func(l *Latency) { l.Mean, l.Min, l.Max = 30, math.NaN(), math.NaN() })
		}, "order", "Mean TTFT 30 ms is less than Median, P90, P99 allow: at least 74.7 ms"},
		{"a mean that its P99 denies", func(f *Figures) {
			*f = Unknown()
			f.Latency[ITL] = Latency{0.04, math.NaN(), math.NaN(), map[float64]float64{99: 7}}
		}, "order", "at least 0.07 ms"},
		{"a mean far from its median", func(f *Figures) { set(f, ITL, func(l *Latency) { l.Percentiles[50] = 1 }) }, "", ""},
		{"E2EL below TTFT", func(f *Figures) {
			*f = Unknown()
			f.Latency = map[string]Latency{TTFT: sample().Latency[E2EL], E2EL: sample().Latency[TTFT]}
		}, "first", "Mean E2EL 148.1 ms is below TTFT 7922.9 ms; so is Min, Median, P90, P99, Max"},

		{"more succeeded than there were", func(f *Figures) { f.Requests = 31 }, "counts", "32 of 31 requests succeeded"},
		{"more failed than were left", func(f *Figures) { f.Failed = 1 }, "counts", "32 requests succeeded and 1 failed, of 32"},
		{"lost requests", func(f *Figures) { f.Requests = 40 }, "", ""},

		{"a throughput too high", func(f *Figures) { f.OutputRate *= 1.06 }, "rate", "32768 tokens in 63.38 s are 517 tok/s, the log says 548.0306 tok/s"},
		{"a throughput too low", func(f *Figures) { f.OutputRate *= 0.94 }, "rate", ""},
		{"a throughput of another clock", func(f *Figures) { f.Exact = false; f.OutputRate *= 0.1; f.TotalRate *= 1.2 }, "", ""},
		{"a throughput of no clock", func(f *Figures) { f.Exact = false; f.OutputRate *= 1.3 }, "rate", ""},
		{"requests too many", func(f *Figures) { f.RequestRate = 0.66 }, "rate", "32 requests in 63.38 s are 0.5049 req/s, the log says 0.66 req/s"},
		{"input tokens too many", func(f *Figures) { f.InputRate *= 1.26 }, "rate", "65536 input tokens"},
		{"a total too high", func(f *Figures) { f.TotalRate *= 1.26 }, "rate", "98304 input and output tokens"},
		{"no throughput", func(f *Figures) { f.Exact = false; f.OutputRate = 0 }, "rate", "the log says 0 tok/s"},
		{"tokens against requests", func(f *Figures) { f.Duration = math.NaN(); f.OutputRate *= 1.3; f.Source = "report" }, "rate",
			"0.5 requests/s of 1024 tokens are 512 tok/s, the report says"},
		{"shorter than a request", func(f *Figures) {
			f.Duration, f.Concurrency = 8, math.Inf(1)
			f.RequestRate, f.InputRate, f.OutputRate, f.TotalRate = 4, 8192, 4096, 12288
		}, "span", "P99 E2EL 9120.4 ms is longer than the benchmark of 8 s"},
		{"no duration", func(f *Figures) { f.Duration = 0 }, "zero", "the duration is 0 s, and 32 requests completed"},

		{"more in flight than allowed", func(f *Figures) { f.Concurrency = 3 }, "little",
			"32 requests of 7922.9 ms in 63.38 s keep 4 in flight, more than the concurrency of 3 (Little's law)"},
		{"a little more in flight", func(f *Figures) { f.Concurrency = 4 / 1.24 }, "", ""},
		{"fewer in flight", func(f *Figures) { f.Concurrency = 64 }, "", ""},
		{"more in flight without E2EL", func(f *Figures) { delete(f.Latency, E2EL); f.Concurrency = 2 }, "little", "(Little's law)"},
		{"more in flight at a rate", func(f *Figures) { f.Duration = math.NaN(); f.Concurrency = 3 }, "little", "0.5 requests/s of 7922.9 ms keep 3.961 in flight"},
		{"another number in flight", func(f *Figures) { f.InFlight = 3.1; f.Concurrency = math.NaN() }, "little",
			"32 requests of 7922.9 ms in 63.38 s keep 4 in flight, the log says 3.1 (Little's law)"},
		{"more in flight than ever", func(f *Figures) { f.Peak = 3; f.Concurrency = math.NaN() }, "little", "more than the peak of 3"},
		{"a peak", func(f *Figures) { f.Peak = 5; f.Concurrency = math.NaN() }, "", ""},
		{"about that number in flight", func(f *Figures) { f.InFlight = 4.02 }, "", ""},
		{"no bound", func(f *Figures) { f.Concurrency = math.Inf(1) }, "", ""},

		{"E2EL less than its parts", func(f *Figures) { scale(f, E2EL, 0.65) }, "parts", "TTFT + (1024 tokens - 1) x TPOT are 7922.9 ms"},
		{"E2EL more than its parts", func(f *Figures) { scale(f, E2EL, 1.55); f.Concurrency = 8 }, "parts", ""},
		{"about its parts", func(f *Figures) { scale(f, E2EL, 0.7) }, "", ""},
		{"lengths that seem alike", func(f *Figures) { f.AskedOutput = math.NaN(); scale(f, E2EL, 0.6) }, "", ""},
		{"half of its parts", func(f *Figures) { f.AskedOutput = math.NaN(); scale(f, E2EL, 0.4) }, "parts", ""},
		{"spread lengths", func(f *Figures) { spread(f); scale(f, E2EL, 1.2) }, "", ""},
		{"spread lengths, slower than any token", func(f *Figures) { spread(f); scale(f, E2EL, 1.9); f.Concurrency = 8 }, "parts",
			"TPOT is 7.6 ms, Max 9.03 ms"},
		{"spread lengths, faster than any token", func(f *Figures) { spread(f); scale(f, E2EL, 0.6) }, "parts", ""},
		{"chunks of several tokens", func(f *Figures) { scale(f, ITL, 5) }, "", ""},
		{"gaps in another unit", func(f *Figures) { scale(f, ITL, 800) }, "between", "Mean ITL 6000 ms and mean TPOT 7.6 ms"},
		{"tokens in another unit", func(f *Figures) { delete(f.Latency, E2EL); scale(f, TPOT, 800); f.Concurrency = math.NaN() }, "between",
			"Mean ITL 7.5 ms and mean TPOT 6080 ms"},
		{"gaps that do not add up", func(f *Figures) { scale(f, ITL, 0.4) }, "between", "1024 tokens with 3 ms between them"},

		{"a text of half the tokens", func(f *Figures) { f.Retokenized = 16400 }, "", ""},
		{"hardly a text", func(f *Figures) { f.Retokenized = 32 }, "returned", "holds 32 tokens, of 32768"},
		{"no text", func(f *Figures) { f.Retokenized = 0 }, "returned", ""},
	} {
		f := sample()
		c.change(&f)
		var laws, texts []string
		for _, v := range f.Check() {
			laws, texts = append(laws, v.Law), append(texts, v.Text)
		}
		slices.Sort(laws)
		want := strings.Fields(c.laws)
		if text := strings.Join(texts, "; "); !slices.Equal(slices.Compact(laws), want) || !strings.Contains(text, c.text) {
			t.Errorf("%s: %q, want %q:\n%s", c.name, laws, want, text)
		}
	}
}
