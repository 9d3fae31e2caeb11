package runs

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"perigee/internal/serving"
)

// Role is the part of an engine in serving.
type Role int

// The roles. A replica does both prefill and decode.
const (
	Replica Role = iota
	Prefill
	Decode
)

var roleLetters = [...]string{"R", "P", "D"}

// Host is one instance of the inference engine, or several that are alike.
type Host struct {
	Role  Role
	Count int    // 0 stands for 1
	GPU   string // model of the accelerator; "" if unknown

	// Degrees of parallelism: tensor, data, pipeline, expert. NaN if unknown.
	TP, DP, PP, EP float64
	// GPUs is how many accelerators one instance uses. NaN if unknown.
	GPUs float64
}

func (h Host) count() int { return max(1, h.Count) }

// alike reports whether instances differ in nothing but their number.
func (h Host) alike(o Host) bool {
	same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
	return h.Role == o.Role && h.GPU == o.GPU && same(h.TP, o.TP) && same(h.DP, o.DP) && same(h.PP, o.PP) &&
		same(h.EP, o.EP) && same(h.GPUs, o.GPUs)
}

// Statistic is a figure of a distribution.
type Statistic int

// The statistics of a report, in the order of the columns.
const (
	Mean Statistic = iota
	StdDev
	Min
	P0p1
	P1
	P5
	P10
	P25
	P50
	P75
	P90
	P95
	P99
	P99p9
	Max
	Statistics // how many there are
)

var statisticNames = [Statistics]string{
	"Mean", "StdDev", "Min", "P0.1", "P1", "P5", "P10", "P25", "P50", "P75", "P90", "P95", "P99", "P99.9", "Max",
}

// percents are the percentiles among them.
var percents = map[Statistic]float64{P0p1: 0.1, P1: 1, P5: 5, P10: 10, P25: 25, P50: 50, P75: 75, P90: 90, P95: 95,
	P99: 99, P99p9: 99.9}

// Latency is a kind of latency.
type Latency int

// The latencies of a report: time to first token, time per output token, inter
// token latency, end-to-end request latency (all ms or ms per token), and time
// per output token that counts the first token, too.
const (
	TTFT Latency = iota
	TPOT
	ITL
	E2EL
	NTPOT
	Latencies // how many there are
)

var latencyNames = [Latencies]string{"TTFT", "TPOT", "ITL", "E2EL", "NTPOT"}

// Record is one benchmark run. Numbers are NaN where unknown. Of a report of llm-d, Requests is its requests.total, and
// Completed is not known: see [Record.Answered].
type Record struct {
	serving.Run

	File      string // as it was found, for messages
	Folder    string // name of the folder that File lies in
	Directory string // absolute path of the sweep that the run belongs to
	Schema    string // version of the report: "0.1", or "perigee.result/1"

	Model   string
	Hosts   []Host
	Backend string // engine, such as vllm
	Harness string // generator of the load
	Start   time.Time
	Rate    float64 // requests per second that were offered
	Unended float64 // requests that were not ended when the benchmark was

	InputLength, OutputLength float64 // means, tokens
	ISL, OSL                  float64 // the same, rounded for grouping

	perGPU float64 // output tokens per second and GPU, where a client gives that alone

	Workload Workload
	Scorers  Scorers

	// Transfer marks results of perigee itself; the others come from reports of requests.
	// Results of perigee belong to no scenario.
	Transfer      bool
	Label         string  // the result's name, or the folder of a client's files
	TransferMS    float64 // mean latency of a traffic pattern
	TransferBytes float64 // mean bandwidth of a traffic pattern, bytes/s

	// OffFront says why the run is kept off a Pareto front, see [Doubts]; empty if it is not.
	OffFront []string
	Relaxed  []string // options that take these reasons away

	// Notes are remarks about the import. The same trouble has the same text.
	Notes []string
}

// New returns a run of which nothing is known.
func New(file string) *Record {
	nan := math.NaN()
	r := &Record{
		Run: serving.Unknown(), File: file, Rate: nan, Unended: nan, InputLength: nan, OutputLength: nan,
		ISL: nan, OSL: nan, perGPU: nan, TransferMS: nan, TransferBytes: nan, Workload: unknownWorkload(),
		Scorers: unknownScorers(),
	}
	r.Source = "report"
	return r
}

// ofClient reports whether a client has written the run, whose folder is its configuration.
func (r *Record) ofClient() bool { return r.Schema == clientLog || r.Schema == clientResult }

// Stat is a statistic of a latency in ms, or ms per token; NaN where it is not known.
func (r *Record) Stat(l Latency, s Statistic) float64 {
	latency, known := r.Latency[latencyNames[l]]
	percent, isPercentile := percents[s]
	value, hasPercentile := latency.Percentiles[percent]
	switch {
	case !known || isPercentile && !hasPercentile:
		return math.NaN()
	case isPercentile:
		return value
	}
	return *place(&latency, s)
}

// Set sets one.
func (r *Record) Set(l Latency, s Statistic, value float64) {
	latency, known := r.Latency[latencyNames[l]]
	if !known {
		latency = serving.NoLatency()
	}
	setStat(&latency, s, value)
	r.Latency[latencyNames[l]] = latency
}

func setStat(l *serving.Latency, s Statistic, value float64) {
	if percent, isPercentile := percents[s]; isPercentile {
		l.Percentiles[percent] = value
	} else {
		*place(l, s) = value
	}
}

// place is where a statistic stands that is no percentile.
func place(l *serving.Latency, s Statistic) *float64 {
	return map[Statistic]*float64{Mean: &l.Mean, StdDev: &l.Std, Min: &l.Min, Max: &l.Max}[s]
}

// MostKinds is how many kinds of engines a run may have. Names and cells list them.
const MostKinds = 64

