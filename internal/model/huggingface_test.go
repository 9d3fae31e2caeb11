package model

import (
	"fmt"
	"strings"
	"testing"

	"perigee/internal/conf"
	"perigee/internal/fault"
)

// types is a list of layer types in which every nth layer keeps all tokens.
func types(layers, n int) string {
	var list []string
	for i := range layers {
		kind := "sliding_attention"
		if n > 0 && (i+1)%n == 0 {
			kind = "full_attention"
		}
		list = append(list, fmt.Sprintf("%q", kind))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// The config.json of a model describes the same cache as the shipped file of this model, which package tests hold against
// the model's card.
func TestHuggingFace(t *testing.T) {
	for shipped, text := range map[string]string{
		"llama3.1-8b": `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
			"num_key_value_heads": 8, "sliding_window": null, "rope_scaling": {"factor": 8.0}}`,
		"qwen3-8b": `{"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
			"sliding_window": 4096, "use_sliding_window": false}`,
		"deepseek-r1": `{"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
			"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}`,
		"gpt-oss-120b": `{"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
			"sliding_window": 128, "layer_types": ` + types(36, 2) + `}`,
	} {
		want, ok := Shipped(shipped)
		if !ok {
			t.Fatalf("there is no %s", shipped)
		}
		v, err := conf.Parse("config.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		a, err := Parse(v)
		if err != nil {
			t.Errorf("%s: %v", shipped, err)
			continue
		}
		if a.Layers != want.Layers || a.Values(a.KVHeads) != want.Values(want.KVHeads) || a.MLA() != want.MLA() || a.CheckHeads() != nil {
			t.Errorf("%s: %+v, want %+v", shipped, a, want)
		}
		for _, tokens := range []int64{1, 100, 129, 100000} {
			got, _ := a.RequestValues(tokens)
			if w, _ := want.RequestValues(tokens); got != w {
				t.Errorf("%s: %d values for %d tokens, want %d", shipped, got, tokens, w)
			}
		}
	}
	// The text part of a model that sees pictures, and a pattern given by a number.
	v, err := conf.Parse("config.json", []byte(`{"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62,
		"num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024, "sliding_window_pattern": 6}}`))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := Parse(v); err != nil || a.Window != 1024 || a.FullEvery != 6 || a.KVHeads != 16 || a.Layers != 62 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestHuggingFaceRefuses(t *testing.T) {
	const head = `{"model_type": "x", "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 32`
	for text, want := range map[string]string{
		`{"model_type": "clip"}`:                                            "the key num_hidden_layers is missing",
		head + `, "num_key_value_heads": "8"}`:                              "wanted a whole number from 1",
		head + `, "kv_lora_rank": 512}`:                                     "wanted qk_rope_head_dim",
		head + `, "num_kv_shared_layers": 10}`:                              "layers that share a KV cache are not known",
		head + `, "layer_types": ["linear_attention"]}`:                     "wanted full_attention, or sliding_attention",
		head + `, "sliding_window": 8, "layer_types": ` + types(3, 2) + `}`: "wanted 4 layers",
		head + `, "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]}`: "in every Nth layer",
		strings.Replace(head, "4096", "4097", 1) + `}`: "wanted head_dim, or a hidden_size",
	} {
		v, err := conf.Parse("config.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(v); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "config.json") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
