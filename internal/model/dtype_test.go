package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// TestEntryBytes compares the bytes of one entry in each precision with sums by hand; 0: refused.
func TestEntryBytes(t *testing.T) {
	names := []string{"bf16", "fp16", "fp8", "int8", "fp8_per_token_head", "int8_per_token_head", "int4_per_token_head",
		"mxfp8", "nvfp4", fp8DSMLA, nvfp4DSMLA}
	for _, tt := range []struct {
		keep Keep
		want [11]int64
	}{
		{heading(1, 128), [11]int64{512, 512, 256, 256, 264, 264, 136, 264, 144, 0, 0}},
		{heading(8, 64), [11]int64{2048, 2048, 1024, 1024, 1088, 1088, 576, 1056, 576, 0, 0}},
		{Keep{Kind: Window, Last: 9, Heads: 1, Key: 192, Value: 128}, [11]int64{640, 640, 320, 320, 328, 328, 168, 330, 180, 0, 0}},
		{heading(1, 24), [11]int64{96, 96, 48, 48, 56, 56, 32, 0, 0, 0, 0}},
		{Keep{Kind: MLA, Latent: 512, Rope: 64}, [11]int64{1152, 1152, 576, 576, 584, 584, 296, 0, 324, 0, 0}},
		{Keep{Kind: MLA, Latent: 512, Rope: 64, Packing: packingDSA}, [11]int64{1152, 1152, 576, 576, 584, 584, 296, 0, 0, 656, 352}},
		{Keep{Kind: Compressed, Every: 4, Latent: 448, Rope: 64, Packing: packingV4}, [11]int64{1024, 1024, 512, 512, 0, 0, 0, 0, 0, 584, 0}},
		{Keep{Kind: Window, Last: 9, Latent: 448, Rope: 64, Packing: packingV4}, [11]int64{1024, 1024, 512, 512, 0, 0, 0, 0, 0, 584, 0}},
		{Keep{Kind: IndexKey, Latent: 128}, [11]int64{256, 256, 128, 128, 0, 0, 0, 0, 0, 0, 0}},
		{Keep{Kind: Indexer, Index: 128}, [11]int64{132, 132, 132, 132, 132, 132, 132, 132, 132, 132, 132}},
		{Keep{Kind: Indexer, Index: 192}, [11]int64{200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200}},
	} {
		for i, name := range names {
			dtype, err := (&Model{}).ParseDType(name)
			must.Do(t, err)
			got, err := tt.keep.EntryBytes(dtype)
			if got != tt.want[i] || (err == nil) != (tt.want[i] > 0) || err != nil && fault.KindOf(err) != fault.Input {
				t.Errorf("%+v in %s: %d bytes, %v, want %d", tt.keep, name, got, err, tt.want[i])
			}
		}
	}
	if len(names)+1 != len(DTypeNames()) {
		t.Errorf("%v are not all", names)
	}
	for _, heads := range []int64{1, 2} { // whole bytes of a head, so that ranks can have their share
		if _, err := (Keep{Kind: Full, Heads: heads, Key: 1, Value: 2}).EntryBytes(DType{bits: 4}); fault.KindOf(err) != fault.Input {
			t.Errorf("%d heads of 12 bits: %v", heads, err)
		}
	}
}

