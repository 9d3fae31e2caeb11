package result

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee/internal/kit/size"
)

// Replay is what became of a serving trace that was replayed as transfers. Times are nanoseconds; those of requests
// count from ZeroNS.
type Replay struct {
	Trace     ReplayTrace   `json:"trace"`
	Prefill   ReplayWorkers `json:"prefill"`
	Decode    ReplayWorkers `json:"decode"`
	Model     string        `json:"model"`
	DType     string        `json:"kv_cache_dtype"`
	DTypeBy   string        `json:"kv_cache_dtype_by,omitempty"`
	Serving   string        `json:"serving,omitempty"`     // engine whose choices count; empty: none
	Block     int64         `json:"block,omitempty"`       // tokens of a page; 0: a descriptor holds all of a group of layers
	BlockBy   string        `json:"block_by,omitempty"`    // what decided that
	RunLength int64         `json:"run_length,omitempty"`  // contiguous pages in a descriptor; 0: of an earlier version, one
	State     string        `json:"state_dtype,omitempty"` // precision of recurrences
	Replicas  string        `json:"kv_replicas,omitempty"` // what decode ranks receive that hold the same: full or split
	Copied    string        `json:"copies,omitempty"`      // who receives the same as others, in words
	Routing   string        `json:"routing"`
	Moved     string        `json:"moved"` // prompt or miss
	SpeedUp   float64       `json:"speed_up"`
	Scale     float64       `json:"scale"`
	Spread    bool          `json:"spread"`
	FLOPS     float64       `json:"flops"`             // of a GPU in prefill, by which TTFT is reckoned
	Waits     bool          `json:"waits_for_prefill"` // transfers began after their prefill, not at the arrival
	Op        string        `json:"op"`
	InFlight  int           `json:"in_flight,omitempty"`  // transfers that a decode rank admits at a time; 0: all
	Copies    bool          `json:"posts_copy,omitempty"` // NIXL in one host: a post may take as long as its transfer

	ZeroNS  int64 `json:"zero_ns"`  // of the schedule, on the common time line
	SpanNS  int64 `json:"span_ns"`  // steady window: from zero until the last transfer was due, or as much as is known
	DrainNS int64 `json:"drain_ns"` // from then until the last transfer was done
	Bytes   int64 `json:"bytes"`    // of all requests of the schedule
	Done    int64 `json:"done"`     // requests that are complete

	// Bytes per second within the steady window. Carried is what moved. Alone is what a request alone gets, by the
	// largest of the isolated ones; Capacity what all decode workers carry together when each always has work.
	Offered  float64  `json:"offered_bytes_per_s"`
	Carried  float64  `json:"carried_bytes_per_s"`
	Alone    *float64 `json:"alone_bytes_per_s,omitempty"`
	Capacity *float64 `json:"capacity_bytes_per_s,omitempty"`
	// Stretches are the rates that Capacity is the median of, in their order.
	Stretches []float64 `json:"capacity_stretches_bytes_per_s,omitempty"`

	Scales   []ReplayScale  `json:"scales"`
	Lateness ReplayLateness `json:"lateness"`
	Queue    *ReplayTimes   `json:"queue,omitempty"`    // waits for admission, with --in-flight
	Latency  *ReplayTimes   `json:"latency,omitempty"`  // of requests, from when they were due until done
	Transfer *ReplayTimes   `json:"transfer,omitempty"` // of requests, from the first post until done
	Share    *ReplayShares  `json:"ttft_share,omitempty"`
	Slowdown *ReplayShares  `json:"slowdown,omitempty"` // time of transfer / that of as many bytes alone
	Fit      *ReplayFit     `json:"alone_fit,omitempty"`

	Requests ReplayRequests `json:"requests"`
	Isolated []ReplayAlone  `json:"isolated,omitempty"`
}

// ReplayTrace is where the requests come from.
type ReplayTrace struct {
	File     string  `json:"file"`
	SHA256   string  `json:"sha256,omitempty"` // of its text
	Format   string  `json:"format"`
	Requests int     `json:"requests"` // of the file
	Outside  int     `json:"outside"`  // the window
	Empty    int     `json:"empty"`    // of which nothing moves
	GridNS   int64   `json:"grid_ns,omitempty"`
	FromS    float64 `json:"from_s"`
	ToS      float64 `json:"to_s"`
}

