package matgen

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/model"
)

// drawOptions makes options of a small system that can be planned.
func drawOptions(t *rapid.T) (Options, Inputs) {
	o := DefaultOptions()
	pick := func(name string, from ...int) int { return rapid.SampledFrom(from).Draw(t, name) }
	o.PrefillTP, o.DecodeTP = pick("prefill tp", 1, 2, 4, 8), pick("decode tp", 1, 2, 4, 8)
	o.PrefillCP = pick("cp", 1, 2, 3, 4)
	o.RailOptimized = o.PrefillTP == 4 && o.DecodeTP == 8 && rapid.Bool().Draw(t, "rail")
	o.PPN = pick("ppn", 1, 2)
	o.NumPrefillNodes = o.PrefillTP * o.PrefillCP * pick("prefill workers", 1, 2, 3)
	o.NumDecodeNodes = o.DecodeTP * pick("decode workers", 1, 2, 3)
	if rapid.Bool().Draw(t, "mla") {
		o.Model = "deepseek-r1"
	} else {
		kvHeads := int64(pick("kv heads", 1, 2, 4, 8, 16))
		heads, hidden, layers, dtype := kvHeads*3, kvHeads*3*5, int64(3), 1.0
		o.NumKVHeads, o.NumHeads, o.HiddenSize, o.NumLayers, o.DtypeSize = &kvHeads, &heads, &hidden, &layers, &dtype
	}
	o.KVReplicas = rapid.SampledFrom([]model.Replicas{model.ReplicasSplit, model.ReplicasFull}).Draw(t, "replicas")
	o.BatchSize = pick("batch size", 1, 2, 5)
	o.Scale = rapid.SampledFrom([]float64{1, 0.1, 0.37, 0.999}).Draw(t, "scale")
	var in Inputs
	for range pick("requests", 1, 2, 7, 20) {
		in.Draws = append(in.Draws, Draw{Tokens: rapid.Float64Range(-10, 200000).Draw(t, "draw")})
	}
	return o, in
}

// TestAnyPlan checks what must hold for every workload.
func TestAnyPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, in := drawOptions(t)
		w, err := Plan(o, in)
		must.Do(t, err)
		next := 0
		var kv, scaled int64
		for k, p := range w.Patterns {
			if p.FirstRequest != next || p.Requests < 1 || p.Requests > o.BatchSize {
				t.Fatalf("batch %d: %+v begins at request %d", k, p, next)
			}
			next += p.Requests
			if p.ISL*w.Model.BytesPerToken != p.KVBytes || o.Scale == 1 && p.scaled != p.KVBytes {
				t.Fatalf("batch %d: %+v", k, p)
			}
			if p.PrefillWorker != k%w.Prefill.Workers() || p.DecodeWorker != k%w.Decode.Workers() {
				t.Fatalf("batch %d goes from %d to %d", k, p.PrefillWorker, p.DecodeWorker)
			}
			kv, scaled = kv+p.KVBytes, scaled+p.scaled
			checkMatrix(t, w, p)
			checkCoverage(t, w, p)
		}
		if next != len(w.Requests) {
			t.Fatalf("%d of %d requests are in a batch", next, len(w.Requests))
		}
		exact := new(big.Rat).Mul(big.NewRat(kv, 1), decimal(o.Scale))
		if want := new(big.Int).Quo(exact.Num(), exact.Denom()).Int64(); scaled != want {
			t.Fatalf("%d bytes scaled by %v: %d, wanted %d", kv, o.Scale, scaled, want)
		}
	})
}

func decimal(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(fmt.Sprint(f))
	return r
}

