// Package figures describes a serving trace in numbers: how many requests came when, how long they were, what a prefix
// cache would have found of them, and the load that their caches would be on a network.
//
// Percentiles are of the nearest rank: a value of the trace, the smallest one that is not below so many of all.
package figures

// Figures are those of a trace. What a trace has not got, such as hash ids, is nil.
type Figures struct {
	Name   string `json:"name"` // of the file
	Format string `json:"format"`
	Unit   string `json:"timestamp_unit"` // "s", "ms", or "date"
	// UnitAssumed: neither the file nor the user says the unit.
	UnitAssumed bool     `json:"timestamp_unit_assumed,omitempty"`
	Notes       []string `json:"notes,omitempty"` // what else the reader assumed, counted or left out

	Requests int `json:"requests"`
	// Outside of --from and --to, and not in any other figure.
	Outside int      `json:"requests_outside"`
	FromS   *float64 `json:"from_s,omitempty"`
	ToS     *float64 `json:"to_s,omitempty"`

	SpanS    float64  `json:"span_s"` // from the first request to the last
	Arrivals Arrivals `json:"arrivals"`
	Input    Lengths  `json:"input"`
	Output   *Lengths `json:"output,omitempty"`
	Blocks   *Blocks  `json:"blocks,omitempty"`
	Hits     *Hits    `json:"hits,omitempty"`
	Windows  []Window `json:"windows,omitempty"` // of 0.1, 1, 10 and 60 s, but those longer than the span
	Load     *Load    `json:"offered_load,omitempty"`
}

// Arrivals say when requests came.
type Arrivals struct {
	Distinct int      `json:"distinct_timestamps"`
	Equal    int      `json:"equal_neighbours"`     // requests with the timestamp of the one before
	RatePerS *float64 `json:"rate_per_s,omitempty"` // 1 / the mean gap; nil if all came at once
	// GapCV is the coefficient of variation of the gaps between requests: their standard deviation, as that of a whole
	// population, over their mean. It is 1 of a Poisson process; nil if all came at once.
	GapCV   *float64 `json:"gap_cv,omitempty"`
	Minutes *Minutes `json:"minutes,omitempty"` // nil of less than a minute
	Grid    *Grid    `json:"grid,omitempty"`
	Bins    Series   `json:"bins"`
}

// Minutes are requests in each full minute from the first request.
type Minutes struct {
	Full int     `json:"full"`
	Mean float64 `json:"mean_requests"`
	Min  int64   `json:"min_requests"`
	Max  int64   `json:"max_requests"`
	P50  int64   `json:"p50_requests"`
	P99  int64   `json:"p99_requests"`
	Rest int     `json:"rest_requests"` // after the last full minute
}

// Grid is what timestamps stand on that tick: see package grid.
type Grid struct {
	PeriodMS float64 `json:"period_ms"`
	OffMS    float64 `json:"off_max_ms"` // the farthest that a timestamp is from its tick
	Ticks    int     `json:"ticks"`      // from the first request to the last
	Empty    int     `json:"empty_ticks"`
	Max      int64   `json:"max_requests"`
	Mean     float64 `json:"mean_requests"`
	// Dispersion is the variance of the requests of a tick, as that of a whole population, over their mean: 1 of a
	// Poisson process.
	Dispersion float64 `json:"dispersion"`
	MeanTokens float64 `json:"mean_input_tokens"`
	P99Tokens  int64   `json:"p99_input_tokens"`
	MaxTokens  int64   `json:"max_input_tokens"`
}

// Series are the requests over time, in bins of equal width. They begin at the first request, or half a grid's period
// before the tick of that request, so that no tick is on an edge.
type Series struct {
	BeginS   float64 `json:"begin_s"`
	WidthS   float64 `json:"width_s"` // a multiple of the grid's period, where there is a grid
	Requests []int64 `json:"requests"`
	Tokens   []int64 `json:"input_tokens"`
}

// Lengths are those of prompts or of answers.
type Lengths struct {
	Sum  int64   `json:"sum_tokens"`
	Mean float64 `json:"mean_tokens"`
	P50  int64   `json:"p50_tokens"`
	P90  int64   `json:"p90_tokens"`
	P99  int64   `json:"p99_tokens"`
	Max  int64   `json:"max_tokens"`
	Bins []Bin   `json:"bins"` // two an octave, from that of the shortest to that of the longest
}

// Bin counts requests with From up to, but without, To tokens.
type Bin struct {
	From     int64 `json:"from_tokens"`
	To       int64 `json:"to_tokens"`
	Requests int   `json:"requests"`
}