// ReplayWorkers are the workers of a side.
type ReplayWorkers struct {
	N  int `json:"workers"`
	TP int `json:"tp"`
}

// ReplayScale is load by windows of one length, which follow each other from zero. Means are over the steady window.
type ReplayScale struct {
	WindowS  float64 `json:"window_s"`
	Offered  float64 `json:"peak_offered_bytes_per_s"`
	Carried  float64 `json:"peak_carried_bytes_per_s"`
	PerRank  float64 `json:"peak_offered_to_a_decode_rank_bytes_per_s"`
	Capacity float64 `json:"offered_of_capacity,omitempty"` // Offered / Capacity
	Over     int     `json:"windows_over_capacity"`
	Windows  int     `json:"windows"`
}

// ReplayLateness judges when transfers were posted against when they were due, by the common clock, over all posts of
// all ranks.
type ReplayLateness struct {
	P50NS   int64   `json:"p50_ns"`
	P99NS   int64   `json:"p99_ns"`
	MaxNS   int64   `json:"max_ns"`
	LimitNS int64   `json:"limit_ns"` // of P99NS
	Posts   int64   `json:"posts"`
	Late    int64   `json:"late_posts"`      // beyond the limit
	Stalls  int64   `json:"stalls"`          // stretches of posts in a rank that were beyond it, one after the other
	OfGap   float64 `json:"p99_of_mean_gap"` // P99NS / mean time between posts of a rank; not judged
	Valid   bool    `json:"valid"`
}

// ReplayTimes are percentiles of times.
type ReplayTimes struct {
	P50NS int64 `json:"p50_ns"`
	P90NS int64 `json:"p90_ns"`
	P99NS int64 `json:"p99_ns"`
	MaxNS int64 `json:"max_ns"`
}

// ReplayShares are percentiles of ratios.
type ReplayShares struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// ReplayFit is the line of time by bytes of requests alone.
type ReplayFit struct {
	AlphaNS float64 `json:"alpha_ns"`
	Rate    float64 `json:"bytes_per_s"`
	R2      float64 `json:"r2"`
}

// ReplayRequests are the requests by column, in the order in which they were due. Times of what did not happen are -1.
type ReplayRequests struct {
	Index     []int   `json:"index"` // in the trace, from 0
	Prefill   []int   `json:"prefill"`
	Decode    []int   `json:"decode"`
	Tokens    []int64 `json:"tokens"`
	Bytes     []int64 `json:"bytes"`
	Due       []int64 `json:"due_ns"`
	Admitted  []int64 `json:"admitted_ns"` // by the last of its ranks
	Posted    []int64 `json:"posted_ns"`   // by the first of its ranks
	Late      []int64 `json:"late_ns"`     // of its latest post: after it was due, or admitted if that was later
	Done      []int64 `json:"done_ns"`
	PrefillNS []int64 `json:"prefill_ns"`
}

// ReplayAlone is a request that was played alone.
type ReplayAlone struct {
	Request int   `json:"request"` // row of Requests
	Bytes   int64 `json:"bytes"`
	NS      int64 `json:"ns"` // the median of its runs
	Runs    int   `json:"runs"`
}

// How much of the capacity, or of the least and the most of its stretches, may be offered for a verdict. Between the
// two repeated runs may disagree.
const (
	surelyBelow = 0.8
	surelyAbove = 1.25
)

// Answer says in sentences what came out: first the finding, then whether it counts where it does not, then the rest of
// what was offered and carried.
func (r *Replay) Answer() (lines []string) {
	if r.Lateness.Posts == 0 {
		return []string{"nothing was played"}
	}
	lines = r.found()
	if !r.Lateness.Valid {
		lines = slices.Insert(lines, 1, r.invalid())
	}
	return lines
}