// checkMatrix checks sums and places of the cells of a pattern.
func checkMatrix(t *rapid.T, w *Workload, p Pattern) {
	m, err := w.Matrix(p)
	must.Do(t, err)
	o := &w.Options
	copies := int64(1)
	if o.KVReplicas == model.ReplicasFull {
		copies = int64(w.move().Holders(w.Model.cache.Model))
	}
	if m.Total() != p.scaled*copies || m.Total() != p.Bytes || m.Size() != w.World() {
		t.Fatalf("sum %d, wanted %d x %d, %d planned", m.Total(), p.scaled, copies, p.Bytes)
	}
	pFrom, pTo := w.Prefill.Worker(p.PrefillWorker)
	dFrom, dTo := w.Decode.Worker(p.DecodeWorker)
	perRank := p.scaled * copies / int64(o.DecodeTP)
	// Of prefill ranks that hold the same heads one sends, unless all share the sending.
	idle := int64(1)
	if o.KVReplicas == model.ReplicasFull {
		idle = w.move().Share(w.Model.cache.Model.Groups[0].Keep).Step
	}
	perSender := p.Bytes * idle / int64(o.PrefillTP*o.PrefillCP)
	messages := int64(max(o.PrefillTP, o.DecodeTP) * o.PrefillCP)
	for rank := range m.Size() {
		send, receive := m.RowSum(rank), m.ColumnSum(rank)
		if rank < pFrom || rank >= pTo {
			if send != 0 {
				t.Fatalf("rank %d is not of the prefill worker and sends %d bytes", rank, send)
			}
		} else if d := send - perSender; (d < -messages || d > messages) && (send > 0 || int64(rank-pFrom)%idle == 0) {
			t.Fatalf("rank %d sends %d bytes, wanted about %d", rank, send, perSender)
		}
		if rank < dFrom || rank >= dTo {
			if receive != 0 {
				t.Fatalf("rank %d is not of the decode worker and receives %d bytes", rank, receive)
			}
		} else if d := receive - perRank; d < -1 || d > 1 {
			t.Fatalf("rank %d receives %d bytes, wanted %d", rank, receive, perRank)
		}
	}
	least, most := int64(math.MaxInt64), int64(0)
	for _, c := range w.Cells(p) {
		least, most = min(least, c.Bytes), max(most, c.Bytes)
	}
	if most-least > 1 {
		t.Fatalf("messages of %d to %d bytes", least, most)
	}
}

// span is a part [from, to) of the KV heads, in fractions of all of them.
type span struct{ from, to *big.Rat }

func holds(m Model, tp, rank int) span {
	heads := m.cache.Model.Groups[0].Heads
	if heads == 0 { // latent vectors
		return span{new(big.Rat), big.NewRat(1, 1)}
	}
	first := int64(rank) * heads / int64(tp)
	last := (int64(rank+1)*heads + int64(tp) - 1) / int64(tp)
	return span{big.NewRat(first, heads), big.NewRat(last, heads)}
}

func (s span) contains(x span) bool { return s.from.Cmp(x.from) <= 0 && x.to.Cmp(s.to) <= 0 }

// checkCoverage rebuilds from the model which heads every rank holds, and
// checks that every part of the sequence sends every decode rank what it needs
// exactly once, from ranks that hold it, in shares that add up.
func checkCoverage(t *rapid.T, w *Workload, p Pattern) {
	o := &w.Options
	pFrom, _ := w.Prefill.Worker(p.PrefillWorker)
	dFrom, _ := w.Decode.Worker(p.DecodeWorker)
	senders := map[[2]int][]int{} // decode TP rank, part of the sequence -> prefill TP ranks
	for _, c := range w.Cells(p) {
		j := c.To - dFrom
		if o.RailOptimized {
			j = slices.Index(railOrder[:], j)
		}
		from := c.From - pFrom
		key := [2]int{j, from / o.PrefillTP}
		if slices.Contains(senders[key], from%o.PrefillTP) {
			t.Fatalf("%d sends to %d twice", c.From, c.To)
		}
		senders[key] = append(senders[key], from%o.PrefillTP)
	}
	if len(senders) != o.DecodeTP*o.PrefillCP {
		t.Fatalf("%d pairs of decode rank and part of the sequence, wanted %d", len(senders), o.DecodeTP*o.PrefillCP)
	}
	want := max(1, o.PrefillTP/o.DecodeTP)
	if o.KVReplicas == model.ReplicasFull { // of ranks that hold the same, one sends
		want /= int(w.move().Share(w.Model.cache.Model.Groups[0].Keep).Step)
	}
	for key, ranks := range senders {
		if len(ranks) != want {
			t.Fatalf("decode rank %d has senders %v for part %d", key[0], ranks, key[1])
		}
		checkHeads(t, w, key[0], ranks)
	}
}