// Add adds instances of the engine. It reports whether there is room for a kind more.
func (r *Record) Add(h Host) bool {
	if i := slices.IndexFunc(r.Hosts, h.alike); i >= 0 {
		r.Hosts[i].Count = r.Hosts[i].count() + h.count()
		return true
	}
	r.Hosts = append(r.Hosts, h)
	return len(r.Hosts) <= MostKinds
}

// Engines is how many there are.
func (r *Record) Engines() (n int) {
	for _, h := range r.Hosts {
		n += h.count()
	}
	return n
}

// of returns the hosts of a role.
func (r *Record) of(role Role) []Host {
	var list []Host
	for _, h := range r.Hosts {
		if h.Role == role {
			list = append(list, h)
		}
	}
	return list
}

// IsPD reports whether any engine only does prefill or decode.
func (r *Record) IsPD() bool {
	return slices.ContainsFunc(r.Hosts, func(h Host) bool { return h.Role != Replica })
}

// GPU is the model of the accelerators. Different ones are joined by " + ", so
// that no run counts as one of the first host's kind alone.
func (r *Record) GPU() string {
	names := make([]string, len(r.Hosts))
	for i, h := range r.Hosts {
		names[i] = h.GPU
	}
	return Join(names)
}

// Join joins what is different among names, sorted, by " + ".
func Join(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
	return strings.Join(names, " + ")
}

// NumGPUs is the sum over the hosts, NaN if one of them is unknown or there is
// none.
func (r *Record) NumGPUs() float64 {
	if len(r.Hosts) == 0 {
		return math.NaN()
	}
	var sum float64
	for _, h := range r.Hosts {
		sum += h.GPUs * float64(h.count())
	}
	if whole := math.Round(sum); math.Abs(sum-whole) < 1e-9 { // of thirds, say
		return whole
	}
	return sum
}

// Name says how the engines were set up: "2R TP4" for two replicas with tensor
// parallelism 4, "4P TP1, 1D TP4" for four prefill engines and a decode engine.
// Engines of a role that differ are joined by " + ". Parallelism other than TP
// is named where it is not 1. The name is "" for a run without hosts.
func (r *Record) Name() string {
	if r.Transfer || r.ofClient() {
		return r.Label
	}
	var roles []string
	for _, role := range []Role{Replica, Prefill, Decode} {
		if hosts := r.of(role); len(hosts) > 0 {
			roles = append(roles, describe(role, hosts))
		}
	}
	return strings.Join(roles, ", ")
}

// describe names the engines of a role, groups of like ones sorted.
func describe(role Role, hosts []Host) string {
	counts := map[string]int{}
	for _, h := range hosts {
		counts[h.parallelism()] += h.count()
	}
	kinds := slices.SortedFunc(maps.Keys(counts), Natural)
	for i, kind := range kinds {
		kinds[i] = strings.TrimSpace(fmt.Sprintf("%d%s %s", counts[kind], roleLetters[role], kind))
	}
	return strings.Join(kinds, " + ")
}

func (h Host) parallelism() string {
	var parts []string
	for _, p := range []struct {
		name  string
		value float64
		plain bool // not worth a word
	}{{"TP", h.TP, false}, {"DP", h.DP, h.DP == 1}, {"PP", h.PP, h.PP == 1}, {"EP", h.EP, h.EP == 1}} {
		if !p.plain && !math.IsNaN(p.value) {
			parts = append(parts, fmt.Sprintf("%s%v", p.name, p.value))
		}
	}
	return strings.Join(parts, " ")
}

// Natural compares texts such that numbers in them count by their value: "2R"
// comes before "10R".
func Natural(a, b string) int {
	restA, restB := a, b
	for restA != "" && restB != "" {
		digitsA, digitsB := leadingDigits(restA), leadingDigits(restB)
		if digitsA == "" || digitsB == "" {
			if restA[0] != restB[0] {
				return cmp.Compare(restA[0], restB[0])
			}
			restA, restB = restA[1:], restB[1:]
			continue
		}
		restA, restB = restA[len(digitsA):], restB[len(digitsB):]
		digitsA, digitsB = strings.TrimLeft(digitsA, "0"), strings.TrimLeft(digitsB, "0")
		if c := cmp.Or(cmp.Compare(len(digitsA), len(digitsB)), cmp.Compare(digitsA, digitsB)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(restA), len(restB)), cmp.Compare(a, b))
}

func leadingDigits(s string) string {
	end := 0
	for end < len(s) && '0' <= s[end] && s[end] <= '9' {
		end++
	}
	return s[:end]
}

// ThptPerGPU is output tokens per second and GPU.
func (r *Record) ThptPerGPU() float64 {
	if !math.IsNaN(r.perGPU) {
		return r.perGPU
	}
	return ratio(r.OutputRate, r.NumGPUs())
}

// ThptPerUser is output tokens per second and concurrent request. It is unknown
// where the concurrency is, or is infinite.
func (r *Record) ThptPerUser() float64 {
	if math.IsInf(r.Concurrency, 0) {
		return math.NaN()
	}
	return ratio(r.OutputRate, r.Concurrency)
}

// ThptPerUserTPOT is how many tokens per second one user sees once the first has
// come: 1000 / mean TPOT in ms.
func (r *Record) ThptPerUserTPOT() float64 { return ratio(1000, r.Stat(TPOT, Mean)) }

// ratio is a / b, NaN where b is not above 0.
func ratio(a, b float64) float64 {
	if !(b > 0) {
		return math.NaN()
	}
	return a / b
}

// Round rounds to the nearest multiple of step, halves to the even one.
func Round(x, step float64) float64 {
	return math.RoundToEven(x/step) * step
}
