// Package probe measures the fabric between the nodes of a job with perigee
// itself: what one request's KV cache takes from each prefill node to each decode
// node, alone.
package probe

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/size"
	"perigee/internal/kit/stats"
	"perigee/internal/model"
	"perigee/internal/result"
)

const (
	// ResultName is the file of a result folder with what was measured.
	ResultName = "0_probe.json.zst"
	configName = "probe.yaml"
	// mostPairs bounds the time of the probe: a larger job is sampled, evenly.
	mostPairs = 64
	// mostFiles bounds the bytes of all its matrices. In a job of more than 5800 nodes there is no probe.
	mostFiles = 64 << 20
	// usualBytes is moved where the size of the model's KV cache is not known.
	usualBytes = 64 << 20
	mostBytes  = 256 << 20

	// head is the first line of the config. It says what the result cannot: of how many pairs these are.
	head = "# The fabric between the nodes of a job: %d of %d pairs.\n"
)

// Plan is a probe.
type Plan struct {
	Arguments string            // of perigee
	Files     map[string]string // by name, in the result folder
	Bytes     int64             // of a message
	Known     bool              // Bytes is of the config's model
}

// New plans a probe between nodes: from each of prefill to each of decode, by
// their index. A node may be both. Without any pair there is no probe, and the plan is nil.
func New(nodes int, prefill, decode []int, modelName string, tokens int64) *Plan {
	p := &Plan{Files: map[string]string{}, Bytes: usualBytes}
	if bytes := requestBytes(modelName, tokens); bytes > 0 {
		p.Bytes, p.Known = min(bytes, mostBytes), true
	}
	pairs, all := sample(prefill, decode, min(mostPairs, mostFiles/(2*nodes*nodes)))
	if len(pairs) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, head, len(pairs), all)
	b.WriteString("iters: 3\nisolation_iters: 10\nwarmup_iters: 3\ntraffic_patterns:\n")
	for _, pair := range pairs {
		name := fmt.Sprintf("probe_%d_%d.txt", pair[0], pair[1])
		p.Files[name] = matrix(nodes, pair[0], pair[1], p.Bytes)
		fmt.Fprintf(&b, "  - {matrix_file: %s, mem_type: dram, xfer_op: WRITE}\n", name)
	}
	p.Files[configName] = b.String()
	p.Arguments = "sequential-ct-perftest " + configName + " --result " + ResultName +
		" --timeout 60s --verify-buffers=every"
	return p
}

// requestBytes returns the bytes that a request of a model in 16 bit moves; 0 where the model is not known.
func requestBytes(modelName string, tokens int64) int64 {
	m, err := model.Named(modelName)
	if err != nil || tokens < 1 {
		return 0
	}
	c, err := m.CacheIn("bf16", model.Options{})
	if err != nil {
		return 0
	}
	kv, state, err := c.Bytes(tokens)
	if err != nil {
		return math.MaxInt64
	}
	return kv + state
}

// sample returns at most a number of pairs, and how many there are. They are taken round by round, and in each round
// every node of the larger side stands once, and those of the smaller side in turn; every other one first, so that
// where nodes are on both sides, many pairs have no node in common.
func sample(prefill, decode []int, most int) (pairs [][2]int, all int) {
	if len(prefill) == 0 || len(decode) == 0 {
		return nil, 0
	}
	all = len(prefill) * len(decode)
	for _, i := range prefill {
		if slices.Contains(decode, i) {
			all--
		}
	}
	seen := map[[2]int]bool{}
	for k := 0; len(pairs) < min(all, most); k++ {
		larger := max(len(prefill), len(decode))
		round, i := k/larger, 2*(k%larger)
		if i >= larger {
			i = 2*(k%larger-(larger+1)/2) + 1
		}
		pair := [2]int{prefill[i%len(prefill)], decode[(i+round)%len(decode)]}
		if pair[0] == pair[1] || seen[pair] {
			continue
		}
		seen[pair] = true
		pairs = append(pairs, pair)
	}
	return pairs, all
}

