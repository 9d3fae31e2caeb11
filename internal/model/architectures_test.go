package model

import (
	"strings"
	"testing"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// TestArchitectures names families as engines name their classes.
func TestArchitectures(t *testing.T) {
	for classes, want := range map[string]string{
		"LongcatFlashForCausalLM":                 "longcat_flash",
		"LongcatFlashNgramForCausalLM":            "longcat_flash_ngram",
		"MiniMaxM3SparseForConditionalGeneration": "minimax_m3",
		"Qwen3_5MoeForConditionalGeneration":      "qwen3_5_moe",
		"Qwen2_5_VLForConditionalGeneration":      "qwen2_5_vl",
		"MiniMaxText01ForCausalLM":                "minimaxtext01",
		"DeciLMForCausalLM":                       "nemotron-nas",
		"RWForCausalLM":                           "refinedweb",
		"GPTBigCodeForCausalLM":                   "gpt_bigcode",
		"ChatGLMModel":                            "chatglm",
		"DeepseekV3ForCausalLM":                   "deepseek_v3",
		"GptOssForCausalLM":                       "gpt_oss",
		"MiMoV2FlashForCausalLM":                  "mimo_v2_flash",
		"HYV4ForCausalLM":                         "hy_v4",
		"GraniteMoeSWAForCausalLM":                "granitemoe_swa",
		"Mamba2ForCausalLM":                       "mamba2",
		"MyOwnForCausalLM, JambaForCausalLM":      "jamba",
		"MyOwnForCausalLM":                        "",
		"ForCausalLM":                             "",
	} {
		v, err := conf.Parse("m.yaml", []byte("["+classes+"]"))
		must.Do(t, err)
		if got := familyOfClass(v); got != want {
			t.Errorf("%s: %q, want %q", classes, got, want)
		}
	}
}

// TestWithoutModelType reads files whose family only architectures says, or nothing does. A file that may be
// LongCat's, with two latent vectors in each layer, is refused; one with plain heads is not.
func TestWithoutModelType(t *testing.T) {
	const mla = "num_hidden_layers: 4\nnum_attention_heads: 8\nhidden_size: 64\nkv_lora_rank: 32\nqk_rope_head_dim: 4\n"
	const heads = `{num_hidden_layers: 4, num_attention_heads: 8, hidden_size: 64}`
	for text, want := range map[string]string{
		"architectures: [LongcatFlashForCausalLM]\n" + mla:                             "longcat_flash mla 0 to 1 32+4",
		"architectures: [DeepseekV3ForCausalLM]\n" + mla:                               "deepseek_v3 mla 0 to 3 32+4",
		"model_type: some_mla\narchitectures: [LongcatFlashForCausalLM]\n" + mla:       "some_mla mla 0 to 3 32+4",
		"model_type: a\ntext_config: {architectures: [DbrxForCausalLM], " + heads[1:]:  "dbrx full 0 to 3 1x8",
		"model_type: a\ntext_config: {architectures: [MyOwnForCausalLM], " + heads[1:]: "a full 0 to 3 8x8",
		"architectures: [OuterForConditionalGeneration]\ntext_config: " + heads:        " full 0 to 3 8x8",
		"architectures: [DbrxForConditionalGeneration]\ntext_config: " + heads:         "dbrx full 0 to 3 1x8",
	} {
		if m, err := parse(text); err != nil || m.Family+" "+describe(m) != want {
			t.Errorf("%s: %v, %v, want %s", text, m, err, want)
		}
	}
	for text, says := range map[string]string{
		"architectures: [MyOwnForCausalLM]\n" + mla:                "m.yaml:5: kv_lora_rank: how many latent vectors a layer keeps depends on the class",
		"text_config:\n  " + strings.ReplaceAll(mla, "\n", "\n  "): "m.yaml:5: text_config.kv_lora_rank: how many",
		"architectures: [RwkvForCausalLM]\n" + mla:                 "neither vLLM nor SGLang hands its state",
		"architectures: [A]\nnum_kv_shared_layers: 2\n":            "the keys num_hidden_layers, num_attention_heads, hidden_size are missing",
		mla: "m.yaml:1: the key model_type is missing, and so is architectures",
	} {
		if _, err := parse(text); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %s", text, err, says)
		}
	}
}