func checkHeads(t *rapid.T, w *Workload, j int, ranks []int) {
	o := &w.Options
	need := holds(w.Model, o.DecodeTP, j)
	covered := new(big.Rat)
	for _, r := range ranks {
		has := holds(w.Model, o.PrefillTP, r)
		if !has.contains(need) && !need.contains(has) {
			t.Fatalf("decode rank %d needs heads %v, prefill rank %d has %v", j, need, r, has)
		}
		from, to := has.from, has.to
		if from.Cmp(need.from) < 0 {
			from = need.from
		}
		if to.Cmp(need.to) > 0 {
			to = need.to
		}
		// Ranks that hold the same heads share the sending of them.
		same := 0
		for _, x := range ranks {
			if holds(w.Model, o.PrefillTP, x).from.Cmp(has.from) == 0 {
				same++
			}
		}
		part := new(big.Rat).Sub(to, from)
		covered.Add(covered, part.Quo(part, big.NewRat(int64(same), 1)))
	}
	if wanted := new(big.Rat).Sub(need.to, need.from); covered.Cmp(wanted) != 0 {
		t.Fatalf("decode rank %d gets %v of the heads from %v, wanted %v", j, covered, ranks, wanted)
	}
}

func TestApportion(t *testing.T) {
	tests := []struct {
		total   int64
		weights []int64
		want    []int64
	}{
		{10, []int64{1, 1, 1}, []int64{4, 3, 3}},
		{3, []int64{5, 3, 1}, []int64{2, 1, 0}},
		{0, []int64{5, 3}, []int64{0, 0}},
		{0, []int64{0, 0}, []int64{0, 0}},
		{0, nil, []int64{}},
		{math.MaxInt64 - 1, []int64{math.MaxInt64 - 1, 1}, []int64{math.MaxInt64 - 2, 1}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, apportion(tt.total, tt.weights)); diff != "" {
			t.Errorf("%d by %v (-want +got):\n%s", tt.total, tt.weights, diff)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Int64Range(0, 1<<50), 1, 20).Draw(t, "weights")
		var sum int64
		for _, x := range weights {
			sum += x
		}
		total := rapid.Int64Range(0, sum).Draw(t, "total")
		var got int64
		for i, part := range apportion(total, weights) {
			got += part
			if sum == 0 {
				continue
			}
			exact := new(big.Rat).Mul(big.NewRat(total, 1), big.NewRat(weights[i], sum))
			if d := exact.Sub(exact, big.NewRat(part, 1)); d.Cmp(big.NewRat(-1, 1)) <= 0 || d.Cmp(big.NewRat(1, 1)) >= 0 {
				t.Fatalf("part %d of %d by %v: %d is off by %v", i, total, weights, part, d)
			}
		}
		if got != total {
			t.Fatalf("%d by %v sums to %d", total, weights, got)
		}
	})
}

// TestBatchLimit checks the rule of the spec: a batch is closed by bytes that
// are more than the limit, not by bytes that reach it.
func TestBatchLimit(t *testing.T) {
	base := []string{"--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--ppn", "1", "--hidden-size", "256", "--num-layers", "2",
		"--num-heads", "4", "--num-kv-heads", "2", "--dtype-size", "2", "--min-isl", "1", "--batch-size", "3",
		"--isl-list", writeFile(t, "l", "1\n2\n3\n4\n5\n")}
	tests := []struct {
		limit string
		want  [][]int64
		warns string
	}{
		{"3072", [][]int64{{1, 2, 3}, {4}, {5}}, "3 of 3 batches are larger"},
		{"3071.5", [][]int64{{1, 2}, {3}, {4}, {5}}, "4 of 4 batches are larger"},
		{"1e300", [][]int64{{1, 2, 3}, {4, 5}}, "the last batch has only 2 of --batch-size 3 requests"},
		{"1K", [][]int64{{1, 2}, {3}, {4}, {5}}, "4 of 4 batches are larger"},
		{"1024", [][]int64{{1, 2}, {3}, {4}, {5}}, "4 of 4 batches are larger"},
	}
	for _, tt := range tests {
		w := mustPlan(t, append(base, "--max-batch-mem", tt.limit)...)
		if diff := cmp.Diff(tt.want, batches(w)); diff != "" {
			t.Errorf("limit %s (-want +got):\n%s", tt.limit, diff)
		}
		if !slices.ContainsFunc(w.Warnings, func(s string) bool { return strings.Contains(s, tt.warns) }) {
			t.Errorf("limit %s: warnings %q lack %q", tt.limit, w.Warnings, tt.warns)
		}
	}
}

