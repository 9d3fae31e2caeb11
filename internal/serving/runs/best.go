package runs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
)

// fewestLevels is how many levels of load a knee takes.
const fewestLevels = 4

// Best says in a sentence which configuration is best, and at which load: within SLOs the one with the highest rate of
// output tokens, of a GPU where the numbers of GPUs are known; without any the one whose knee has. Beyond the knee
// latency grows faster than the rate, each as a part of its range over the levels (Satopaa and others 2011). Runs that
// are kept off a Pareto front do not count, and it says how many these are. It is "" where there is nothing to choose
// from.
func Best(all []*Record, slos []SLO, split ...*Column) string {
	all = slices.DeleteFunc(slices.Clone(all), func(r *Record) bool { return r.Transfer })
	sound := slices.DeleteFunc(slices.Clone(all), func(r *Record) bool { return len(r.OffFront) > 0 })
	text := best(sound, slos, split)
	if left := len(all) - len(sound); left > 0 {
		first := all[slices.IndexFunc(all, func(r *Record) bool { return len(r.OffFront) > 0 })]
		text = fmt.Sprintf("%s; %d of %s left out, for one: %s", cmp.Or(text, "nothing to choose from"), left,
			cli.Count(len(all), "run"), first.OffFront[0])
	}
	return text
}

func best(all []*Record, slos []SLO, split []*Column) string {
	all = slices.DeleteFunc(all, func(r *Record) bool { return !(r.OutputRate > 0 || r.ThptPerGPU() > 0) })
	if len(all) == 0 || len(all) == 1 && len(slos) == 0 {
		return ""
	}
	rate, unit := (*Record).ThptPerGPU, "tok/s/GPU"
	if slices.ContainsFunc(all, func(r *Record) bool { return math.IsNaN(r.ThptPerGPU()) }) {
		rate, unit = func(r *Record) float64 { return r.OutputRate }, "tok/s"
	}
	words := func(r *Record) string {
		at := ""
		if c := r.Concurrency; !math.IsNaN(c) {
			at = fmt.Sprintf(" at concurrency %g", c)
		}
		return fmt.Sprintf("%s%s, %.4g %s", r.Setup(split...), at, rate(r), unit)
	}
	highest := func(list []*Record) *Record {
		return slices.MaxFunc(list, func(a, b *Record) int { return cmp.Compare(rate(a), rate(b)) })
	}
	if len(slos) > 0 {
		texts := make([]string, len(slos))
		for i, s := range slos {
			texts[i] = s.String()
			if !slices.ContainsFunc(all, func(r *Record) bool { return s.Column.Of(r).Plain() != nil }) {
				return fmt.Sprintf("no run has %s, on which there is an SLO", s.Column.Name)
			}
		}
		within := strings.Join(texts, ", ")
		met := slices.DeleteFunc(all, func(r *Record) bool { return !Meets(r, slos) })
		if len(met) == 0 {
			return "no run is within " + within
		}
		return fmt.Sprintf("best within %s: %s", within, words(highest(met)))
	}
	var knees []*Record
	for _, c := range Configurations(all, false, split...) {
		if k := knee(c.Runs, rate); k != nil {
			knees = append(knees, k)
		}
	}
	if len(knees) == 0 {
		return "highest rate of output tokens: " + words(highest(all))
	}
	chosen := highest(knees)
	text := fmt.Sprintf("best knee: %s, mean E2EL %s", words(chosen), seconds(chosen.Stat(E2EL, Mean)))
	if top := highest(all); top != chosen {
		text += fmt.Sprintf("; the highest rate is that of %s, mean E2EL %s", words(top), seconds(top.Stat(E2EL, Mean)))
	}
	return text
}

func seconds(ms float64) string {
	if math.IsNaN(ms) {
		return "unknown"
	}
	return fmt.Sprintf("%.3g s", ms/1000)
}

// knee is the level of a configuration from which on latency grows faster than the rate; nil where there are too few.
func knee(list []*Record, rate func(*Record) float64) *Record {
	list = slices.DeleteFunc(slices.Clone(list), func(r *Record) bool { return math.IsNaN(r.Stat(E2EL, Mean)) })
	latencies, rates := make([]float64, len(list)), make([]float64, len(list))
	for i, r := range list {
		latencies[i], rates[i] = r.Stat(E2EL, Mean), rate(r)
	}
	flat := func(all []float64) bool { return slices.Max(all) == slices.Min(all) }
	if len(list) < fewestLevels || flat(rates) || flat(latencies) {
		return nil
	}
	part := func(x float64, all []float64) float64 {
		return (x - slices.Min(all)) / (slices.Max(all) - slices.Min(all))
	}
	best, most := 0, math.Inf(-1)
	for i := range list {
		if above := part(rates[i], rates) - part(latencies[i], latencies); above > most {
			best, most = i, above
		}
	}
	return list[best]
}
