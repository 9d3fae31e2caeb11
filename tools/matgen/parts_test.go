package matgen

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
	"perigee/internal/model"
)

// drawParts makes options of any model and any parallelism that can be planned, and one request of a few tokens.
func drawParts(t *rapid.T) Options {
	pick := func(name string, numbers ...int) int { return rapid.SampledFrom(numbers).Draw(t, name) }
	o := DefaultOptions()
	o.Model = rapid.SampledFrom(model.Names()).Draw(t, "model")
	m, err := model.Named(o.Model)
	must.Do(t, err)
	tps := []int{1}
	for _, tp := range []int{2, 4, 8} {
		if m.CheckCut(int64(tp)) == nil {
			tps = append(tps, tp)
		}
	}
	o.PrefillTP, o.DecodeTP = rapid.SampledFrom(tps).Draw(t, "prefill tp"), rapid.SampledFrom(tps).Draw(t, "decode tp")
	o.PrefillCP, o.DecodeCP = pick("prefill cp", 1, 2), pick("decode cp", 1, 2)
	o.PrefillPP, o.DecodePP = pick("prefill pp", 1, 2, 3), pick("decode pp", 1, 2)
	if rapid.Bool().Draw(t, "attention groups") {
		o.PrefillDP, o.PrefillTP = 2, 2*o.PrefillTP
	}
	o.PPN = o.PrefillTP * o.PrefillCP * o.PrefillPP * o.DecodeTP * o.DecodeCP * o.DecodePP
	o.NumPrefillNodes, o.NumDecodeNodes = 1, 1
	o.Layerwise = rapid.Bool().Draw(t, "layerwise")
	o.Chunk = int64(pick("chunk", 0, 100, 1000))
	o.KVReplicas = rapid.SampledFrom([]model.Replicas{model.ReplicasSplit, model.ReplicasFull}).Draw(t, "replicas")
	o.BatchSize = pick("batch", 1, 2)
	o.MinISL = new(int64(1))
	return o
}

// TestParts cuts batches in every way: the parts add up to the model's bytes, every matrix to its pattern's, and the
// sleeps of a stage to its share of the prefill.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawParts(t)
		in := Inputs{}
		var want int64
		m, _ := model.Named(o.Model)
		d, _ := m.ParseDType("bf16")
		cache, err := m.Cache(model.Options{DType: d})
		must.Do(t, err)
		for _, tokens := range rapid.SliceOfN(rapid.Int64Range(1, 2500), 1, 3).Draw(t, "tokens") {
			in.Draws = append(in.Draws, Draw{Tokens: float64(tokens)})
			kv, state, err := cache.Bytes(tokens)
			must.Do(t, err)
			want += kv + state
		}
		w, err := Plan(o, in)
		must.Do(t, err)
		var sum int64
		sleeps := map[[3]int]float64{}
		for k, p := range w.Patterns {
			sum += p.KVBytes
			sleeps[[3]int{p.PrefillWorker, p.prefillGroup, p.part.stage}] += p.SleepSec
			m, err := w.Matrix(p)
			must.Do(t, err)
			if m.Total() != p.Bytes || o.KVReplicas == model.ReplicasSplit && p.Bytes != p.KVBytes || p.SleepSec < 0 {
				t.Fatalf("pattern %d: %d bytes in its matrix, %+v", k, m.Total(), p)
			}
		}
		if sum != want {
			t.Fatalf("%d bytes in all patterns, the model keeps %d", sum, want)
		}
		var prefill float64
		for _, r := range w.Requests {
			prefill += float64(4*r.Tokens*r.Tokens*w.Model.Hidden+16*r.Tokens*w.Model.Hidden*w.Model.Hidden) * float64(w.Model.Layers)
		}
		prefill /= o.FLOPS * float64(w.prefill.attention()*o.PrefillCP)
		var slept float64
		for _, s := range sleeps {
			slept = max(slept, s)
		}
		if slept > prefill*(1+1e-9) {
			t.Fatalf("a stage sleeps %v s, the whole prefill takes %v", slept, prefill)
		}
		if o.PrefillPP == 1 && len(w.Requests) == 1 && w.Patterns[0].after == nil && len(w.Patterns[len(w.Patterns)-1].after) == 0 &&
			(slept < prefill*(1-1e-9)) {
			t.Fatalf("one stage sleeps %v s of a prefill of %v", slept, prefill)
		}
	})
}