// matrix has one cell.
func matrix(nodes, from, to int, bytes int64) string {
	var b strings.Builder
	for i := range nodes {
		for j := range nodes {
			if j > 0 {
				b.WriteByte(' ')
			}
			if i == from && j == to {
				fmt.Fprint(&b, bytes)
			} else {
				b.WriteByte('0')
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Pair holds the measurement between two nodes.
type Pair struct {
	From        string  `json:"from"`
	To          string  `json:"to"`
	BytesPerSec float64 `json:"bytes_per_s"` // of one message alone
	Slow        bool    `json:"slow"`        // below 80 % of the median of the other pairs, beyond chance
}

// Result holds the measurements of a probe.
type Result struct {
	Engine  string  `json:"engine,omitempty"`  // nixl or shm
	Backend string  `json:"backend,omitempty"` // what really moved the bytes
	Bytes   int64   `json:"bytes,omitempty"`   // of a message
	Median  float64 `json:"median_bytes_per_s,omitempty"`
	Slowest float64 `json:"slowest_bytes_per_s,omitempty"`
	Pairs   []Pair  `json:"pairs,omitempty"`
	Of      int     `json:"of_pairs,omitempty"` // how many there are; 0: unknown
	Corrupt string  `json:"corrupt,omitempty"`  // the pair of hosts between which bytes have changed, and where
	Error   string  `json:"error,omitempty"`
}

// ofPairs returns of how many pairs the probe in a folder took some; 0 where its config does not say.
func ofPairs(dir string) int {
	f, err := file.Open(filepath.Join(dir, configName))
	if err != nil {
		return 0
	}
	defer f.Close()
	var some, all int
	if _, err := fmt.Fscanf(f, head, &some, &all); err != nil {
		return 0
	}
	return all
}

const (
	// slowShare is the share of the other pairs' median below which a pair is slow.
	slowShare = 0.8
	exchanges = 2000
)

// Read reads what the probe of a job has left in its result folder.
func Read(dir string) *Result {
	d, err := result.Read(filepath.Join(dir, ResultName))
	if err != nil {
		return &Result{Error: "the probe has left no result; its words are in 0_probe.log: " + err.Error()}
	}
	r := &Result{}
	if d.Engine != nil {
		r.Engine, r.Backend = d.Engine.Name, d.Engine.Backend
	}
	host := map[int]string{}
	for _, h := range d.World.Hosts {
		for _, rank := range h.Ranks {
			host[rank] = h.Name
		}
	}
	alone := make([][]float64, len(d.Patterns))
	for i := range d.Measurements {
		if m := &d.Measurements[i]; m.Phase == result.IsolatedPhase && m.LatencyNS > 0 {
			alone[m.Pattern] = append(alone[m.Pattern], float64(m.LatencyNS))
		}
	}
	if f := d.Failure; f != nil && f.Kind == fault.Corrupt {
		r.Corrupt = corrupt(f.Cause, host)
		return r
	}
	var rates []float64
	var times [][]float64
	for i, p := range d.Patterns {
		ms := cmp.Or(p.IsolatedLatencyMS, p.LatencyMS)
		if ms == nil || *ms <= 0 || len(d.Matrices[p.Matrix].Cells) == 0 {
			continue
		}
		cell := d.Matrices[p.Matrix].Cells[0]
		r.Bytes = cell[2]
		rate := float64(cell[2]) / *ms * 1000
		rates, times = append(rates, rate), append(times, alone[i])
		from, to := host[int(cell[0])], host[int(cell[1])]
		if from == to { // nodes that share a machine
			from, to = fmt.Sprintf("%s rank %d", from, cell[0]), fmt.Sprintf("%s rank %d", to, cell[1])
		}
		r.Pairs = append(r.Pairs, Pair{From: from, To: to, BytesPerSec: rate})
	}
	if len(rates) == 0 {
		r.Error = "the probe has measured no pair"
		return r
	}
	r.Of = ofPairs(dir)
	r.Median, r.Slowest = stats.Median(rates), slices.Min(rates)
	for i, isSlow := range slow(rates, times) {
		r.Pairs[i].Slow = isSlow
	}
	return r
}

// messageForm is how the cause of a failure names a message with wrong bytes.
var messageForm = lazyre.New(`message from rank (\d+) to rank (\d+)`)

// corrupt says between which hosts bytes have changed, of which the cause names the ranks.
func corrupt(cause string, host map[int]string) string {
	m := messageForm.FindStringSubmatch(cause)
	if m == nil {
		return cause
	}
	from, _ := strconv.Atoi(m[1])
	to, _ := strconv.Atoi(m[2])
	return fmt.Sprintf("from %s to %s: %s", host[from], host[to], cause)
}

// slow compares each pair with the others. It is left out of their median: of two pairs, one that is a quarter slower
// would pull the median down to itself. times are the latencies of each pair by turn; in a turn each has one. A pair is
// slow only beyond chance: if all are alike, their times in a turn could as well have been exchanged, so the mean of
// the logarithms of its times has to be larger than the largest of all pairs is in 95 % of such exchanges.
func slow(rates []float64, times [][]float64) []bool {
	list := make([]bool, len(rates))
	if len(rates) < 2 {
		return list
	}
	turns := len(slices.MinFunc(times, func(a, b []float64) int { return len(a) - len(b) }))
	logs := make([][]float64, turns)
	for turn := range logs {
		for _, of := range times {
			logs[turn] = append(logs[turn], math.Log(of[turn]))
		}
	}
	sums := func() []float64 {
		sums := make([]float64, len(rates))
		for _, row := range logs {
			for i, v := range row {
				sums[i] += v
			}
		}
		return sums
	}
	measured := sums()
	beyond := make([]int, len(rates)) // exchanges after which the largest is at least as large
	rng := rand.New(rand.NewPCG(1, 2))
	for range exchanges {
		for _, row := range logs {
			rng.Shuffle(len(row), func(i, j int) { row[i], row[j] = row[j], row[i] })
		}
		largest := slices.Max(sums())
		for i, sum := range measured {
			if largest >= sum {
				beyond[i]++
			}
		}
	}
	for i, rate := range rates {
		others := slices.Delete(slices.Clone(rates), i, i+1)
		list[i] = rate < slowShare*stats.Median(others) && beyond[i] <= exchanges/20
	}
	return list
}

// String says it in a line.
func (r *Result) String() string {
	if r == nil {
		return ""
	}
	if r.Error != "" {
		return "probe: " + r.Error
	}
	if r.Corrupt != "" {
		return "probe: bytes do not arrive as they are sent " + r.Corrupt
	}
	var slow []string
	for _, p := range r.Pairs {
		if p.Slow {
			slow = append(slow, fmt.Sprintf("%s to %s %.2f GB/s", p.From, p.To, p.BytesPerSec/1e9))
		}
	}
	of := ""
	if r.Of > len(r.Pairs) {
		of = fmt.Sprintf(" of %d", r.Of)
	}
	text := fmt.Sprintf("probe: median %.2f GB/s, slowest %.2f GB/s over %d%s pairs (%s of each, %s, %s)", r.Median/1e9,
		r.Slowest/1e9, len(r.Pairs), of, size.BinaryRounded(r.Bytes), r.Engine, r.Backend)
	if len(slow) > 0 {
		text += "; slow: " + strings.Join(slow, ", ")
	}
	return text
}
