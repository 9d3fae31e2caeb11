package figures

import (
	"maps"
	"math"
	"slices"
	"time"

	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// Shares say what each class of traffic got, by the keys class, slo_ms and weight of the patterns. A figure without
// what it rests on is missing: nothing is inferred. docs/report.md has the formulas.
type Shares struct {
	Classes []Share `json:"classes"` // by name; a pattern without one is of the class ""
	Jain    Num     `json:"jain"`    // index of throughput / weight over the classes, of 2 at least
	Goodput Num     `json:"weighted_goodput"`
}

// Share is what a class got in the workload. Throughputs are bytes per second while its runs were under way.
type Share struct {
	Class      string `json:"class"`
	Runs       int    `json:"runs"`
	Weight     Num    `json:"weight"` // missing where its patterns have several
	Throughput Num    `json:"throughput"`
	Isolated   Num    `json:"isolated_throughput"` // of the same bytes, each pattern in its isolated latency
	Leakage    Num    `json:"isolation_leakage"`
	Attainment Num    `json:"slo_attainment"` // part of the runs that kept their SLO
	Goodput    Num    `json:"goodput"`        // Throughput x Attainment
}

// Share works out what the classes got. A pattern without an SLO gets slo, if that is above 0; used reports whether
// there is one. Without classes and SLOs there are no shares.
func (f *Figures) Share(slo time.Duration) (used bool) {
	sums := map[string]*classSums{}
	said := false
	for i := range f.Document.Patterns {
		p, runs, alone := &f.Document.Patterns[i], f.runs[i].Workload, stats.Mean(f.runs[i].Alone)
		if len(runs) == 0 || f.Patterns[i].Bytes == 0 {
			continue
		}
		terms := p.Terms()
		said = said || terms.Class != "" || terms.SLONS > 0 || slo > 0
		if !(terms.SLONS > 0) && slo > 0 {
			terms.SLONS, used = float64(slo), true
		}
		if sums[terms.Class] == nil {
			sums[terms.Class] = &classSums{weight: terms.Weight}
		}
		sums[terms.Class].add(f.Patterns[i].Bytes, terms, runs, alone)
	}
	if f.Shares = nil; said {
		f.Shares = sharesOf(sums)
	}
	return used
}

// classSums sum up the runs of a class. Times are in nanoseconds.
type classSums struct {
	runs, kept, judged int
	weight             float64
	bytes              float64
	time, alone        float64 // NaN where a pattern has not run alone
}

func (s *classSums) add(bytes int64, t result.Terms, runs []float64, alone float64) {
	if s.weight != t.Weight {
		s.weight = math.NaN()
	}
	for _, ns := range runs {
		s.runs, s.bytes, s.time, s.alone = s.runs+1, s.bytes+float64(bytes), s.time+ns, s.alone+alone
		if t.SLONS > 0 {
			s.judged++
		}
		if ns <= t.SLONS {
			s.kept++
		}
	}
}

func (s *classSums) share(class string) Share {
	x := Share{Class: class, Runs: s.runs, Weight: Num(s.weight), Attainment: None,
		Throughput: ratio(s.bytes*1e9, s.time), Isolated: ratio(s.bytes*1e9, s.alone)}
	if s.judged == s.runs {
		x.Attainment = Num(float64(s.kept) / float64(s.runs))
	}
	x.Leakage = leakage(x.Throughput, x.Isolated)
	x.Goodput = x.Throughput * x.Attainment
	return x
}

func sharesOf(sums map[string]*classSums) *Shares {
	s := &Shares{}
	var fair []float64
	for _, class := range slices.Sorted(maps.Keys(sums)) {
		x := sums[class].share(class)
		s.Classes = append(s.Classes, x)
		s.Goodput += x.Weight * x.Goodput
		fair = append(fair, float64(x.Throughput/x.Weight))
	}
	s.Jain = jain(fair)
	return s
}

// leakage is the part of its isolated throughput that a class loses to others.
func leakage(mixed, isolated Num) Num {
	return max(0, 1-ratio(float64(mixed), float64(isolated))) // max of NaN is NaN
}

// jain is the index of fairness of Jain, Chiu and Hawe (1984): (sum x)^2 / (n sum x^2), 1 where all are equal and 1/n
// where one has all. It is missing of fewer than 2 values.
func jain(values []float64) Num {
	var sum, squares float64
	for _, x := range values {
		sum, squares = sum+x, squares+x*x
	}
	if len(values) < 2 {
		return None
	}
	return ratio(sum*sum, float64(len(values))*squares)
}
