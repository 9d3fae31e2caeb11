package result_test

import (
	"testing"

	"perigee/internal/result"
)

// generated is a workload as perigee matgen makes it: 2 prefill workers of 2 ranks, a decode worker of 4.
func generated() (*result.Document, map[string]any) {
	d := &result.Document{World: result.World{Size: 8}}
	for i, tokens := range []float64{2384, 32409} {
		first := int64(2 * i)
		d.Matrices = append(d.Matrices, result.Matrix{Ranks: 8, Bytes: int64(tokens) * 10,
			Cells: [][3]int64{{first, 4, int64(tokens) * 5}, {first + 1, 7, int64(tokens) * 5}}})
		d.Patterns = append(d.Patterns, result.Pattern{Matrix: i, Metadata: map[string]any{
			"request": float64(i), "requests": 1.0, "isl": tokens, "kv_bytes": tokens * 1000}})
	}
	return d, map[string]any{
		"model_figures": map[string]any{"name": "llama3.1-70b", "kv_cache_dtype": "bf16"},
		"options": map[string]any{"num_prefill_nodes": 1.0, "num_decode_nodes": 1.0, "ppn": 4.0,
			"prefill_tp": 2.0, "prefill_pp": 1.0, "decode_tp": 4.0, "decode_dp": 4.0},
	}
}