// invalid says that posts came too late, and what to do.
func (r *Replay) invalid() string {
	l := r.Lateness
	advice := "use fewer ranks for each CPU, a lower --speed-up or larger pages, or accept it with --max-late"
	if r.Copies {
		advice = "UCX copies inside a host while it posts, and ranks wait for CPUs where there are fewer: use several hosts, " +
			"fewer ranks for each CPU, a lower --speed-up or --scale, or accept it with --max-late"
	}
	return fmt.Sprintf("INVALID: posts came too late: p99 %v of %d, wanted at most %v (--max-late); "+
		"at most %v; stalls: %d. This was not the trace's load: %s", rounded(l.P99NS), l.Posts, rounded(l.LimitNS), rounded(l.MaxNS), l.Stalls, advice)
}

// found says what was offered and carried, at least one line, the most important first: of a load that the network
// carries on average, windows in which it asks for more than the capacity.
func (r *Replay) found() (lines []string) {
	text, part := "", r.part()
	if part != "" && r.SpanNS == 0 && slices.Max(r.Requests.Due) > 0 {
		return []string{part + ", too few for figures"}
	}
	if r.SpanNS == 0 {
		text := fmt.Sprintf("%s were due at once, which is no rate; ", size.Decimal(r.Bytes))
		if n := len(r.Requests.Index); int(r.Done) < n {
			return []string{fmt.Sprintf("%s%d of %d requests were done", text, r.Done, n)}
		}
		return []string{fmt.Sprintf("%sall was done after %v", text, rounded(r.DrainNS))}
	}
	if part != "" {
		text = fmt.Sprintf("in the first %v ", rounded(r.SpanNS))
	}
	text += "offered " + size.Rate(r.Offered) + ", carried " + size.Rate(r.Carried)
	if r.Capacity != nil {
		text += ", capacity " + size.Rate(*r.Capacity) + r.stretches()
	}
	if words := r.verdict(); words != "" && r.Lateness.Valid {
		text += ": " + words
	}
	order := []string{text, part, r.beyond(), r.inFull(), r.peaks()}
	if r.peaksLead() {
		order = []string{r.peaks(), text, part, r.beyond(), r.inFull()}
	}
	return slices.DeleteFunc(order, func(line string) bool { return line == "" })
}

// peaksLead reports whether windows ask for more than a capacity that the mean keeps, in each stretch of it.
func (r *Replay) peaksLead() bool {
	if r.Capacity == nil || r.beyond() != "" {
		return false
	}
	least, most := r.capacities()
	beyond := func(s ReplayScale) bool { return s.Over > 0 && s.Offered > most }
	return r.Offered < least && slices.ContainsFunc(r.Scales, beyond)
}

// inFull says what part of the trace's load was replayed, and what all of it would ask for; empty where it was all.
func (r *Replay) inFull() string {
	part := r.Scale * r.SpeedUp
	if !(part > 0) || few(part) == "1" {
		return ""
	}
	speed := ""
	if r.SpeedUp != 1 {
		speed = fmt.Sprintf(", %g x its speed", r.SpeedUp)
	}
	text := fmt.Sprintf("this replay is %s of the trace's load (scale %g%s): in full it asks for %s", few(part), r.Scale, speed,
		size.Rate(r.Offered/part))
	if r.Capacity == nil || *r.Capacity <= 0 {
		return text + " on average"
	}
	low, high := r.capacities()
	least, most := few(r.Offered/part/high), few(r.Offered/part/low)
	switch {
	case low <= 0: // nothing moved in a stretch, where ranks had no CPU
		most = "at least " + least
	case least != most:
		most = least + " to " + most
	}
	return fmt.Sprintf("%s, %s x the capacity, on average", text, most)
}

// capacities are the least and the most of the capacity and its stretches.
func (r *Replay) capacities() (least, most float64) {
	all := append(slices.Clone(r.Stretches), *r.Capacity)
	return slices.Min(all), slices.Max(all)
}

// part says how many requests are complete; empty where all of them are.
func (r *Replay) part() string {
	n := len(r.Requests.Done)
	if r.Done == int64(n) {
		return ""
	}
	return fmt.Sprintf("%d of %d requests are complete (%s of %s)", r.Done, n, size.Decimal(r.doneBytes()), size.Decimal(r.Bytes))
}

