package matgen

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/must"
	"perigee/internal/model"
)

// movesDir holds whole model files and moves.json: what engines move between two workers, by a separate program.
const movesDir = "../../internal/model/testdata/kv-moves"

// move is a case of moves.json.
type move struct {
	Name, Model     string
	Prefill, Decode struct{ Workers, TP, PP, DP int64 }
	Serving         string
	PageSize        int64 `json:"page_size"`
	Block           int64 // tokens of the page that vLLM has instead, or 0
	Replicas        model.Replicas
	Tokens          []int64
	Total           int64   `json:"total_bytes"`
	Ranks           []int64 `json:"decode_rank_bytes"` // sorted; nil: they depend on who takes which request
}

func readMoves(t *testing.T) []move {
	t.Helper()
	text := must.Read(t, filepath.Join(movesDir, "moves.json"))
	var doc struct{ Cases []move }
	must.Do(t, json.Unmarshal(text, &doc))
	if len(doc.Cases) != 35 {
		t.Fatalf("%d cases, want 35", len(doc.Cases))
	}
	return doc.Cases
}

// set is the case as the oracle has it.
func (c move) set(t *testing.T) *oracleSet {
	t.Helper()
	m, err := model.LoadFile(filepath.Join(movesDir, c.Model))
	must.Do(t, err)
	worker := func(tp, pp, dp int64) oracleWorker { return oracleWorker{tp, max(pp, 1), max(dp, 1)} }
	return &oracleSet{model: m, serving: c.Serving, page: c.PageSize, dtype: "bf16", split: c.Replicas == model.ReplicasSplit,
		prefill: worker(c.Prefill.TP, c.Prefill.PP, c.Prefill.DP), decode: worker(c.Decode.TP, c.Decode.PP, c.Decode.DP)}
}

// TestOracle checks the oracle itself against moves.json.
func TestOracle(t *testing.T) {
	for _, c := range readMoves(t) {
		t.Run(c.Name, func(t *testing.T) {
			s := c.set(t)
			var total int64
			sum := make([]int64, s.decode.TP*s.decode.PP) // those of the groups that get nothing first
			for _, tokens := range c.Tokens {
				ranks, all := s.received(tokens)
				total += all
				for i, bytes := range ranks {
					sum[len(sum)-len(ranks)+i] += bytes
				}
			}
			if total != c.Total || c.Ranks != nil && !slices.Equal(sum, c.Ranks) {
				t.Errorf("%d bytes in all, %v by rank; want %d, %v", total, sum, c.Total, c.Ranks)
			}
			if c.Block != 0 && s.block() != c.Block {
				t.Errorf("a block of %d tokens, want %d", s.block(), c.Block)
			}
		})
	}
}

// TestMoves checks matgen against moves.json.
func TestMoves(t *testing.T) {
	for _, c := range readMoves(t) {
		t.Run(c.Name, func(t *testing.T) {
			s := c.set(t)
			o := s.options(int(c.Prefill.Workers), int(c.Decode.Workers))
			if c.Replicas != "" {
				o.KVReplicas = c.Replicas
			}
			w, err := Plan(o, s.inputs(c.Tokens))
			must.Do(t, err)
			var ranks []int64
			for _, bytes := range receivedByRank(w, w.Patterns) {
				ranks = append(ranks, bytes)
			}
			slices.Sort(ranks)
			if w.Bytes() != c.Total || c.Ranks != nil && !slices.Equal(ranks, c.Ranks) {
				t.Errorf("%d bytes in all, %v by rank; want %d, %v", w.Bytes(), ranks, c.Total, c.Ranks)
			}
		})
	}
}

// options are those of matgen for a set, with so many workers of one GPU a node.
func (s *oracleSet) options(prefillWorkers, decodeWorkers int) Options {
	o := DefaultOptions()
	o.PPN, o.MinISL, o.MaxISL = 1, new(int64(1)), new(int64(1<<20))
	o.PrefillTP, o.PrefillPP, o.PrefillDP = int(s.prefill.TP), int(s.prefill.PP), int(s.prefill.DP)
	o.DecodeTP, o.DecodePP, o.DecodeDP = int(s.decode.TP), int(s.decode.PP), int(s.decode.DP)
	o.NumPrefillNodes = prefillWorkers * o.PrefillTP * o.PrefillPP
	o.NumDecodeNodes = decodeWorkers * o.DecodeTP * o.DecodePP
	o.Serving, o.KVCacheDType = s.serving, s.dtype
	if s.page > 0 {
		o.PageSize = &s.page
	}
	if s.split {
		o.KVReplicas = model.ReplicasSplit
	}
	return o
}