func TestDescribeWorkload(t *testing.T) {
	type object = map[string]any
	const all = "Llama 3.1 70B in bf16, 2 prefill TP2 -> 1 decode TP4 DP4, 2 requests of 2384 to 32,409 tokens, bytes at 1/100"
	for name, c := range map[string]struct {
		change func(d *result.Document, generator, options object)
		want   string
	}{
		"as generated": {func(*result.Document, object, object) {}, all},
		"another model": {func(_ *result.Document, g, _ object) {
			g["model_figures"] = object{"name": "deepseek-r1", "kv_cache_dtype": "fp8"}
		}, "deepseek-r1 in fp8, 2 prefill TP2 -> 1 decode TP4 DP4, 2 requests of 2384 to 32,409 tokens, bytes at 1/100"},
		"one pattern deleted": {func(d *result.Document, _, _ object) { d.Patterns = d.Patterns[:1] },
			"Llama 3.1 70B in bf16, 1 of 2 prefill TP2 -> 1 decode TP4 DP4, 1 request of 2384 tokens, bytes at 1/100"},
		"a message to a prefill rank": {func(d *result.Document, _, _ object) { d.Matrices[0].Cells[0][1] = 1 },
			"Llama 3.1 70B in bf16, 2 requests of 2384 to 32,409 tokens, bytes at 1/100"},
		"other ranks": {func(_ *result.Document, _, o object) { o["num_decode_nodes"] = 2.0 },
			"Llama 3.1 70B in bf16, 2 requests of 2384 to 32,409 tokens, bytes at 1/100"},
		"one matrix changed": {func(d *result.Document, _, _ object) { d.Matrices[0].Bytes *= 2 },
			"Llama 3.1 70B in bf16, 2 prefill TP2 -> 1 decode TP4 DP4, 2 requests of 2384 to 32,409 tokens, bytes 0.01 to 0.02 times those of the caches"},
		"copies": {func(d *result.Document, _, o object) {
			o["kv_replicas"] = "full"
			for i := range d.Matrices {
				d.Matrices[i].Bytes *= 400
			}
		}, "Llama 3.1 70B in bf16, 2 prefill TP2 -> 1 decode TP4 DP4, 2 requests of 2384 to 32,409 tokens, bytes with copies 4 times those of the caches"},
		"copies that are counted apart": {func(d *result.Document, g, o object) {
			o["kv_replicas"] = "full"
			g["model_figures"] = object{"name": "deepseek-v3", "kv_cache_dtype": "fp8", "kv_cache_dtype_by": "as asked",
				"copies": "each of 4 decode ranks receives the whole latent"}
			for i := range d.Matrices {
				d.Matrices[i].Bytes *= 4
				d.Patterns[i].Metadata["moved_bytes"] = d.Patterns[i].Metadata["kv_bytes"].(float64) * 4
			}
		}, "deepseek-v3 in fp8 (as asked), 2 prefill TP2 -> 1 decode TP4 DP4, 2 requests of 2384 to 32,409 tokens, each of 4 decode ranks receives the whole latent, bytes at 1/100"},
		"true bytes": {func(d *result.Document, _, _ object) {
			for i := range d.Matrices {
				d.Matrices[i].Bytes *= 100
			}
		}, "Llama 3.1 70B in bf16, 2 prefill TP2 -> 1 decode TP4 DP4, 2 requests of 2384 to 32,409 tokens"},
		"a pattern of one's own": {func(d *result.Document, _, _ object) { d.Patterns[1].Metadata = nil },
			"Llama 3.1 70B in bf16, 2 prefill TP2 -> 1 decode TP4 DP4, 1 request of 2384 tokens and 1 other pattern, bytes at 1/100"},
		"a batch": {func(d *result.Document, _, _ object) { d.Patterns[0].Metadata["requests"] = 3.0 },
			"Llama 3.1 70B in bf16, 2 prefill TP2 -> 1 decode TP4 DP4, 4 requests in 2 batches of 2384 to 32,409 tokens, bytes at 1/100"},
		"a request in parts, of which one is missing": {func(d *result.Document, _, _ object) {
			for i := range d.Patterns {
				d.Patterns[i].Metadata = object{"batch": 0.0, "parts": 3.0, "requests": 1.0, "isl": 2384.0,
					"kv_bytes": float64(d.Matrices[i].Bytes) * 100}
			}
		}, "Llama 3.1 70B in bf16, 2 prefill TP2 -> 1 decode TP4 DP4, 1 request of 2384 tokens in 2 of their 3 patterns, bytes at 1/100"},
		"metadata of one's own": {func(d *result.Document, _, _ object) {
			for i := range d.Patterns {
				d.Patterns[i].Metadata = object{"isl": "long", "requests": -1.0, "kv_bytes": 0.5}
			}
		}, ""},
		"options that are no numbers": {func(_ *result.Document, _, o object) { o["prefill_tp"], o["ppn"] = "two", 1e300 },
			"Llama 3.1 70B in bf16, 2 requests of 2384 to 32,409 tokens, bytes at 1/100"},
		"sizes that overflow": {func(_ *result.Document, _, o object) {
			o["prefill_tp"], o["prefill_pp"], o["prefill_cp"] = float64(1<<40), float64(1<<40), float64(1<<40)
		}, "Llama 3.1 70B in bf16, 2 requests of 2384 to 32,409 tokens, bytes at 1/100"},
		"no generator": {func(_ *result.Document, g, _ object) { clear(g) }, ""},
	} {
		d, generator := generated()
		c.change(d, generator, generator["options"].(object))
		if got := d.DescribeWorkload(generator); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

func TestRequestOfPattern(t *testing.T) {
	for _, c := range []struct {
		metadata map[string]any
		want     result.Request
	}{
		{nil, result.Request{}},
		{map[string]any{"isl": 5.0, "kv_bytes": 7.0}, result.Request{Tokens: 5, Bytes: 7, Moved: 7}},
		{map[string]any{"request": 3.0, "requests": 1.0, "isl": int64(5), "state_bytes": 9.0, "kind": "states"},
			result.Request{Name: "request 3, states", Tokens: 5, Bytes: 9, Moved: 9}},
		{map[string]any{"request": 3.0, "requests": 3.0, "layers": "0 to 9", "tokens": "0 to 99"},
			result.Request{Name: "requests 3-5, layers 0 to 9, tokens 0 to 99"}},
		{map[string]any{"request": "3", "isl": -1.0, "kv_bytes": 1e300}, result.Request{}},
	} {
		p := result.Pattern{Metadata: c.metadata}
		if got := p.Request(); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.metadata, got, c.want)
		}
	}
}
