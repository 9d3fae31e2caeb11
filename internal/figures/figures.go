package figures

import (
	"strconv"

	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// Isolated is the name of the phase in which patterns run alone.
const Isolated = "isolated"

// Num is a figure that may be missing.
type Num = stats.Num

// None is a missing figure.
var None = stats.None

// Figures are computed from one result. Times are in nanoseconds,
// bandwidths in bytes per second, slowdowns are ratios.
type Figures struct {
	// Document is the result without its measurements.
	Document *result.Document `json:"-"`

	Runs       int              `json:"runs"`       // of patterns, all phases
	Messages   int64            `json:"messages"`   // of all runs
	Bytes      int64            `json:"bytes"`      // of all runs of the workload
	Slowdown   Num              `json:"slowdown"`   // of all messages
	Contention Contention       `json:"contention"` // what overlapping cost
	Link       Link             `json:"link"`       // of the busiest host
	Answer     Answer           `json:"answer"`     // first of all
	Findings   []Finding        `json:"findings"`   // in words
	LeftOut    []string         `json:"left_out"`   // what the figures do not cover, in words
	Patterns   []PatternFigures `json:"patterns"`   // in the order of the result
	Latencies  []Latency        `json:"latencies"`  // distributions
	Pairs      []Pair           `json:"pairs"`      // with traffic, by sender and receiver
	Ranks      []Rank           `json:"ranks"`      // all
	HostPairs  []HostPair       `json:"host_pairs"` // with traffic, by sender and receiver
	Blocks     Blocks           `json:"blocks"`
	Starts     Starts           `json:"starts"`           // by the clock
	Shares     *Shares          `json:"shares,omitempty"` // see Share
	Moved      *Moved           `json:"moved,omitempty"`  // nil where nothing was looked at
	Replay     *Replay          `json:"replay,omitempty"`
	Timeline   Timeline         `json:"-"`

	runs []result.Latencies // of each pattern
}

// Starts counts the starts of initiators that had agreed on an instant.
type Starts struct {
	Of     int   `json:"of"`
	Late   int   `json:"late"`   // ready only after the instant
	Latest int64 `json:"latest"` // by how many nanoseconds at most
}

// PatternFigures holds the times of one pattern.
type PatternFigures struct {
	Index     int    `json:"index"`
	Name      string `json:"name"`
	Request   string `json:"request,omitempty"`  // whose cache it moves: request 3
	Tokens    int64  `json:"tokens,omitempty"`   // of input, of this request or batch
	KVBytes   int64  `json:"kv_bytes,omitempty"` // of caches and states, before they were scaled
	Op        string `json:"op"`
	Mem       string `json:"mem"`
	Bytes     int64  `json:"bytes"`
	Senders   int    `json:"senders"`
	Receivers int    `json:"receivers"`
	Messages  int    `json:"messages"`

	SleepBeforeNS Num `json:"sleep_before_ns"`
	SleepAfterNS  Num `json:"sleep_after_ns"`

	IsolatedRuns int `json:"isolated_runs"`
	IsolatedNS   Num `json:"isolated_ns"`
	// The fastest and the slowest of the runs alone.
	IsolatedFastestNS Num `json:"isolated_fastest_ns"`
	IsolatedSlowestNS Num `json:"isolated_slowest_ns"`

	Runs int `json:"runs"` // in the workload
	// Drifts says that several initiators went from run to run without meeting, and the pattern never ran alone:
	// LatencyNS is then the total time / Runs, and the runs have no range. Else it is the median over the runs.
	Drifts        bool `json:"drifts,omitempty"`
	LatencyNS     Num  `json:"latency_ns"`
	FastestNS     Num  `json:"fastest_ns"`
	SlowestNS     Num  `json:"slowest_ns"`
	P10NS         Num  `json:"p10_ns"` // of the workload's runs, or of those alone if there are no others
	P90NS         Num  `json:"p90_ns"`
	MeanBandwidth Num  `json:"mean_bandwidth"` // of a sender, mean over the senders; median over the runs
	// TotalBandwidth is Bytes / LatencyNS.
	TotalBandwidth Num `json:"total_bandwidth"`
	// StartSkewNS is last start - first start of the initiators, StartWaitNS what a run takes longer than that of its
	// initiators which takes longest from its own start. That is part of LatencyNS. Both are medians over the runs.
	StartSkewNS Num `json:"start_skew_ns"`
	StartWaitNS Num `json:"start_wait_ns"`
	// WorstStartSkewNS is the largest of a run, ApartRuns how many runs have one above half of
	// LatencyNS and above five times StartSkewNS.
	WorstStartSkewNS Num `json:"worst_start_skew_ns"`
	ApartRuns        int `json:"apart_runs"`
	SkewRuns         int `json:"skew_runs"` // of how many runs the skew is known
	// UncertaintyNS is how far latencies may be off because of the hosts' clocks.
	UncertaintyNS int64 `json:"uncertainty_ns"`
	Slowdown      Num   `json:"slowdown"` // LatencyNS / IsolatedNS
}

// Label names the pattern for people: by its request where that is known, and by its number where the two differ.
func (p *PatternFigures) Label() string {
	number := strconv.Itoa(p.Index)
	switch p.Request {
	case "":
		return number
	case "request " + number:
		return p.Request
	}
	return number + ": " + p.Request
}

// Latency is the distribution of one kind of time in one phase, to 0.1 %.
// Percentiles for which there are too few values are missing: P99.9 of 100 values.
type Latency struct {
	Of    string `json:"of"` // pattern, message or slowdown
	Phase string `json:"phase"`
	Unit  string `json:"unit"` // ns or ratio
	Count int64  `json:"count"`
	Min   Num    `json:"min"`
	P50   Num    `json:"p50"`
	P90   Num    `json:"p90"`
	P95   Num    `json:"p95"`
	P99   Num    `json:"p99"`
	P999  Num    `json:"p999"`
	Max   Num    `json:"max"`
	// Curve is the cumulated distribution: [value, share of those not above it].
	Curve [][2]Num `json:"curve"`
}

// Pair is the traffic from one rank to another. Bandwidth is the bytes of all
// its messages / the sum of their latencies.
type Pair struct {
	From              int   `json:"from"`
	To                int   `json:"to"`
	Bytes             int64 `json:"bytes"`    // in all patterns, once each
	Messages          int   `json:"messages"` // likewise
	LatencyNS         Num   `json:"latency_ns"`
	IsolatedNS        Num   `json:"isolated_ns"` // mean over the same messages
	Bandwidth         Num   `json:"bandwidth"`
	IsolatedBandwidth Num   `json:"isolated_bandwidth"`
	Slowdown          Num   `json:"slowdown"`
	// Contention is how many times as long its messages take when they overlap, where that is shown; else missing.
	Contention Num `json:"contention"`
}

// Rank counts the bytes that one rank sends and receives.
type Rank struct {
	Rank         int   `json:"rank"`
	Host         int   `json:"host"` // index into the world's hosts
	Sent         int64 `json:"sent"` // bytes in all patterns, once each
	Received     int64 `json:"received"`
	SendSlowdown Num   `json:"send_slowdown"`
	RecvSlowdown Num   `json:"recv_slowdown"`
}

// HostPair is the traffic from the ranks of one host to those of another, or
// of itself.
type HostPair struct {
	From      int   `json:"from"` // index into the world's hosts
	To        int   `json:"to"`
	Bytes     int64 `json:"bytes"`
	Messages  int   `json:"messages"`
	LatencyNS Num   `json:"latency_ns"` // mean over the messages
	Bandwidth Num   `json:"bandwidth"`
	Slowdown  Num   `json:"slowdown"`
}

// Span is one rank's part in one run of a pattern of the workload.
type Span struct {
	Rank      int
	Pattern   int
	Iteration int
	Target    bool // it only received from initiators, or was read by them
	StartNS   int64
	EndNS     int64
	Bytes     int64
}

// Timeline holds spans in the order of the result, which is that of the
// iterations. OriginNS is the first start; spans count from there.
type Timeline struct {
	OriginNS int64
	Spans    []Span
	Dropped  int // spans beyond the first MostSpans
}

// MostSpans bounds a timeline.
const MostSpans = 150_000
