package serving

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// sample is what a client prints of 32 requests of 1024 tokens each, four at a time.
func sample() Run {
	f := Unknown()
	f.Concurrency, f.Requests, f.Completed, f.Failed, f.Duration = 4, 32, 32, 0, 63.38
	f.InputTokens, f.OutputTokens, f.Retokenized, f.AskedOutput, f.LongestOutput = 65536, 32768, 32760, 1024, 1024
	f.RequestRate, f.InputRate, f.OutputRate, f.TotalRate = 0.50, 1034.02, 517.01, 1551.03
	f.Exact = true
	f.Latency = map[string]Latency{
		TTFT: {148.10, 120.02, 410.55, map[float64]float64{50: 131.42, 90: 201.17, 99: 402.90}, 0},
		TPOT: {7.60, 7.01, 9.03, map[float64]float64{50: 7.55, 90: 8.03, 99: 8.90}, 0},
		ITL:  {7.50, 0, 21.75, map[float64]float64{50: 7.41, 90: 8.05, 99: 15.20}, 0},
		E2EL: {7922.90, 7310.11, 9420.45, map[float64]float64{50: 7855.73, 90: 8422.80, 99: 9120.40}, 0},
	}
	return f
}

// Each law breaks where a figure leaves its tolerance, and no other breaks with it than the ones named.
func TestEachLaw(t *testing.T) {
	set := func(f *Run, quantity string, change func(l *Latency)) {
		l := f.Latency[quantity]
		change(&l)
		f.Latency[quantity] = l
	}
	scale := func(f *Run, quantity string, by float64) {
		set(f, quantity, func(l *Latency) {
			l.Mean, l.Min, l.Max = l.Mean*by, l.Min*by, l.Max*by
			for p := range l.Percentiles {
				l.Percentiles[p] *= by
			}
		})
	}
	spread := func(f *Run) { f.LongestOutput = math.NaN() }
	closed := func(f *Run, faster float64) {
		f.Closed = true
		for _, q := range quantities {
			scale(f, q, 1/faster)
		}
	}
	noMax := func(f *Run, std float64) {
		set(f, E2EL, func(l *Latency) { l.Min, l.Max, l.Std = math.NaN(), math.NaN(), std })
	}
	for _, c := range []struct {
		name   string
		change func(f *Run)
		laws   string // "": none
		text   string
	}{
		{"as it is", func(*Run) {}, "", ""},
		{"nothing is known", func(f *Run) { *f = Unknown() }, "", ""},
		{"infinite figures count as unknown", func(f *Run) { scale(f, TPOT, math.Inf(1)); f.OutputRate = math.Inf(1) }, "", ""},
		{"no request completed", func(f *Run) {
			f.Completed, f.Failed, f.OutputTokens = 0, 32, 0
			for _, q := range quantities {
				scale(f, q, 0)
			}
		}, "", ""},
		{"a negative latency", func(f *Run) { set(f, TTFT, func(l *Latency) { l.Min = -1 }) }, "sign", "Min TTFT is -1 ms"},
		{"a negative duration", func(f *Run) { f.Duration = -2 }, "sign", "the duration is -2"},
		{"minus zero", func(f *Run) { set(f, ITL, func(l *Latency) { l.Min = math.Copysign(0, -1) }) }, "", ""},

		{"no first token", func(f *Run) { scale(f, TTFT, 0) }, "zero", "Mean, Median, P90, P99, Max TTFT is 0 ms"},
		{"one request without a first token", func(f *Run) { set(f, TTFT, func(l *Latency) { l.Min = 0 }) }, "", ""},
		{"no first token of answers that come whole", func(f *Run) { scale(f, TTFT, 0); f.Unstreamed = true }, "", ""},
		{"nothing between tokens", func(f *Run) { scale(f, ITL, 0) }, "zero", "Mean ITL is 0 ms"},
		{"no time per token", func(f *Run) { scale(f, TPOT, 0) }, "zero", "Mean TPOT is 0 ms"},
		{"a quantity that is 0 and others", func(f *Run) { scale(f, TTFT, 0); f.Concurrency = 2 }, "little zero", ""},
		{"no time of a request", func(f *Run) { scale(f, E2EL, 0) }, "zero", "Mean, Median, P90, P99, Max E2EL is 0 ms"},
		{"tokens that come together", func(f *Run) { set(f, ITL, func(l *Latency) { l.Percentiles[50] = 0 }) }, "", ""},
		{"answers of one token", func(f *Run) {
			f.OutputTokens, f.Retokenized, f.OutputRate, f.TotalRate, f.AskedOutput = 32, 32, 0.50, 1034.53, 1
			f.Latency[E2EL] = f.Latency[TTFT]
			scale(f, TPOT, 0)
			scale(f, ITL, 0)
		}, "", ""},
		{"whole answers", func(f *Run) { f.Latency[TTFT] = f.Latency[E2EL]; scale(f, TPOT, 0); scale(f, ITL, 0) }, "", ""},

		{"whole answers of a stream", func(f *Run) {
			f.Latency[TTFT] = f.Latency[E2EL]
			scale(f, TPOT, 0)
			scale(f, ITL, 0)
			f.Streamed = true
		}, "zero", "Mean TPOT is 0 ms"},
		{"tokens of a stream at once", func(f *Run) {
			*f = Unknown()
			f.Streamed = true
			f.AskedOutput = 256
			f.Latency[TPOT] = Latency{4e-4, 4e-4, 4e-4, nil, 0}
		},
			"zero", "Mean TPOT is 0.0004 ms"},
		{"short answers of a stream", func(f *Run) { *f = Unknown(); f.Streamed = true; f.AskedOutput = 8; f.Latency[TPOT] = Latency{} }, "", ""},
		{"a figure that is no number", func(f *Run) {
			f.NoNumbers = []NoNumber{{TTFT, "p90_ttft_ms", "NaN"}, {TTFT, "p99_ttft_ms", "NaN"}}
		}, "number", "p90_ttft_ms is NaN, which is no number, although 32 requests completed"},
		{"a mean between tokens that is no number", func(f *Run) {
			delete(f.Latency, ITL)
			f.NoNumbers = []NoNumber{{ITL, "mean_itl_ms", "NaN"}}
		}, "number", ""},
		{"no time between tokens of answers of one", func(f *Run) {
			*f = Unknown()
			f.Completed, f.OutputTokens, f.NoNumbers = 32, 32, []NoNumber{{TPOT, "mean_tpot_ms", "nan"}}
		}, "", ""},
		{"no number of requests that failed", func(f *Run) {
			*f = Unknown()
			f.Completed, f.NoNumbers = 0, []NoNumber{{E2EL, "mean_e2e_latency_ms", "NaN"}}
		}, "", ""},
		{"a token longer than its request", func(f *Run) {
			spread(f)
			scale(f, TPOT, 2000)
			set(f, TPOT, func(l *Latency) { l.Min, l.Percentiles[50] = math.NaN(), 5000 })
		}, "longer",
			"Mean TPOT 15200 ms is longer than a whole request, the longest E2EL is at most 9420.45 ms"},
		{"a gap longer than any request", func(f *Run) { scale(f, ITL, 3000) }, "longer", "Mean ITL 22500 ms"},
		{"percentiles that descend", func(f *Run) { set(f, TTFT, func(l *Latency) { l.Percentiles[99] = 190 }) }, "order",
			"P90 TTFT 201.17 ms is above the P99, 190 ms"},
		{"a mean below the least", func(f *Run) { set(f, TPOT, func(l *Latency) { l.Mean = 2 }) }, "order parts", "Mean TPOT 2 ms is below the Min, 7.01 ms"},
		{"a mean above the greatest", func(f *Run) { set(f, TTFT, func(l *Latency) { l.Mean = 500 }) }, "order", "above the Max"},
		{"a mean that its median denies", func(f *Run) {
			set(f, TTFT, func(l *Latency) { l.Mean, l.Min, l.Max = 30, math.NaN(), math.NaN() })
		}, "order", "Mean TTFT 30 ms is less than Median, P90, P99 allow: at least 74.7 ms"},
		{"a mean that its P99 denies", func(f *Run) {
			*f = Unknown()
			f.Latency[ITL] = Latency{0.04, math.NaN(), math.NaN(), map[float64]float64{99: 7}, 0}
		}, "order", "at least 0.07 ms"},
		{"a mean far from its median", func(f *Run) { set(f, ITL, func(l *Latency) { l.Percentiles[50] = 1 }) }, "", ""},
		{"E2EL below TTFT", func(f *Run) {
			*f = Unknown()
			f.Latency = map[string]Latency{TTFT: sample().Latency[E2EL], E2EL: sample().Latency[TTFT]}
		}, "first", "Mean E2EL 148.1 ms is below TTFT 7922.9 ms; so is Min, Median, P90, P99, Max"},

		{"more succeeded than there were", func(f *Run) { f.Requests = 31 }, "counts", "32 of 31 requests succeeded"},
		{"more failed than were left", func(f *Run) { f.Failed = 1 }, "counts", "32 requests succeeded and 1 failed, of 32"},
		{"lost requests", func(f *Run) { f.Requests = 40 }, "", ""},

		{"a throughput too high", func(f *Run) { f.OutputRate *= 1.06 }, "rate", "32768 tokens in 63.38 s are 517 tok/s, the log says 548.0306 tok/s"},
		{"a throughput too low", func(f *Run) { f.OutputRate *= 0.94 }, "rate", ""},
		{"a throughput of another clock", func(f *Run) { f.Exact = false; f.OutputRate *= 0.1; f.TotalRate *= 1.2 }, "", ""},
		{"a throughput of no clock", func(f *Run) { f.Exact = false; f.OutputRate *= 1.3 }, "rate", ""},
		{"requests too many", func(f *Run) { f.RequestRate = 0.66 }, "rate", "32 requests in 63.38 s are 0.5049 req/s, the log says 0.66 req/s"},
		{"input tokens too many", func(f *Run) { f.InputRate *= 1.26 }, "rate", "65536 input tokens"},
		{"a total too high", func(f *Run) { f.TotalRate *= 1.26 }, "rate", "98304 input and output tokens"},
		{"no throughput", func(f *Run) { f.Exact = false; f.OutputRate = 0 }, "rate", "the log says 0 tok/s"},
		{"tokens against requests", func(f *Run) { f.Duration = math.NaN(); f.OutputRate *= 1.3; f.Source = "report" }, "rate",
			"0.5 requests/s of 1024 tokens are 512 tok/s, the report says"},
		{"shorter than a request", func(f *Run) {
			f.Duration, f.Concurrency = 8, math.Inf(1)
			f.RequestRate, f.InputRate, f.OutputRate, f.TotalRate = 4, 8192, 4096, 12288
		}, "span", "P99 E2EL 9120.4 ms is longer than the benchmark of 8 s"},
		{"no duration", func(f *Run) { f.Duration = 0 }, "zero", "the duration is 0 s, and 32 requests completed"},

		{"more in flight than allowed", func(f *Run) { f.Concurrency = 3 }, "little",
			"32 requests of 7922.9 ms in 63.38 s keep 4 in flight, more than the concurrency of 3 (Little's law)"},
		{"a little more in flight", func(f *Run) { f.Concurrency = 4 / 1.24 }, "", ""},
		{"fewer in flight", func(f *Run) { f.Concurrency = 64 }, "", ""},
		{"more in flight without E2EL", func(f *Run) { delete(f.Latency, E2EL); f.Concurrency = 2 }, "little", "(Little's law)"},
		{"more in flight at a rate", func(f *Run) { f.Duration = math.NaN(); f.Concurrency = 3 }, "little", "0.5 requests/s of 7922.9 ms keep 3.961 in flight"},
		{"another number in flight", func(f *Run) { f.InFlight = 3.1; f.Concurrency = math.NaN() }, "little",
			"32 requests of 7922.9 ms in 63.38 s keep 4 in flight, the log says 3.1 (Little's law)"},
		{"more in flight than ever", func(f *Run) { f.Peak = 3; f.Concurrency = math.NaN() }, "little", "more than the peak of 3"},
		{"a peak", func(f *Run) { f.Peak = 5; f.Concurrency = math.NaN() }, "", ""},
		{"about that number in flight", func(f *Run) { f.InFlight = 4.02 }, "", ""},
		{"no bound", func(f *Run) { f.Concurrency = math.Inf(1) }, "", ""},

		{"E2EL less than its parts", func(f *Run) { scale(f, E2EL, 0.65) }, "parts", "TTFT + (1024 tokens - 1) x TPOT are 7922.9 ms"},
		{"E2EL more than its parts", func(f *Run) { scale(f, E2EL, 1.55); f.Concurrency = 8 }, "parts", ""},
		{"about its parts", func(f *Run) { scale(f, E2EL, 0.7) }, "", ""},
		{"lengths that are the same", func(f *Run) { spread(f); f.SameLength = true; scale(f, E2EL, 0.65) }, "parts", ""},
		{"a whole mean of lengths", func(f *Run) {
			spread(f)
			scale(f, E2EL, 1.6)
			scale(f, ITL, 1.6)
			scale(f, TPOT, 1.3)
			f.Concurrency = 8
		}, "", ""},
		{"more than the longest can take", func(f *Run) {
			f.LongestOutput = 1100
			set(f, TPOT, func(l *Latency) { l.Max = 500 })
			scale(f, E2EL, 2)
			f.Concurrency = 8
		}, "parts", "TTFT + (at most 1100 tokens - 1) x TPOT are 8500.5 ms, the mean E2EL is 15845.8 ms"},
		{"spread lengths", func(f *Run) { spread(f); scale(f, E2EL, 1.2) }, "", ""},
		{"spread lengths, slower than any token", func(f *Run) { spread(f); scale(f, E2EL, 1.9); f.Concurrency = 8 }, "parts",
			"TPOT is 7.6 ms, and no request's is beyond 7.01 to 9.03 ms"},
		{"spread lengths, faster than any token", func(f *Run) { spread(f); scale(f, E2EL, 0.6) }, "parts", ""},
		{"spread lengths, but all take the same", func(f *Run) {
			spread(f)
			set(f, TPOT, func(l *Latency) { l.Min = math.NaN() })
			scale(f, E2EL, 0.3)
		}, "parts", "neither TPOT nor E2EL differs much between requests"},
		{"chunks of several tokens", func(f *Run) { scale(f, ITL, 5) }, "", ""},
		{"gaps in another unit", func(f *Run) { scale(f, ITL, 800) }, "between", "Mean ITL 6000 ms and mean TPOT 7.6 ms"},
		{"tokens in another unit", func(f *Run) { delete(f.Latency, E2EL); scale(f, TPOT, 800); f.Concurrency = math.NaN() }, "between",
			"Mean ITL 7.5 ms and mean TPOT 6080 ms"},
		{"gaps that do not add up", func(f *Run) { scale(f, ITL, 0.4) }, "between", "1024 tokens with 3 ms between them"},

		{"a closed loop", func(f *Run) { closed(f, 1) }, "", ""},
		{"a closed loop in another unit", func(f *Run) { closed(f, 1000) }, "idle",
			"32 requests, 4 at a time, take at most 0.0728 s by their E2EL, the log says 63.38 s (Little's law)"},
		{"the same with failed requests", func(f *Run) { closed(f, 1000); f.Completed, f.Failed = 31, 1; f.OutputTokens = 31744 }, "", ""},
		{"the same where nothing says what failed", func(f *Run) { closed(f, 1000); f.Requests, f.Failed = math.NaN(), math.NaN() }, "", ""},
		{"an open loop in another unit", func(f *Run) { closed(f, 1000); f.Closed = false }, "", ""},
		{"a closed loop with a straggler", func(f *Run) { closed(f, 100); set(f, E2EL, func(l *Latency) { l.Max = 62000 }) }, "", ""},
		{"a closed loop that is half idle", func(f *Run) { closed(f, 1); f.Concurrency = 12 }, "idle", "12 at a time"},
		{"a closed loop without a maximum", func(f *Run) { closed(f, 7); noMax(f, math.NaN()) }, "", ""},
		{"a closed loop with a deviation", func(f *Run) { closed(f, 20); noMax(f, 100) }, "idle", "take at most 4.1"},
		{"a closed loop with a deviation of minutes", func(f *Run) { closed(f, 7); noMax(f, 10000) }, "", ""},
		{"a closed loop without E2EL", func(f *Run) { closed(f, 1000); delete(f.Latency, E2EL) }, "idle", ""},

		{"answers without a token", func(f *Run) { *f = Unknown(); f.Completed, f.OutputTokens = 100, 99 }, "tokens",
			"100 requests were answered with 99 tokens, less than one each"},
		{"one token each that goes on", func(f *Run) {
			*f = Unknown()
			f.Completed, f.OutputTokens = 100, 100
			f.Latency[TTFT], f.Latency[E2EL] = Latency{60, 60, 60, nil, 0}, Latency{660, 660, 660, nil, 0}
		}, "tokens", "answered with one token each, so E2EL is TTFT, but their means are 660 and 60 ms"},
		{"a few longer answers", func(f *Run) {
			*f = Unknown()
			f.Completed, f.OutputTokens = 100, 101
			f.Latency[TTFT], f.Latency[E2EL] = Latency{60, 60, 60, nil, 0}, Latency{660, 60, 60060, nil, 0}
		}, "", ""},
		{"a token longer than any of few long answers", func(f *Run) {
			*f = Unknown()
			f.Completed, f.OutputTokens = 100, 110
			f.Latency[TPOT], f.Latency[E2EL] = Latency{900, math.NaN(), math.NaN(), nil, 0}, Latency{60, 50, 600, nil, 0}
		}, "longer", ""},

		{"a text of half the tokens", func(f *Run) { f.Retokenized = 16400 }, "", ""},
		{"hardly a text", func(f *Run) { f.Retokenized = 32 }, "returned", "holds 32 tokens, of 32768"},
		{"no text", func(f *Run) { f.Retokenized = 0 }, "returned", ""},
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

// What is possible and seldom is worth a warning, and no more.
func TestUnusual(t *testing.T) {
	lasting := func(f *Run, seconds float64) {
		for _, rate := range []*float64{&f.RequestRate, &f.InputRate, &f.OutputRate, &f.TotalRate} {
			*rate *= f.Duration / seconds
		}
		f.Duration = seconds
	}
	for _, c := range []struct {
		name   string
		change func(f *Run)
		text   string // "": no warning
	}{
		{"as it is", func(f *Run) { f.Closed = true }, ""},
		{"a straggler", func(f *Run) {
			f.Closed = true
			lasting(f, 600)
			f.Latency[E2EL] = Latency{7922.9, 7310, 550000, nil, 0}
		}, "32 requests of 7922.9 ms in 600 s keep 0.423 in flight, less than half of the concurrency of 4"},
		{"an open loop", func(f *Run) { lasting(f, 600) }, ""},
		{"a broken law", func(f *Run) { f.Closed = true; lasting(f, 6000) }, ""},
		{"a duration that the rates deny", func(f *Run) { f.Closed, f.Duration = true, 150 }, ""},
		{"as many requests as may be in flight", func(f *Run) { f.Closed, f.Concurrency = true, 32; lasting(f, 20) }, ""},
		{"most tokens came", func(f *Run) { f.Retokenized = 26300 }, ""},
		{"tokens that did not come", func(f *Run) { f.Retokenized = 14500 },
			"the text that came back holds 14500 of 32768 tokens (44.3 %): 228.78 tok/s by those that came, 517.01 by those that were counted"},
		{"and TPOT says so, too", func(f *Run) { f.Retokenized, f.Latency[ITL] = 14500, Latency{Mean: 17} }, "; TPOT is 44.7 % of ITL, too"},
		{"hardly a token", func(f *Run) { f.Retokenized = 32 }, ""},
	} {
		f := sample()
		c.change(&f)
		var texts []string
		for _, v := range f.Unusual() {
			texts = append(texts, v.Text)
		}
		if text := strings.Join(texts, "; "); c.text == "" && text != "" || !strings.Contains(text, c.text) {
			t.Errorf("%s: %q, want %q", c.name, text, c.text)
		}
	}
}