// TestSleep checks the formula against the same one in other words.
func TestSleep(t *testing.T) {
	w := mustPlan(t, "--model", "qwen3-30B", "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--ppn", "8", "--prefill-tp", "2", "--prefill-cp", "4",
		"--decode-tp", "4", "--batch-size", "2", "--isl-list", writeFile(t, "l", "1000\n2000\n"), "--flops", "1e12")
	want := (4*(1e6+4e6)*2048 + 16*3000*2048*2048) * 48 / (1e12 * 2 * 4)
	if got := w.Patterns[0].SleepSec; len(w.Patterns) != 1 || math.Abs(got-want) > 1e-12*want {
		t.Errorf("sleep %v in %d patterns, wanted %v", got, len(w.Patterns), want)
	}
}

// TestContextParallel writes out one mapping by hand: prefill tp 2 x cp 2 to
// decode tp 4. Ranks 0 and 1 are the two TP ranks of the first half of the
// sequence, 2 and 3 of the second.
func TestContextParallel(t *testing.T) {
	w := mustPlan(t, "--model", "llama-405b", "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--ppn", "4", "--prefill-tp", "2", "--prefill-cp", "2",
		"--decode-tp", "4", "--isl-list", writeFile(t, "l", "1000"))
	const part = 516096000 / 8
	want := []Cell{{0, 4, part}, {2, 4, part}, {0, 5, part}, {2, 5, part}, {1, 6, part}, {3, 6, part}, {1, 7, part}, {3, 7, part}}
	must.Equal(t, want, w.Cells(w.Patterns[0]))
}

func TestReplicas(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		copies int64
		says   string
	}{
		{"GQA with a head per rank", []string{"--model", "llama-405b", "--decode-tp", "8"}, 1, ""},
		{"GQA with two ranks per head", []string{"--model", "qwen3-30B", "--decode-tp", "8"}, 2, "each KV head goes to 2 decode ranks"},
		{"MLA", []string{"--model", "deepseek-r1", "--decode-tp", "8"}, 8, "each of 8 decode ranks receives the whole latent"},
		{"MLA with index keys", []string{"--model", "deepseek-v3.2", "--decode-tp", "4", "--decode-dp", "2"}, 2, "each of 2 decode ranks receives the whole latent and all index keys"},
		{"MLA on one rank", []string{"--model", "deepseek-r1", "--decode-tp", "1"}, 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append(tt.args, "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--num-user-requests", "1")
			split := mustPlan(t, append(args, "--kv-replicas", "split")...)
			full := mustPlan(t, args...)
			if split.Bytes() != split.Patterns[0].KVBytes || full.Bytes() != tt.copies*split.Bytes() {
				t.Errorf("%d bytes of cache: split %d, full %d, wanted %d copies", split.Patterns[0].KVBytes, split.Bytes(), full.Bytes(), tt.copies)
			}
			if full.Model.Copies != tt.says || strings.Contains(split.Model.Copies, "inside the worker") != (tt.copies > 1) {
				t.Errorf("full says %q, split %q, wanted %q", full.Model.Copies, split.Model.Copies, tt.says)
			}
		})
	}
}

// TestTraceWaits checks the sleeps of a trace on one pair of workers whose
// prefill takes exactly a second per request: at 0, 0.5 (waits for the worker)
// and 10 seconds (the worker waits).
func TestTraceWaits(t *testing.T) {
	trace := `{"timestamp": 27482, "input_length": 1000, "output_length": 5, "hash_ids": [1, 2]}
{"timestamp": 27982, "input_length": 1000, "output_length": 7, "hash_ids": []}
{"timestamp": 37482, "input_length": 1000}
`
	args := []string{"--model", "llama-405b", "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--ppn", "1", "--trace", writeFile(t, "trace.jsonl", trace)}
	perRequest := (4*1e6*16384 + 16*1000*16384*16384) * 126.0
	w := mustPlan(t, append(args, "--flops", fmt.Sprint(perRequest))...)
	want := []float64{1, 1, 8 + 1}
	for k, p := range w.Patterns {
		if math.Abs(p.SleepSec-want[k]) > 1e-9 {
			t.Errorf("batch %d sleeps %v s, wanted %v", k, p.SleepSec, want[k])
		}
	}
	// A batch on another prefill worker waits for its request alone, though the decode worker is the same.
	two := mustPlan(t, append(args, "--flops", fmt.Sprint(perRequest), "--num-prefill-nodes", "2")...)
	for k, want := range []float64{1, 1.5, 9 + 1} {
		if got := two.Patterns[k].SleepSec; math.Abs(got-want) > 1e-9 {
			t.Errorf("two prefill workers: batch %d sleeps %v s, want %v", k, got, want)
		}
	}
	m := w.metadata(w.Patterns[1])
	if *m.ArrivalSec != 0.5 || *m.OSL != 7 || m.ISL != 1000 || m.Requests != 1 {
		t.Errorf("metadata %+v", m)
	}
}