// Keys and values of unequal size stand in vLLM's plain layouts only.
func TestUnequalHeads(t *testing.T) {
	m, _ := Shipped("mimo-v2-flash")
	for name, fits := range map[string]bool{"bf16": true, "fp8": true, "nvfp4": false, "fp8_per_token_head": false} {
		dtype, _ := m.ParseDType(name)
		if _, err := m.Cache(Options{DType: dtype, Serving: VLLM}); (err == nil) != fits {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := m.Cache(Options{DType: dtype}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseDType(t *testing.T) {
	m := &Model{Name: "m", CacheDType: "fp7"}
	for name, want := range map[string]string{"BF16": "bf16", "bfloat16": "bf16", "half": "fp16", "fp8_e5m2": "fp8", "fp4": "nvfp4", "fp4_mx_block16": "nvfp4"} {
		if got, err := m.ParseDType(name); err != nil || got.Name != want {
			t.Errorf("%s: %v, %v, want %s", name, got, err, want)
		}
	}
	for name, kind := range map[string]fault.Kind{"turboquant_3bit": fault.Usage, "auto": fault.Input} {
		if _, err := m.ParseDType(name); fault.KindOf(err) != kind {
			t.Errorf("%s: got %v of kind %v, want %v", name, err, fault.KindOf(err), kind)
		}
	}
	for bytes, fits := range map[float64]bool{2: true, 0.5: true, 0.125: true, 0.1: false, 0: false, -1: false, 1 << 18: false} {
		if got, err := BytesPerValue(bytes); (err == nil) != fits || fits && float64(got.bits) != bytes*8 {
			t.Errorf("%v: %v, %v", bytes, got, err)
		}
	}
}

// TestAuto takes the precision of the cache from a config.json, from the file beside it, or from the model.
func TestAuto(t *testing.T) {
	const head = `{"model_type": "x", "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 64`
	for _, tt := range []struct{ config, beside, want string }{
		{head + `}`, ``, "bf16"},
		{head + `, "torch_dtype": "float16"}`, ``, "fp16"},
		{head + `, "dtype": "torch.bfloat16", "quantization_config": {"quant_method": "fp8"}}`, ``, "bf16"},
		{head + `, "dtype": "float32"}`, ``, "bf16"},
		{head + `, "dtype": "auto"}`, ``, "bf16"},
		{head + `, "quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}}`, ``, "fp8"},
		{head + `, "quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "int"}}}`, ``, "int8"},
		{head + `, "quantization_config": {"kv_cache_scheme": {"num_bits": 4, "type": "float"}}}`, ``, "nvfp4"},
		{head + `, "quantization_config": {"kv_cache_scheme": {"num_bits": 2, "type": "int"}}}`, ``, ""},
		{head + `, "quantization_config": {"kv_cache_scheme": "FP8"}}`, ``, "fp8"},
		{head + `, "quantization_config": {"kv_cache_scheme": null, "kv_cache_quant_algo": "NVFP4"}}`, ``, "nvfp4"},
		{head + `, "quantization_config": {"kv_cache_quant_algo": "none"}}`, ``, "bf16"},
		{`{"quantization_config": {"kv_cache_scheme": "fp8"}, "text_config": ` + head + `, "dtype": "float16"}}`, ``, "fp8"},
		{`{"dtype": "float16", "text_config": ` + head + `}}`, ``, "fp16"},
		{head + `}`, `{"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}`, "fp8"},
		{head + `, "quantization_config": {"kv_cache_quant_algo": "NVFP4"}}`, `{"quantization": {"kv_cache_quant_algo": "FP8"}}`, "nvfp4"},
		{head + `}`, `{"quantization": {"kv_cache_quant_algo": null}}`, "bf16"},
		{head + `}`, `{"quantization": `, ""},
	} {
		folder := t.TempDir()
		for name, text := range map[string]string{configName: tt.config, "hf_quant_config.json": tt.beside} {
			if text != "" {
				must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
			}
		}
		m, err := Load(folder)
		var got DType
		if err == nil {
			got, err = m.ParseDType("auto")
		}
		if got.Name != tt.want || (err != nil) != (tt.want == "") || err != nil && fault.KindOf(err) != fault.Input {
			t.Errorf("%s beside %s: %v, %v, want %s", tt.config, tt.beside, got, err, tt.want)
		}
	}
}

// TestStatePrecision has what decides the precision of a recurrence.
func TestStatePrecision(t *testing.T) {
	for _, tt := range []struct {
		name, asked string
		engine      Serving
		want, by    string
	}{
		{"qwen3-next-80b-a3b", "", Exact, float32Name, "assumed"},
		{"qwen3-next-80b-a3b", "", SGLang, float32Name, "SGLang's default"},
		{"qwen3-next-80b-a3b", "", VLLM, bfloat16Name, "vLLM takes the model's precision"},
		{"qwen3-next-80b-a3b", float32Name, VLLM, float32Name, "as asked"},
		{"qwen3.5-27b", "", VLLM, float32Name, "the model's file or class says so"},
		{"qwen3.5-27b", "", TRTLLM, bfloat16Name, "TensorRT-LLM"},
		{"nemotron-3-nano-30b-a3b", "", VLLM, float32Name, "the model's file or class"},
		{"kimi-k3", "", VLLM, float32Name, "the model's file or class"},
		{"falcon-h1-7b", "", VLLM, bfloat16Name, "vLLM"},
		{"llama3.1-8b", float32Name, SGLang, "", ""},
	} {
		m, _ := Shipped(tt.name)
		c := mustCache(t, m, "bf16", Options{Serving: tt.engine, StateDType: tt.asked})
		if c.State != tt.want || !strings.Contains(c.StateBy, tt.by) {
			t.Errorf("%s, %q, %q: %q, %q, want %q, %q", tt.name, tt.engine, tt.asked, c.State, c.StateBy, tt.want, tt.by)
		}
	}
	m, err := parse(configText("bamba", "mamba_ssm_dtype: torch.float16"))
	if err != nil || m.StateDType != bfloat16Name {
		t.Errorf("%v, %v", m, err)
	}
}