// inputs are requests of so many tokens.
func (s *oracleSet) inputs(tokens []int64) Inputs {
	in := Inputs{Model: s.model}
	for _, n := range tokens {
		in.Draws = append(in.Draws, Draw{Tokens: float64(n)})
	}
	return in
}

// receivedByRank adds up what each decode rank receives in these patterns, from the first decode rank.
func receivedByRank(w *Workload, patterns []BatchPattern) []int64 {
	bytes := make([]int64, w.Decode.Ranks)
	for _, p := range patterns {
		for _, c := range w.Cells(p) {
			bytes[c.To-w.Prefill.Ranks] += c.Bytes
		}
	}
	return bytes
}

// TestRandomMoves compares matgen with the oracle on 450 sets, rank by rank.
func TestRandomMoves(t *testing.T) {
	const sets = 450
	drawn, failed := map[string]int{}, 0
	for seed := range uint64(sets) {
		d := drawSet(t, rand.New(rand.NewPCG(seed, 52)))
		d.count(drawn)
		if err := d.compare(); err != nil {
			if failed++; failed <= 10 {
				t.Errorf("seed %d: %v\n%v", seed, err, d)
			}
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d sets differ", failed, sets)
	}
	t.Logf("sets with: %v", drawn)
	for _, sort := range setSorts {
		if drawn[sort] < 15 {
			t.Errorf("%d sets with %s, want at least 15", drawn[sort], sort)
		}
	}
}

// drawnSet is a set that was drawn, with requests and the number of workers.
type drawnSet struct {
	oracleSet
	source                        string // name or file of the model
	prefillWorkers, decodeWorkers int
	batch                         int
	requests                      []int64
}

func (d *drawnSet) String() string {
	return fmt.Sprintf("%d x %+v -> %d x %+v, serving %q, page %d, %s, split %v, %v tokens in batches of %d, model\n%s",
		d.prefillWorkers, d.prefill, d.decodeWorkers, d.decode, d.serving, d.page, d.dtype, d.split, d.requests, d.batch,
		d.source)
}

// compare returns an error where matgen moves something else than the oracle.
func (d *drawnSet) compare() error {
	o := d.options(d.prefillWorkers, d.decodeWorkers)
	o.BatchSize = d.batch
	w, err := Plan(o, d.inputs(d.requests))
	if err != nil {
		return err
	}
	next := 0
	for from := 0; from < len(w.Patterns); {
		to := from
		for to < len(w.Patterns) && w.Patterns[to].Batch == w.Patterns[from].Batch {
			to++
		}
		batch := w.Patterns[from]
		if batch.FirstRequest != next {
			return fmt.Errorf("the batch of request %d begins at %d", next, batch.FirstRequest)
		}
		next += batch.Requests
		if err := d.compareBatch(w, w.Patterns[from:to], d.requests[batch.FirstRequest:next]); err != nil {
			return fmt.Errorf("batch %d: %w", batch.Batch, err)
		}
		from = to
	}
	if next != len(d.requests) {
		return fmt.Errorf("%d of %d requests are in a batch", next, len(d.requests))
	}
	return nil
}

// compareBatch compares the patterns of one batch, whose requests live on one attention group of one decode worker.
func (d *drawnSet) compareBatch(w *Workload, patterns []BatchPattern, requests []int64) error {
	var total int64
	group := make([]int64, d.stages()*d.decode.group())
	for _, tokens := range requests {
		ranks, all := d.received(tokens)
		total += all
		for i := range ranks {
			group[i] += ranks[i]
		}
	}
	got, worker := receivedByRank(w, patterns), patterns[0].DecodeWorker
	for g := range d.decode.DP {
		if d.agree(got, d.placed(group, len(got), int64(worker), g), total) {
			return nil
		}
	}
	return fmt.Errorf("decode ranks receive %v, want %v in a group of worker %d, %d in all", got, group, worker, total)
}

// placed are the bytes of all decode ranks, where one attention group of a worker receives some.
func (d *drawnSet) placed(group []int64, ranks int, worker, g int64) []int64 {
	all := make([]int64, ranks)
	for i, bytes := range group {
		stage, rank := int64(i)/d.decode.group(), int64(i)%d.decode.group()
		all[(worker*d.decode.PP+stage)*d.decode.TP+g*d.decode.group()+rank] = bytes
	}
	return all
}

// agree reports whether the decode ranks receive what they should, or share it out where each byte moves once.
func (d *drawnSet) agree(got, want []int64, total int64) bool {
	var sum, outside int64
	for rank, bytes := range got {
		sum += bytes
		if want[rank] == 0 {
			outside += bytes
		}
	}
	return sum == total && outside == 0 && (d.split || slices.Equal(got, want))
}

// setSorts are the sorts of sets of which there must be some.
var setSorts = []string{"no engine", "vllm", "sglang", "trtllm", "shipped", "drawn", "copies",
	"copies from all partners", "split", "larger prefill tp", "larger decode tp", "prefill pp", "decode pp", "prefill dp",
	"decode dp", "mla", "indexer", "window", "window pool", "chunk", "compressed", "hybrid", "enlarged block", "own page"}

// count notes of which sorts a set is.
func (d *drawnSet) count(sorts map[string]int) {
	ranks, total := d.received(1000)
	once := d.oracleSet
	once.split = true
	_, all := once.received(1000)
	var twice bool
	for _, g := range d.model.Groups {
		for _, head := range headsOf(max(g.Heads, 1), 0, d.decode.group()) {
			twice = twice || g.Heads > 0 && d.senders(g.Heads, head, 0) > 1
		}
	}
	_, pool := pools[d.family()]
	engine := d.serving
	if engine == "" || engine == "none" {
		engine = "no engine"
	}
	for sort, is := range map[string]bool{
		engine: true, "shipped": !strings.Contains(d.source, "\n"), "drawn": strings.Contains(d.source, "\n"),
		"copies": !d.split && len(ranks) > 1 && total > all, "copies from all partners": twice, "split": d.split,
		"larger prefill tp": d.prefill.group() > d.decode.group(), "larger decode tp": d.prefill.group() < d.decode.group(),
		"prefill pp": d.prefill.PP > 1, "decode pp": d.decode.PP > 1,
		"prefill dp": d.prefill.DP > 1, "decode dp": d.decode.DP > 1,
		"mla": d.has(model.MLA), "indexer": d.has(model.Indexer), "window": d.has(model.Window), "chunk": d.has(model.Chunk),
		"window pool": d.serving == "sglang" && pool, "compressed": d.has(model.Compressed), "hybrid": d.layerState() > 0,
		"enlarged block": d.serving == "vllm" && d.layerState() > 0 && d.block() > max(d.page, 128),
		"own page":       engine != "no engine" && d.page == 0,
	} {
		if is {
			sorts[sort]++
		}
	}
}

// drawSet makes a set that its engine takes.
func drawSet(t *testing.T, r *rand.Rand) *drawnSet {
	t.Helper()
	d := &drawnSet{prefillWorkers: 1 + r.IntN(2), decodeWorkers: 1 + r.IntN(2), batch: 1 + r.IntN(3)}
	d.serving = pick(r, "", "none", "vllm", "vllm", "vllm", "sglang", "sglang", "sglang", "trtllm", "trtllm")
	for d.model == nil || !d.served() {
		d.model, d.source = drawModel(t, r)
	}
	d.drawWorkers(r)
	d.dtype = pick(r, "bf16", "bf16", "bf16", "fp8")
	if d.has(model.Indexer) && r.IntN(3) == 0 {
		d.dtype = "fp8_ds_mla"
	}
	d.drawPage(r)
	d.split = r.IntN(8) == 0
	for range 1 + r.IntN(4) {
		most := pick[int64](r, 3, 70, 2000, 10000)
		d.requests = append(d.requests, 1+r.Int64N(most))
	}
	return d
}

// pick draws one of several, each alike.
func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// servedKinds are the kinds that the oracle knows.
var servedKinds = []model.Kind{model.Full, model.Window, model.Chunk, model.MLA, model.Indexer, model.IndexKey,
	model.Compressed, model.Cross, model.Mamba1, model.Mamba2, model.GDN, model.KDA, model.Lightning, model.ShortConv,
	model.SharedKV}

// served reports whether the engine serves the model, so that there is a figure for it.
func (d *drawnSet) served() bool {
	if slices.ContainsFunc(d.model.Groups, func(g model.Group) bool { return !slices.Contains(servedKinds, g.Kind) }) {
		return false
	}
	switch d.serving {
	case "vllm": // its connector refuses lightning and short convolutions
		return !d.has(model.Lightning) && !d.has(model.ShortConv) && !d.has(model.Cross) && d.alike()
	case "sglang":
		return !d.has(model.Cross)
	case "trtllm":
		return !d.has(model.Cross) && !d.has(model.Chunk)
	}
	return true
}

// alike reports whether no layers keep states, or all attention layers beside them keep the same of a token. Of others
// it is not certain how large a block vLLM makes.
func (d *drawnSet) alike() bool {
	type token struct{ heads, key, value, latent, rope, index int64 }
	tokens, states := map[token]bool{}, false
	for _, g := range d.model.Groups {
		if (g.State != model.State{}) {
			states = true
		} else if g.Kind != model.SharedKV {
			tokens[token{g.Heads, g.Key, g.Value, g.Latent, g.Rope, g.Index}] = true
		}
	}
	return !states || len(tokens) <= 1
}

// drawWorkers draws the parallelism: groups of ranks of which one is a multiple of the other.
func (d *drawnSet) drawWorkers(r *rand.Rand) {
	larger := 0 // tries to draw more prefill ranks, where all partners of a decode rank may send
	if d.serving == "sglang" && r.IntN(2) == 0 {
		larger = 100
	}
	for d.prefill.TP == 0 || !d.divides(d.prefill) || !d.divides(d.decode) || !fit(d.prefill.TP, d.decode.TP) ||
		!fit(d.prefill.group(), d.decode.group()) || larger > 0 && d.prefill.group() <= d.decode.group() {
		larger--
		for _, w := range []*oracleWorker{&d.prefill, &d.decode} {
			w.TP, w.DP, w.PP = pick[int64](r, 1, 2, 4, 8, 16, 3, 6, 12), pick[int64](r, 1, 1, 1, 1, 2, 4, 8), 1
		}
	}
	most := min(4, d.model.Layers)
	if d.serving != "vllm" || d.layerState() == 0 { // vLLM has no stages of hybrids
		d.prefill.PP = max(1, 1+r.Int64N(most)*r.Int64N(2))
	}
	switch {
	case r.IntN(3) > 0 || d.serving == "vllm": // 1 of vLLM
	case d.serving == "sglang":
		d.decode.PP = d.prefill.PP
	default:
		d.decode.PP = 1 + r.Int64N(most)
	}
}

// fit reports whether one is a multiple of the other.
func fit(a, b int64) bool { return a%b == 0 || b%a == 0 }

// divides reports whether engines take such a worker for the model.
func (d *drawnSet) divides(w oracleWorker) bool {
	if w.TP%w.DP != 0 || d.model.Heads%w.group() != 0 {
		return false
	}
	for _, g := range d.model.Groups {
		if g.Heads > 0 && !fit(g.Heads, w.group()) || g.State.CutA%w.group() != 0 || g.State.CutB%w.group() != 0 {
			return false
		}
	}
	return true
}

// drawPage draws the tokens of a page, or leaves them to the engine.
func (d *drawnSet) drawPage(r *rand.Rand) {
	switch own := r.IntN(3) == 0; {
	case d.serving == "" || d.serving == "none":
	case d.has(model.Compressed) && d.serving == "trtllm": // its own page is smaller than the tokens of an entry
		d.page = pick[int64](r, 128, 256)
	case own:
	case d.has(model.Compressed):
		d.page = pick[int64](r, 1, 128, 256)
	case d.serving == "vllm":
		d.page = pick[int64](r, 8, 16, 32, 64, 128, 256)
	case d.serving == "sglang":
		d.page = pick[int64](r, 1, 16, 32, 64)
	default:
		d.page = pick[int64](r, 16, 32, 64, 128)
	}
}

// pooled are models with a window pool in SGLang: few, and not all alike.
var pooled = []string{"deepseek-v4-flash", "deepseek-v4-pro", "gemma-4-26b-a4b", "gemma-4-31b", "gpt-oss-120b", "gpt-oss-20b",
	"llama-4-scout-17b-16e", "mimo-v2-flash", "step-3.5-flash"}

// drawModel takes a model that perigee knows, or makes the file of one.
func drawModel(t *testing.T, r *rand.Rand) (*model.Model, string) {
	t.Helper()
	if r.IntN(2) == 0 {
		name := pick(r, model.Names()...)
		if r.IntN(2) == 0 {
			name = pick(r, pooled...)
		}
		m, _ := model.Shipped(name)
		return m, name
	}
	text := drawFile(r)
	v, err := conf.Parse("drawn.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	m, err := model.Parse(v)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m, text
}

// drawFile makes a model file of groups. Every step-th layer is of the first sort, the others of the second.
func drawFile(r *rand.Rand) string {
	layers := 4 + r.IntN(9)
	step := 2 + r.IntN(3)
	some := fmt.Sprintf("%d-%d/%d", step-1, layers-1, step)
	var b strings.Builder
	b.WriteString("model_name: DRAWN\nnum_query_heads: 96\nhidden_size: 1536\ndtype: bfloat16\n")
	fmt.Fprintf(&b, "num_layers: %d\n", layers)
	if dtype := pick(r, "", "float32", "bfloat16"); dtype != "" {
		fmt.Fprintf(&b, "state_dtype: %s\n", dtype)
	}
	b.WriteString("groups:\n")
	group := func(layers, format string, args ...any) {
		fmt.Fprintf(&b, "  - {layers: %s, kind: "+format+"}\n", append([]any{layers}, args...)...)
	}
	heads := func() string {
		kvHeads := pick(r, 1, 2, 2, 3, 4, 4, 6, 8, 12, 16, 48)
		return fmt.Sprintf("kv_heads: %d, head_dim: %d", kvHeads, pick(r, 64, 80, 128, 256))
	}
	const latent = "latent_dim: 512, rope_dim: 64"
	switch r.IntN(14) {
	case 0:
		group("all", "full, %s", heads())
	case 1:
		group("all", "full, %s, value_dim: %d", heads(), pick(r, 32, 128))
	case 2, 3:
		group(some, "full, %s", heads())
		group("rest", "window, window: %d, %s", pick(r, 2, 100, 128, 512, 1000, 1024), heads())
	case 4:
		group(some, "full, %s", heads())
		group("rest", "chunk, window: %d, %s", pick(r, 128, 1000, 8192), heads())
	case 5:
		group("all", "mla, latent_dim: %d, rope_dim: %d", pick(r, 256, 512), pick(r, 32, 64))
	case 6:
		group("all", "mla, packing: dsa, "+latent)
		group(pick(r, "all", some), "indexer, index_dim: %d", pick(r, 64, 128))
	case 7:
		group("all", "full, %s", heads())
		group(some, "index_key, latent_dim: %d", pick(r, 64, 128))
	case 8:
		group("all", "full, %s", heads())
		group("all", "cross, entries: %d, %s", pick(r, 1500, 7), heads())
	default:
		where := pick(r, [2]string{some, "rest"}, [2]string{some, "all"}, [2]string{"all", "all"})
		group(where[0], pick(r, "full, "+heads(), "mla, "+latent))
		group(where[1], drawState(r))
	}
	return b.String()
}

// drawState is a group of layers with a state.
func drawState(r *rand.Rand) string {
	heads := pick(r, 16, 48, 96)
	switch r.IntN(7) {
	case 0:
		return fmt.Sprintf("mamba1, inner_size: %d, state_size: 16, kernel: 4", 96*heads)
	case 1, 2:
		return fmt.Sprintf("mamba2, inner_size: %d, heads: %d, head_dim: 64, groups: %d, state_size: 128, kernel: 4",
			64*heads, heads, pick(r, 1, 1, 8))
	case 3:
		return fmt.Sprintf("gdn, key_heads: 16, key_dim: 128, value_heads: %d, value_dim: 128, kernel: 4", heads)
	case 4:
		return fmt.Sprintf("kda, heads: %d, head_dim: 128, kernel: 4", heads)
	case 5:
		return fmt.Sprintf("lightning, heads: %d, head_dim: 96", heads)
	}
	return fmt.Sprintf("shortconv, channels: %d, kernel: 3", 96*heads)
}