// Recorded lengths are no draws: they stay as they are, also 0, unless a bound is asked for. A list is fed to the draws.
func TestRecordedLengths(t *testing.T) {
	const bytes = 131072 // a token of the model
	trace := writeFile(t, "t.jsonl", `{"timestamp": 0, "input_length": 100, "output_length": 20}
{"timestamp": 500, "input_length": 600, "output_length": 20}
{"timestamp": 900, "input_length": 3000, "output_length": 20}
{"timestamp": 950, "input_length": 0}
{"timestamp": 990, "input_length": 200000}
`)
	list := writeFile(t, "list", "100\n600\n3000\n0\n200000\n")
	for _, tt := range []struct {
		args    []string
		want    []int64
		warning string
	}{
		{[]string{"--trace", trace}, []int64{100, 600, 3000, 0, 200000}, ""},
		{[]string{"--trace", trace, "--min-isl", "500"}, []int64{500, 600, 3000, 500, 200000},
			"2 of 5 recorded lengths were clipped as asked: 2 below --min-isl 500"},
		{[]string{"--trace", trace, "--max-isl", "1000"}, []int64{100, 600, 1000, 0, 1000},
			"2 of 5 recorded lengths were clipped as asked: 2 above --max-isl 1000"},
		{[]string{"--isl-list", list}, []int64{1000, 1000, 3000, 1000, 128000},
			"4 of 5 draws were clipped: 3 below --min-isl 1000, 1 above --max-isl 128000"},
	} {
		w := mustPlan(t, append([]string{"--model", "llama3.1-8b", "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--ppn", "1"}, tt.args...)...)
		var got []int64
		var sum int64
		for _, r := range w.Requests {
			got, sum = append(got, r.Tokens), sum+r.Tokens
		}
		if !slices.Equal(got, tt.want) || w.Bytes() != sum*bytes {
			t.Errorf("%v: %v, %d bytes; wanted %v, %d", tt.args, got, w.Bytes(), tt.want, sum*bytes)
		}
		clipped := slices.DeleteFunc(slices.Clone(w.Warnings), func(text string) bool { return !strings.Contains(text, "clipped") })
		if strings.Join(clipped, "; ") != tt.warning {
			t.Errorf("%v: warnings %q, wanted %q", tt.args, clipped, tt.warning)
		}
	}
}

// TestRail writes out the places of the rail mode.
func TestRail(t *testing.T) {
	for _, mode := range []string{"--compat", "--kv-replicas=split"} {
		w := mustPlan(t, "--model", "llama-405b", "--num-prefill-nodes", "1", "--num-decode-nodes", "2", "--prefill-tp", "4", "--decode-tp", "8",
			"--rail-optimized", "--num-user-requests", "2", mode)
		for k, p := range w.Patterns {
			var got [][2]int
			for _, c := range w.Cells(p) {
				got = append(got, [2]int{c.From - 4*k, c.To - 8 - 8*k})
			}
			want := [][2]int{{0, 0}, {0, 4}, {1, 1}, {1, 5}, {2, 2}, {2, 6}, {3, 3}, {3, 7}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, batch %d (-want +got):\n%s", mode, k, diff)
			}
		}
	}
}

