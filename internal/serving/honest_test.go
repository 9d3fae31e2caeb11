package serving

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// request is one request of a simulated run. Times are in ms.
type request struct {
	tokens         int
	ttft           float64
	gaps           []float64 // between chunks
	start, latency float64
	failed         bool
}

// load says how a client offers requests.
type load struct {
	concurrency int     // 0: no bound
	rate        float64 // per second; 0: as soon as a place is free
	pause, ramp bool    // a user thinks before the next request; places open one after the other
	failing     float64 // share of requests that fail, after any time
}

// closed reports whether only the end of a request begins another.
func (l load) closed() bool { return l.concurrency > 0 && l.rate == 0 && !l.pause && !l.ramp }

func lognormal(r *rand.Rand, mean, sigma float64) float64 {
	return mean * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)
}

// pareto is heavy-tailed: single values are a thousand times the least.
func pareto(r *rand.Rand, least, alpha float64) float64 {
	return least * math.Pow(1-r.Float64(), -1/alpha)
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// loads draws how a client offers requests.
func loads(r *rand.Rand) (l load) {
	l.concurrency = pick(r, 0, 1, 2, 4, 8, 16, 64)
	switch r.IntN(8) {
	case 0:
		l.rate = lognormal(r, 5, 2)
	case 1:
		l.pause = true
	case 2:
		l.ramp = true
	case 3:
		l.failing = 0.2 * r.Float64()
	}
	return l
}

// simulate serves requests as a client sees them, with a model of any speed, answers of any lengths, heavy tails,
// stalls and stragglers of minutes. It returns them, how they were offered, and the duration in ms.
func simulate(r *rand.Rand) (list []request, l load, duration float64) {
	l = loads(r)
	n, chunk := pick(r, 1, 2, 5, 10, 16, 32, 100), pick(r, 1, 1, 1, 2, 4, 8, 100)
	lengths, firsts, speeds := r.IntN(8), r.IntN(4), r.IntN(5)
	ttft, tpot, stalling := lognormal(r, 200, 1.5)+1, lognormal(r, 10, 1)+0.1, pick(r, 0, 0, 0.001, 0.02)
	length, spread, correlation := 1+r.IntN(300), r.Float64(), r.Float64()*2-1
	straggling := pick(r, 0, 0, 0.02, 0.1)
	slots, now := make([]float64, max(1, l.concurrency)), 0.0 // when each is free
	for i := range n {
		z := r.NormFloat64()
		q := request{failed: r.Float64() < l.failing}
		q.tokens = []int{1, length, length, 1 + r.IntN(4), pick(r, 1, 1, 1, 500), 10 + r.IntN(190),
			max(1, min(2000, int(float64(length)*math.Exp(spread*z)))), pick(r, 20, 20, 20, 20, 20, 20, 20, 20, 20, 1500)}[lengths]
		q.ttft = []float64{ttft, lognormal(r, ttft, 0.5), pareto(r, 1+ttft/10, 1.1), 1 + ttft/4 + 20*float64(i)}[firsts]
		each := []float64{tpot, tpot * math.Exp(0.5*(correlation*z+r.NormFloat64())), pareto(r, tpot/3, 1.2), tpot,
			tpot * (0.5 + float64(q.tokens)/500)}[speeds]
		if r.Float64() < straggling {
			q.ttft += lognormal(r, 120e3, 0.5)
		}
		q.latency = q.ttft
		if chunk <= 8 { // a stream, and its end
			q.latency += pick(r, 0, 0, 1.0, 20) * r.Float64()
		}
		for left := q.tokens - chunk; left > 0; left -= chunk { // the first chunk has the first token
			gap := each * float64(min(chunk, left)) * (0.8 + 0.4*r.Float64())
			if r.Float64() < stalling {
				gap += lognormal(r, 20e3, 1)
			}
			q.gaps = append(q.gaps, gap)
			q.latency += gap
		}
		place := 0
		if l.concurrency > 0 {
			place = slices.Index(slots, slices.Min(slots))
		}
		switch {
		case l.rate > 0:
			now += r.ExpFloat64() * 1000 / l.rate
		case l.ramp:
			now += 2000 * r.Float64() * float64(min(i, 20)) / 20
		}
		q.start = now
		if l.concurrency > 0 {
			q.start = max(now, slots[place])
		}
		slots[place] = q.start + q.latency
		duration = max(duration, q.start+q.latency)
		if q.failed {
			slots[place] += lognormal(r, 60e3, 1)
			duration = max(duration, slots[place])
		}
		if l.pause {
			slots[place] += lognormal(r, 30e3, 1)
		}
		list = append(list, q)
	}
	return list, l, max(60, duration*(1+0.02*r.Float64())+500*r.Float64())
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
func figures(r *rand.Rand, list []request, l load, duration float64) Run {
	f := Unknown()
	f.Exact, f.Closed = r.IntN(2) == 0, l.closed()
	if l.concurrency > 0 {
		f.Concurrency = float64(l.concurrency)
	}
	f.Requests, f.Failed, f.Completed, f.OutputTokens, f.InputTokens = float64(len(list)), 0, 0, 0, 0
	all := map[string][]float64{}
	longest, same := 0, true
	for _, q := range list {
		if q.failed {
			f.Failed++
			continue
		}
		f.Completed++
		f.InputTokens += 100
		f.OutputTokens += float64(q.tokens)
		same = same && (longest == 0 || longest == q.tokens)
		longest = max(longest, q.tokens)
		all[TTFT] = append(all[TTFT], q.ttft)
		all[E2EL] = append(all[E2EL], q.latency)
		if q.tokens > 1 {
			all[TPOT] = append(all[TPOT], (q.latency-q.ttft)/float64(q.tokens-1))
		}
		all[ITL] = append(all[ITL], q.gaps...)
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
	if r.IntN(2) == 0 {
		f.Peak = peak(list)
	}
	if r.IntN(2) == 0 {
		f.LongestOutput, f.SameLength = float64(longest), same
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
	for _, v := range values {
		l.Std += (v - l.Mean) * (v - l.Mean) / float64(len(values))
	}
	l.Std = math.Sqrt(l.Std)
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
func change(f Run, do func(float64) float64) Run {
	for _, x := range []*float64{&f.Duration, &f.RequestRate, &f.InputRate, &f.OutputRate, &f.TotalRate} {
		*x = do(*x)
	}
	return changeLatency(f, do)
}

func changeLatency(f Run, do func(float64) float64) Run {
	latency := map[string]Latency{}
	for _, q := range quantities {
		l := f.Latency[q]
		to := Latency{do(l.Mean), do(l.Min), do(l.Max), map[float64]float64{}, do(l.Std)}
		for p, x := range l.Percentiles {
			to.Percentiles[p] = do(x)
		}
		latency[q] = to
	}
	f.Latency = latency
	return f
}

// honestRuns is how many runs are drawn.
const honestRuns = 5000

// No honest run breaks a law, however its figures are rounded and whichever of them are given.
func TestHonestRunsBreakNoLaw(t *testing.T) {
	first := rand.Uint64()
	t.Log("the first seed is", first)
	wrong := map[string]int{}
	for seed := first; seed < first+honestRuns; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		list, l, duration := simulate(r)
		f := figures(r, list, l, duration)
		unit, missing := math.Pow(10, float64(r.IntN(5))), pick(r, 0, 0, 0.1)
		f = change(f, func(x float64) float64 {
			switch {
			case r.Float64() < missing:
				return math.NaN()
			case unit == 1e4 || unit >= 100 && x > 1 && r.IntN(20) == 0:
				return x
			}
			return math.Round(x*unit) / unit
		})
		for _, v := range f.Check() {
			if wrong[v.Law]++; wrong[v.Law] == 1 {
				t.Errorf("seed %d: %s: %s\n%+v", seed, v.Law, v.Text, f)
			}
		}
	}
	if len(wrong) > 0 {
		t.Errorf("false alarms by law: %v", wrong)
	}
}

// Times a thousand times too short break the law of closed loops, unless single requests could have taken all the time.
func TestTimesInSecondsBreakALaw(t *testing.T) {
	first := rand.Uint64()
	t.Log("the first seed is", first)
	found, all := 0, 0
	for seed := first; all < 200; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		list, l, duration := simulate(r)
		if !l.closed() || l.failing > 0 || duration < 20e3 {
			continue
		}
		all++
		f := changeLatency(figures(r, list, l, duration), func(ms float64) float64 { return ms / 1000 })
		f.InFlight = math.NaN() // which gives them away by itself
		if slices.ContainsFunc(f.Check(), func(v Violation) bool { return v.Law == Idle }) {
			found++
		}
	}
	if found < all*95/100 {
		t.Errorf("%d of %d are found", found, all)
	}
}