// TestFullCopies counts what decode ranks receive with --kv-replicas full: what each holds, whatever the kinds of
// layers.
func TestFullCopies(t *testing.T) {
	for _, name := range []string{"deepseek-v3.2", "gemma-4-26b-a4b", "qwen3-next-80b-a3b", "falcon-h1-7b", "llama3.1-8b", "kimi-k3"} {
		for _, tp := range []int{1, 2, 4} {
			o := DefaultOptions()
			o.Model, o.KVReplicas, o.NumPrefillNodes, o.NumDecodeNodes, o.PrefillTP, o.DecodeTP, o.PPN = name, model.ReplicasFull, 1, 1, tp, tp, tp
			w, err := Plan(o, Inputs{Draws: []Draw{{Tokens: 5000}}})
			must.Do(t, err)
			kv, state, err := w.Model.cache.Rank(int64(tp)).Bytes(5000)
			must.Do(t, err)
			received := make([]int64, w.World())
			for _, p := range w.Patterns {
				for _, c := range w.Cells(p) {
					received[c.To] += c.Bytes
				}
			}
			for rank, n := range received[w.Decode.First:] {
				if d := n - kv - state; d < -4 || d > 4 {
					t.Errorf("%s, tp %d: decode rank %d receives %d bytes, and holds %d", name, tp, rank, n, kv+state)
				}
			}
		}
	}
}

// TestStatesApart says which patterns are states, and how large they are: Qwen3-Next keeps 36 states of 2,146,304
// bytes.
func TestStatesApart(t *testing.T) {
	w := mustPlan(t, "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--model", "Qwen/Qwen3-Next-80B-A3B-Instruct",
		"--num-user-requests", "1", "--isl-scale", "0", "--isl-mean", "10000", "--kv-cache-dtype", "fp8")
	if len(w.Patterns) != 2 || w.Patterns[0].KVBytes != 10000*12288 || w.Patterns[1].KVBytes != 36*2146304 || w.Patterns[1].SleepSec != 0 {
		t.Fatalf("%+v", w.Patterns)
	}
	if kv, states := w.metadata(w.Patterns[0]), w.metadata(w.Patterns[1]); kv.Kind != "kv" || states.Kind != "states" ||
		states.StateBytes != 36*2146304 || states.KVBytes != 0 || kv.KVBytes != 10000*12288 {
		t.Errorf("%+v, %+v", kv, states)
	}
}

// TestPipeline lets two stages of different size prefill: 126 layers, 63 each; the second begins when the first has
// ended.
func TestPipeline(t *testing.T) {
	w := mustPlan(t, "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--ppn", "2", "--model", "llama-405b", "--prefill-pp", "2",
		"--num-user-requests", "2", "--isl-scale", "0", "--isl-mean", "16000")
	one := w.computeSec(w.Patterns[0], part{first: 0, end: 63})
	var got []string
	for _, p := range w.Patterns {
		got = append(got, fmt.Sprintf("batch %d stage %d %.3f", p.Batch, p.part.stage, p.SleepSec/one))
	}
	want := []string{"batch 0 stage 0 1.000", "batch 0 stage 1 2.000", "batch 1 stage 0 1.000", "batch 1 stage 1 1.000"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// Rank 0 is the first stage, rank 1 the second: each sends its half to a decode rank.
	for k, from := range []int{0, 1, 0, 1} {
		if c := w.Cells(w.Patterns[k]); len(c) != 1 || c[0].From != from || c[0].Bytes != 16000*516096/2 {
			t.Errorf("pattern %d: %+v", k, c)
		}
	}
}

// TestChunks sends a request of 2500 tokens of GPT-OSS in chunks of 1000: windows of 128 move with the last one alone.
func TestChunks(t *testing.T) {
	w := mustPlan(t, "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--model", "gpt-oss-120b", "--chunk", "1000",
		"--num-user-requests", "1", "--isl-scale", "0", "--isl-mean", "2500")
	const layer = 2 * 8 * 64 * 2
	var got []int64
	for _, p := range w.Patterns {
		got = append(got, p.KVBytes/layer)
	}
	if want := []int64{18 * 1000, 18 * 1000, 18*500 + 18*128}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if m := w.metadata(w.Patterns[1]); m.Tokens != "1000 to 1999" || *m.Batch != 0 {
		t.Errorf("%+v", m)
	}
	var text strings.Builder
	if err := w.writeMetadata(&text, "x"); err != nil || !strings.Contains(text.String(), "\nsleep_from: launch\ntraffic_patterns:\n") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// TestTimeScale shrinks sleeps alone, and the last line of the summary names sleeps beside which transfers are
// nothing.
func TestTimeScale(t *testing.T) {
	args := []string{"--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--model", "llama-405b", "--num-user-requests", "1", "--isl-scale", "0", "--scale", "0.001"}
	whole, tenth := mustPlan(t, args...), mustPlan(t, append(args, "--time-scale", "0.001")...)
	if a, b := whole.Patterns[0], tenth.Patterns[0]; a.Bytes != b.Bytes || b.SleepSec != a.SleepSec*0.001 {
		t.Errorf("%+v, %+v", a, b)
	}
	if n := len(whole.Warnings); n == 0 || !strings.Contains(whole.Warnings[n-1], "transfers will hardly meet") {
		t.Errorf("%q", whole.Warnings)
	}
	if strings.Contains(strings.Join(tenth.Warnings, " "), "hardly meet") {
		t.Errorf("%q", tenth.Warnings)
	}
}