func TestUnequalWorkers(t *testing.T) {
	w := mustPlan(t, "--model", "llama-405b", "--num-prefill-nodes", "2", "--num-decode-nodes", "3", "--ppn", "8", "--prefill-tp", "8", "--decode-tp", "8",
		"--num-user-requests", "7")
	var got [][2]int
	for _, p := range w.Patterns {
		got = append(got, [2]int{p.PrefillWorker, p.DecodeWorker})
	}
	want := [][2]int{{0, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {1, 2}, {0, 0}}
	must.Equal(t, want, got)
}

func TestRefused(t *testing.T) {
	good := []string{"--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--model", "llama-405b", "--num-user-requests", "2"}
	custom := []string{"--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--num-user-requests", "2", "--hidden-size", "256", "--num-layers", "2",
		"--num-heads", "4", "--num-kv-heads", "2", "--dtype-size", "2"}
	tests := []struct {
		args []string
		says string
	}{
		{[]string{"--num-user-requests", "0"}, "--num-user-requests: wanted a whole number from 1 to 10485760, got 0"},
		{[]string{"--num-user-requests=-1"}, "--num-user-requests: wanted a whole number from 1 to 10485760, got -1"},
		{[]string{"--num-user-requests", "99999999999"}, "--num-user-requests: wanted a whole number from 1 to"},
		{[]string{"--batch-size", "0"}, "--batch-size: wanted a whole number of at least 1, got 0"},
		{[]string{"--num-prefill-nodes", "0"}, "--num-prefill-nodes: wanted a whole number from 1 to 32768, got 0"},
		{[]string{"--num-decode-nodes=-3"}, "--num-decode-nodes: wanted a whole number from 1 to 32768, got -3"},
		{[]string{"--num-decode-nodes", "32768"}, "too many ranks: wanted at most 32768"},
		{[]string{"--ppn", "0"}, "--ppn: wanted a whole number from 1 to 32768, got 0"},
		{[]string{"--ppn", "9223372036854775807"}, "--ppn: wanted a whole number from 1 to"},
		{[]string{"--prefill-tp", "0"}, "--prefill-tp: wanted a whole number from 1 to 32768"},
		{[]string{"--prefill-cp=-1"}, "--prefill-cp: wanted a whole number from 1 to 32768"},
		{[]string{"--decode-tp", "0"}, "--decode-tp: wanted a whole number from 1 to 32768"},
		{[]string{"--prefill-pp", "127"}, "--prefill-pp of llama-405b: 127 stages of a pipeline are more than the 126 layers"},
		{[]string{"--decode-pp-layers", "100,25"}, "--decode-pp of llama-405b: the stages have 125 layers together, the model has 126"},
		{[]string{"--prefill-pp", "3", "--prefill-pp-layers", "100,26"}, "layers of 2 stages, and --prefill-pp is 3"},
		{[]string{"--prefill-tp", "4", "--prefill-dp", "3"}, "--prefill-dp 3: wanted a divisor of --prefill-tp 4"},
		{[]string{"--page-size", "16"}, "--page-size without effect: there is no --serving"},
		{[]string{"--layer-runs", "4"}, "--layer-runs without effect: there is no --layerwise"},
		{[]string{"--kv-cache-dtype", "fp3"}, "--kv-cache-dtype: there is no precision \"fp3\""},
		{[]string{"--isl-mean", "0"}, "--isl-mean: wanted a number above 0, got 0"},
		{[]string{"--isl-mean", "NaN"}, "--isl-mean: wanted a finite number, got NaN"},
		{[]string{"--isl-scale=-1"}, "--isl-scale: wanted a number above 0, got -1"},
		{[]string{"--isl-scale", "Inf"}, "--isl-scale: wanted a finite number"},
		{[]string{"--min-isl", "0"}, "--min-isl: wanted a whole number of tokens from 1 to 1099511627776, got 0"},
		{[]string{"--max-isl", "0"}, "--max-isl: wanted a whole number of tokens from 1 to 1099511627776, got 0"},
		{[]string{"--min-isl", "5", "--max-isl", "4"}, "--min-isl 5 is larger than --max-isl 4"},
		{[]string{"--max-batch-mem", "0"}, "--max-batch-mem: wanted a number above 0"},
		{[]string{"--max-batch-mem", "nan"}, "--max-batch-mem: wanted a finite number"},
		{[]string{"--flops", "0"}, "--flops: wanted a number above 0"},
		{[]string{"--flops", "1e-300"}, "would take for ever"},
		{[]string{"--scale", "0"}, "--scale: wanted a number above 0"},
		{[]string{"--scale", "1.5"}, "--scale: wanted at most 1, got 1.5"},
		{[]string{"--scale", "1e-12"}, "--scale 1e-12 leaves nothing of the"},
		{[]string{"--mem-type", "disk"}, `--mem-type: wanted one of cuda, vram, cpu, dram, got "disk"`},
		{[]string{"--model", "gpt-2"}, `there is no model "gpt-2"`},
		{[]string{"--model-file", "x.yaml"}, "--model and --model-file exclude each other"},
		{[]string{"--isl-list", "x", "--trace", "y"}, "--isl-list and --trace exclude each other"},
		{[]string{"--trace-unit", "s"}, "--trace-unit without effect: there is no --trace"},
		{[]string{"--isl-list", writeFile(t, "l", "1")}, "has only 1"},
		{[]string{"--prefill-tp", "3", "--ppn", "12"}, "--prefill-tp 3: the 8 KV heads of LLAMA3.1_405B do not divide among 3 ranks"},
		{[]string{"--prefill-tp", "3", "--ppn", "12"}, "--prefill-tp can be 1, 2, 4, 8, 16"},
		{[]string{"--prefill-tp", "3", "--decode-tp", "2"}, "one must be a multiple of the other"},
		{[]string{"--prefill-tp", "3", "--decode-tp", "2"}, "with --decode-tp 2, --prefill-tp can be 1, 2 or a multiple of 2"},
		{[]string{"--prefill-tp", "4", "--decode-tp", "4", "--ppn", "6"}, "prefill: the 6 GPUs (1 x ppn 6) do not divide into workers of 4 (tp 4)"},
		{[]string{"--prefill-tp", "4", "--decode-tp", "4", "--ppn", "6"}, "such workers fill 4 or 8 GPUs; 6 GPUs can have --prefill-tp 1, 2"},
		{[]string{"--prefill-cp", "3", "--prefill-tp", "2", "--ppn", "9"}, "workers of 6 (tp 2 x cp 3)"},
		{[]string{"--decode-tp", "16"}, "decode: the 8 GPUs (1 x ppn 8) do not divide into workers of 16 (tp 16)"},
		{[]string{"--decode-tp", "16"}, "such workers fill 16 GPUs; 8 GPUs can have --decode-tp 1, 2, 4, 8"},
		{[]string{"--rail-optimized"}, "--rail-optimized: wanted --decode-tp 8, got 1"},
		{[]string{"--rail-optimized", "--decode-tp", "8"}, "--rail-optimized: wanted --prefill-tp 4, got 1"},
		{[]string{"--max-isl", "1000000000000", "--isl-mean", "900000000000", "--num-user-requests", "100"}, "the KV cache of all requests does not fit 63 bits"},
		{[]string{"--compat", "--trace", "x"}, "--trace cannot be combined with --compat"},
		{[]string{"--compat", "--scale", "0.5"}, "--scale cannot be combined with --compat"},
		{[]string{"--compat", "--flops", "1e12"}, "--flops cannot be combined with --compat"},
		{[]string{"--compat", "--prefill-tp", "8", "--decode-tp", "4"}, "--prefill-tp 8: the original wants at most --decode-tp 4"},
		{[]string{"--compat", "--prefill-tp", "4", "--decode-tp", "8"}, "2 prefill workers and 1 decode workers"},
		{[]string{"--compat", "--prefill-tp", "4", "--prefill-cp", "2", "--decode-tp", "4", "--num-prefill-nodes", "2"}, "a multiple of --prefill-tp 4 x --prefill-cp 2"},
		{[]string{"--compat", "--rail-optimized", "--prefill-tp", "4", "--decode-tp", "4"}, "the original wants --decode-tp 8"},
	}
	customTests := []struct {
		args []string
		says string
	}{
		{[]string{"--hidden-size", "0"}, "--hidden-size: wanted a whole number from 1 to 1048576, got 0"},
		{[]string{"--dtype-size=-2"}, "--dtype-size: wanted whole bits for a value"},
		{[]string{"--num-heads", "3"}, "--hidden-size 256 does not divide into --num-heads 3 heads"},
		{[]string{"--num-kv-heads", "3"}, "--num-heads 4 does not divide into groups for --num-kv-heads 3"},
		{[]string{"--head-dim", "0"}, "--head-dim: wanted a whole number from 1 to 1048576"},
		{[]string{"--num-layers", "9223372036854775807"}, "--num-layers: wanted a whole number from 1 to 16384"},
		{[]string{"--compat", "--hidden-size", "3"}, "leaves nothing for each of 4 heads"},
		{[]string{"--compat", "--num-layers", "0"}, "--num-layers: wanted a whole number from 1 to 16384"},
	}
	for _, tt := range tests {
		_, err := run(t, append(slices.Clone(good), append(tt.args, "--dry-run")...)...)
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) { must.Fail(t, err, fault.Usage, tt.says) })
	}
	for _, tt := range customTests {
		_, err := run(t, append(slices.Clone(custom), append(tt.args, "--dry-run")...)...)
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) { must.Fail(t, err, fault.Usage, tt.says) })
	}
	_, err := run(t, append(slices.Clone(good[:4]), "--num-heads", "4", "--dry-run")...)
	must.Fail(t, err, fault.Usage, "--hidden-size, --num-layers, --num-kv-heads, --dtype-size missing")
}