// Blocks describe the hash ids.
type Blocks struct {
	Tokens          int64   `json:"tokens"` // of a block
	References      int64   `json:"references"`
	Distinct        int64   `json:"distinct"`
	UsedOnce        int64   `json:"used_once"`
	UsedOnceShare   float64 `json:"used_once_share"` // of the distinct ones
	Hottest         uint64  `json:"hottest_id,string"`
	HottestRequests int64   `json:"hottest_requests"` // that have it
	Checks          []Check `json:"checks"`
}

// Check is a rule that hash ids follow in Mooncake's traces.
type Check struct {
	Rule   string `json:"rule"`
	Broken int    `json:"broken_requests"`
	Line   int    `json:"first_line,omitempty"` // of the file, of the first request that breaks it
}

// Hits are what a prefix cache finds of the prompts, whose leading blocks alone count. The ratios have different
// denominators, so each is named by what it weighs.
type Hits struct {
	// The cache keeps all blocks.
	HitTokens       int64   `json:"hit_tokens"`          // the partial tail of a prompt included
	Token           float64 `json:"token_weighted"`      // HitTokens of all tokens of prompts
	FullBlocks      float64 `json:"full_blocks_only"`    // tokens of hit blocks that are full, of all tokens of prompts
	Block           float64 `json:"block_weighted"`      // hit blocks of all references
	AnyPosition     float64 `json:"any_position"`        // blocks seen before, whether those before them were, of all references
	Request         float64 `json:"request_weighted"`    // the mean over requests of hit tokens / tokens
	RequestsWithHit int     `json:"requests_with_hit"`   //
	RequestsFully   int     `json:"requests_fully_hit"`  //
	LRU             []LRU   `json:"lru"`                 // of 1000, 10,000 and 50,000 blocks
	Curve           []Point `json:"curve_lru_tail_last"` // from one block, doubled, to the first size that holds all blocks
}

// LRU are the hit ratios of a cache of so many blocks, of which the least recently used goes first. The tail of a
// prompt is used last, or its head.
type LRU struct {
	Blocks   int     `json:"capacity_blocks"`
	TailLast float64 `json:"token_weighted_tail_last"`
	HeadLast float64 `json:"token_weighted_head_last"`
	Request  float64 `json:"request_weighted_tail_last"`
}

// Point is the hit ratio of a cache of so many blocks, weighted by tokens and by requests.
type Point struct {
	Blocks  int     `json:"capacity_blocks"`
	Token   float64 `json:"token_weighted"`
	Request float64 `json:"request_weighted"`
}

// Window is the busiest window of a length, of those that follow each other from the first request on.
type Window struct {
	LengthS    float64 `json:"length_s"`
	StartS     float64 `json:"start_s"`
	Tokens     int64   `json:"input_tokens"`
	PeakToMean float64 `json:"peak_to_mean"` // Tokens over the tokens of all prompts x length / span
}

// Load is what the caches of all prompts are on a network, each when its request comes.
type Load struct {
	Model        string       `json:"model"`
	CacheDType   string       `json:"kv_cache_dtype"`
	CacheDTypeBy string       `json:"kv_cache_dtype_by"`
	Serving      string       `json:"serving,omitempty"` // the engine whose pages count
	Block        int64        `json:"block,omitempty"`   // tokens of one of its pages
	DecodeRanks  int64        `json:"decode_ranks"`      // that hold a request together
	BlockBy      string       `json:"block_by,omitempty"`
	StateDType   string       `json:"state_dtype,omitempty"` // of recurrences
	StateDTypeBy string       `json:"state_dtype_by,omitempty"`
	Notes        []string     `json:"notes,omitempty"`  // what is not counted, or an engine refuses
	Copies       string       `json:"copies,omitempty"` // who receives the same bytes as others
	Prompt       Offered      `json:"all_prompt"`
	Miss         *Offered     `json:"miss_only,omitempty"` // without what an infinite prefix cache has
	Windows      []ByteWindow `json:"windows,omitempty"`   // of all prompts
	MaxTick      int64        `json:"max_tick_bytes,omitempty"`
	Fit          *Fit         `json:"line_fit,omitempty"`
}

// Offered are bytes, and those per second of the span in GB, 10^9 bytes.
type Offered struct {
	Bytes  int64    `json:"bytes"`
	GBPerS *float64 `json:"gb_per_s,omitempty"` // nil if all came at once
}

// ByteWindow is the window of a length that has the most bytes, as in [Window].
type ByteWindow struct {
	LengthS    float64 `json:"length_s"`
	StartS     float64 `json:"start_s"`
	Bytes      int64   `json:"bytes"`
	GBPerS     float64 `json:"gb_per_s"`
	PeakToMean float64 `json:"peak_to_mean"`
}