// doneBytes are those of the requests that are complete.
func (r *Replay) doneBytes() (sum int64) {
	for i, done := range r.Requests.Done {
		if done >= 0 {
			sum += r.Requests.Bytes[i]
		}
	}
	return sum
}

// verdict says whether the network was saturated on average; empty where the capacity is not known.
func (r *Replay) verdict() string {
	if r.Capacity == nil || *r.Capacity <= 0 {
		return ""
	}
	if r.beyond() != "" {
		return "no verdict"
	}
	least, most := r.capacities()
	part := r.Offered / *r.Capacity
	held := r.DrainNS > r.SpanNS/10 && r.Carried < 0.9*r.Offered
	switch {
	case r.Offered > surelyAbove*most:
		return fmt.Sprintf("saturated, %s x the capacity on average", few(part))
	case r.Offered >= surelyBelow*least && (part < surelyBelow || part > surelyAbove):
		return fmt.Sprintf("no verdict, since the capacity varies: %.2f of it on average", part)
	case part >= surelyBelow:
		return fmt.Sprintf("near its capacity, %.2f of it on average", part)
	case held:
		return fmt.Sprintf("the network has room, %s of the capacity is asked for on average, but single ranks or --in-flight hold transfers back: %v of drain",
			few(part), rounded(r.DrainNS))
	}
	if r.inFull() != "" {
		return fmt.Sprintf("not saturated by this replay, %s of the capacity on average", few(part))
	}
	return fmt.Sprintf("not saturated, %s of the capacity on average", few(part))
}

// beyond says that more was carried than should have been possible; empty where it was not.
func (r *Replay) beyond() string {
	for _, x := range r.Scales {
		if r.Capacity != nil && *r.Capacity > 0 && x.Carried > surelyAbove**r.Capacity {
			return fmt.Sprintf("in %g s up to %s were carried, %s x the capacity as it was measured before, so that is too low: "+
				"--capacity measures it for longer", x.WindowS, size.Rate(x.Carried), few(x.Carried / *r.Capacity))
		}
	}
	return ""
}

// stretches says how far the stretches are apart in which the capacity was measured.
func (r *Replay) stretches() string {
	if len(r.Stretches) < 2 {
		return ""
	}
	least, most := size.Rate(slices.Min(r.Stretches)), size.Rate(slices.Max(r.Stretches))
	number, unit, _ := strings.Cut(least, " ")
	if strings.HasSuffix(most, " "+unit) {
		least, most = number, strings.TrimSuffix(most, " "+unit)
	}
	return fmt.Sprintf(" (%s to %s in %d stretches)", least, most, len(r.Stretches))
}

// peaks say what short windows offered at most: of the capacity, or where that is not known of the mean. Windows are of
// the replay's time.
func (r *Replay) peaks() string {
	if len(r.Scales) == 0 || r.Offered <= 0 {
		return ""
	}
	of, unit := r.Offered, "the mean"
	if r.Capacity != nil && *r.Capacity > 0 {
		of, unit = *r.Capacity, "the capacity"
	}
	var parts []string
	for _, x := range r.Scales {
		text := fmt.Sprintf("%s x %s in %g s", few(x.Offered/of), unit, x.WindowS)
		if x.Over > 0 {
			text += fmt.Sprintf(" (%d of %d windows are beyond it)", x.Over, x.Windows)
		}
		parts = append(parts, text)
	}
	text := "peaks ask for "
	if r.inFull() != "" {
		text = "peaks of this replay ask for "
	}
	return text + strings.Join(parts, ", ") + r.traceTime()
}

// traceTime says how long a window is in the trace, where that is not as long as in the replay.
func (r *Replay) traceTime() string {
	if r.SpeedUp == 1 {
		return ""
	}
	return fmt.Sprintf("; 0.1 s of the replay are %.3g s of the trace", 0.1*r.SpeedUp)
}

// few writes a number with two digits, or all of those before the point.
func few(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

// rounded is a time with three digits or so.
func rounded(ns int64) time.Duration {
	unit := time.Nanosecond
	for time.Duration(ns)/unit >= 1000 {
		unit *= 10
	}
	return time.Duration(ns).Round(unit)
}