// TestNoFloatBeyond53Bits plans caches whose bytes no float64 can hold.
func TestNoFloatBeyond53Bits(t *testing.T) {
	w := mustPlan(t, "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--ppn", "1", "--hidden-size", "3", "--num-layers", "1",
		"--num-heads", "3", "--num-kv-heads", "3", "--dtype-size", "1", "--min-isl", "1", "--max-isl", "1099511627775", "--isl-list", writeFile(t, "l", "1099511627775\n11"), "--head-dim", "1048575")
	if got, want := w.Patterns[0].Bytes, int64(2*3*1048575*1099511627775); got != want || int64(float64(want)) == want {
		t.Errorf("%d bytes, wanted %d", got, want)
	}
	m, err := w.Matrix(w.Patterns[1])
	if err != nil || m.At(0, 1) != 2*3*1048575*11 {
		t.Errorf("cell of %d bytes, %v", m.At(0, 1), err)
	}
}

func TestWarnings(t *testing.T) {
	base := []string{"--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--num-user-requests", "8"}
	tests := []struct {
		args []string
		want []string
	}{
		{[]string{"--model", "llama-405b", "--isl-list", writeFile(t, "l", "5000\n999\n1000\n128000\n128000.9\n128001\n1\n2")},
			[]string{"4 of 8 draws were clipped: 3 below --min-isl 1000, 1 above --max-isl 128000"}},
		{[]string{"--model", "llama-405b", "--isl-scale", "0", "--num-heads", "7", "--dtype-size", "1"},
			[]string{"--model llama-405b is given, so these do not count: --dtype-size, --num-heads"}},
		{[]string{"--model", "llama-405b", "--isl-scale", "0", "--decode-tp", "8", "--num-prefill-nodes", "2"},
			[]string{"8 batches do not reach all of the 16 prefill and 1 decode workers",
				"16 prefill and 1 decode workers: batches of one prefill worker run, and sleep, one after the other; those of several may meet at a decode worker"}},
		{[]string{"--isl-scale", "0", "--isl-mean", "1", "--min-isl", "1", "--prefill-tp", "8", "--decode-tp", "8", "--num-kv-heads", "1", "--num-heads", "1", "--hidden-size", "1",
			"--num-layers", "1", "--dtype-size", "2", "--kv-replicas", "split"},
			[]string{
				"8 of 8 matrices have fewer bytes than messages, so some messages are empty"}},
		{[]string{"--model", "llama-405b", "--isl-list", writeFile(t, "l", strings.Repeat("38328\n", 8)), "--compat", "--prefill-tp", "8", "--decode-tp", "8"},
			[]string{"the matrices hold 158054796480 bytes instead of the 158247419904 of the cache (--compat rounds)"}},
	}
	for _, tt := range tests {
		w := mustPlan(t, append(slices.Clone(base), tt.args...)...)
		if diff := cmp.Diff(tt.want, w.Warnings); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.args, diff)
		}
	}
}

func TestIdleDraws(t *testing.T) {
	for _, c := range []struct {
		change func(o *Options)
		want   string
	}{
		{func(o *Options) { o.ISLList, o.ISLMean, o.Seed = "x", 100, 7 }, "--isl-mean, --seed without effect: the lengths of the requests come from --isl-list"},
		{func(o *Options) { o.Trace, o.ISLScale = "x", 0 }, "--isl-scale without effect: the lengths of the requests come from --trace"},
		{func(o *Options) { o.ISLList = "x" }, ""},
		{func(o *Options) { o.ISLMean = 100 }, ""},
	} {
		w := &Workload{Options: DefaultOptions()}
		c.change(&w.Options)
		if got := w.warnDraws(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
