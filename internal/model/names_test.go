package model

import (
	"encoding/json"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

func mustNamed(t *testing.T, name string) *Model {
	t.Helper()
	m, err := Named(name)
	must.Do(t, err)
	return m
}

// TestSimilar takes names as public cards write them. Another version is another model, unless its file is known to say
// the same.
func TestSimilar(t *testing.T) {
	for name, want := range map[string]string{
		"meta-llama/Llama-3.1-8B-Instruct": "llama3.1-8b", "Llama-3.1-405B-Instruct-FP8": "llama3.1-405b", "Llama-3.3-70B-Instruct": "llama3.3-70b",
		"meta-llama/Meta-Llama-3.1-70B": "llama3.1-70b", "openai/gpt-oss-120b": "gpt-oss-120b", "google/gemma-3-27b-it": "gemma3-27b",
		"Mixtral-8x7B-Instruct-v0.1": "mixtral-8x7b", "mistralai/Mistral-7B-Instruct-v0.3": "mistral-7b-v0.3",
		"Qwen/Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b", "deepseek-ai/DeepSeek-R1-0528": "deepseek-r1", "DeepSeek-V2-Lite-Chat": "deepseek-v2-lite",
		"deepseek_v3": "deepseek-v3", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": "deepseek-r1-distill-llama-70b",
		"deepseek-ai/DeepSeek-V3.2-Exp": "deepseek-v3.2", "deepseek-ai/DeepSeek-V3.1": "deepseek-v3", "moonshotai/Kimi-K2-Instruct-0905": "kimi-k2",
		"zai-org/GLM-5.1-FP8": "glm-5", "zai-org/GLM-5.2": "glm-5.2", "Qwen/Qwen3-Next-80B-A3B-Thinking": "qwen3-next-80b-a3b",
		"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "nemotron-3-nano-30b-a3b", "nvidia/Llama-3_3-Nemotron-Super-49B-v1": "llama-3.3-nemotron-super-49b-v1",
		"stepfun-ai/Step-3.7-Flash": "step-3.5-flash", "meta-llama/Llama-4-Scout-17B-16E-Instruct": "llama-4-scout-17b-16e",

		// Quantizations, and other words that change no cache.
		"mlx-community/Qwen3-32B-4bit": "qwen3-32b", "lmstudio-community/Qwen3-32B-MLX-8bit": "qwen3-32b", "Qwen3-32B-4bit-DWQ": "qwen3-32b",
		"unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit": "llama3.1-8b", "unsloth/Llama-3.3-70B-Instruct-unsloth-bnb-4bit": "llama3.3-70b",
		"RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic": "llama-4-scout-17b-16e", "RedHatAI/Qwen3-8B-quantized.w4a16": "qwen3-8b",
		"amd/Llama-3.1-70B-Instruct-FP8-KV": "llama3.1-70b", "nvidia/DeepSeek-R1-FP4": "deepseek-r1", "DeepSeek-R1-W4AFP8": "deepseek-r1",
		"unsloth/DeepSeek-R1-UD-Q2_K_XL": "deepseek-r1", "Qwen3-32B-Q4_K_M": "qwen3-32b", "Qwen3-32B-Q8_0": "qwen3-32b", "Qwen3-32B-IQ4_XS": "qwen3-32b",
		"mradermacher/Qwen3-32B-i1-GGUF": "qwen3-32b", "google/gemma-3-27b-it-qat-q4_0-gguf": "gemma3-27b", "google/gemma-3-27b-pt": "gemma3-27b",
		"amd/gpt-oss-120b-MXFP4": "gpt-oss-120b", "Qwen3-30B-A3B-GPTQ-Int4": "qwen3-30b-a3b", "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": "qwen3-235b-a22b",
		"Mistral-7B-Instruct-v0.3-AWQ": "mistral-7b-v0.3", "RedHatAI/Qwen3-8B-W4A16-G128": "qwen3-8b", "Llama-3.3-70B-4.0bpw-exl2": "llama3.3-70b",
		"zai-org/GLM-4.7-FP8": "glm-4.5", "MiniMaxAI/MiniMax-M2.1": "minimax-m2.5", "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16": "nemotron-3-nano-30b-a3b",

		"GLM-4.6V": "", "GLM-4.7-Flash": "", "Qwen3-32B-K": "", "Qwen3-VL-4B-FP8": "", "DeepSeek-V3-Terminus": "", "Qwen3-4B-1M": "", "Q4_K_M": "", "FP8": "",
		"GLM-5.3": "", "zai-org/GLM-5.3-FP8": "", "GLM-52": "", "DeepSeek-V3.3": "", "DeepSeek-V3-Exp": "", "DeepSeek-V4": "", "Kimi-K2.9": "", "gpt-oss-120b-v2": "",
		"Llama-3_3-Nemotron-Super-49B-v1_5": "", "Llama-3.1-70B-128": "", "Mistral-7B-v0.2": "", "MiniMax-M3.5": "", "Qwen3.5-27B-1M": "",
		"DeepSeek-R1-Distill-Qwen-7B": "", "Qwen3-8": "", "GLM-4.5V": "", "": "", "/": "",
	} {
		if got, ok := Similar(name); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, wanted %q", name, got, want)
		}
	}
	for _, name := range Names() {
		if got, _ := Similar(name); got != name {
			t.Errorf("%s: got %q", name, got)
		}
	}
	for alias, name := range aliases {
		if got, _ := Similar(alias); got != name {
			t.Errorf("%s: got %q, wanted %q", alias, got, name)
		}
	}
}

// TestGoldenNames takes names as users type them, with the bytes of their models, and what must not be meant by them.
func TestGoldenNames(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	text := must.Read(t, "testdata/names.json")
	var golden struct {
		Names map[string]struct {
			KV, State int64
			Certainty string
		}
		Same         map[string]string
		NotSuggested map[string][]string `json:"not_suggested"`
	}
	text = []byte(strings.NewReplacer("kv_bytes_1000", "kv", "state_bytes", "state").Replace(string(text)))
	if err := json.Unmarshal(text, &golden); err != nil || len(golden.Names) != 18 || len(golden.Same) != 8 || len(golden.NotSuggested) != 7 {
		t.Fatalf("%v, %+v", err, golden)
	}
	for name, want := range golden.Names {
		m, err := Load(name)
		if want.Certainty != "config as published" {
			if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "only its class is known here") ||
				!strings.Contains(fault.HintOf(err), "hf download "+name+" config.json") {
				t.Errorf("%s: %v, %v (%s)", name, m, err, fault.HintOf(err))
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		kv, state := mustBytes(t, mustCache(t, m, "bf16", Options{StateDType: float32Name}), 1000)
		if kv != want.KV || state != want.State {
			t.Errorf("%s: %d and %d bytes, want %d and %d", name, kv, state, want.KV, want.State)
		}
	}
	for name, want := range golden.Same {
		if got, _ := Similar(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for name, others := range golden.NotSuggested {
		m, err := Load(name)
		for _, other := range others {
			if err != nil && strings.Contains(err.Error()+fault.HintOf(err), other) || err == nil && strings.Contains(m.Name, other) {
				t.Errorf("%s: %s is meant: %v, %v", name, other, m, err)
			}
		}
	}
}

// A suggestion is another spelling of the same size.
func TestSuggestion(t *testing.T) {
	for name, want := range map[string]string{
		"lama3.1-8b": `"llama3.1-8b"`, "deepsek-r1": `"deepseek-r1"`, "deepsek-r1-0528": `"deepseek-r1"`, "GLM-52": `"glm-5.2"`, "Llama31-70B": `"llama3.1-70b"`,
		"llama-405": `"llama-405b"`, "gemma-27b": `"gemma2-27b"`, "qwen3-235b": `"qwen3-235b-a22b"`, "Qwen3-8": `"qwen3-8b"`, "mistral-7b": "one of mistral-7b-v0.1, mistral-7b-v0.3",
		"DeepSeek-V4": "one of deepseek-v4-flash, deepseek-v4-pro", "gptoss-20b-AWQ": `"gpt-oss-20b"`, "mixtral-8x7": `"mixtral-8x7b"`,

		"zai-org/GLM-5.3-FP8": "", "Qwen/Qwen3-9B-Instruct": "", "Qwen3-1": "", "deepseek-v33": "", "mistral-8b": "", "nemotron-3-nano-3b": "", "llama-9000": "",
		"gemma-4-12B": "", "DeepSeek-V4.1": "", "llama3.2-8b": "", "Qwen2.5-14B": "", "": "", "/": "", "-": "", strings.Repeat("x3", 1e5): "",
	} {
		if got := Suggestion(name); got != want && got != "; did you mean "+want+"?" {
			t.Errorf("%.30s: got %s, want %s", name, got, want)
		}
	}
}

// auto is answered by a name where it does not say that the weights are quantized. What a user asks for is counted.
func TestAutoByName(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	for _, name := range []string{"qwen3-32b", "Qwen/Qwen3-32B", "unsloth/gpt-oss-20b", "mlx-community/Qwen3-32B-bf16"} {
		m, err := Load(name)
		must.Do(t, err)
		if c, err := m.CacheIn("auto", Options{}); err != nil || c.Precision() != "bf16 (the preset's, by name only)" || m.ByName != name {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	for _, name := range []string{
		"Qwen/Qwen3-32B-FP8", "nvidia/DeepSeek-R1-0528-NVFP4-v2", "Qwen3-32B-AWQ", "Qwen3-32B-GPTQ-Int4", "RedHatAI/Qwen3-8B-quantized.w4a16",
		"Qwen3-32B-GGUF", "Qwen3-32B-4bit", "Qwen3-32B-MLX-8bit", "gpt-oss-20b-MXFP4", "Qwen3-32B-INT8-W8A8", "Qwen3-32B-Q4_K_M",
	} {
		m, err := Load(name)
		must.Do(t, err)
		_, err = m.CacheIn("auto", Options{})
		if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), name+": ") || !strings.Contains(err.Error(), "hf_quant_config.json may say another precision") ||
			!strings.Contains(fault.HintOf(err), "config.json hf_quant_config.json") || !strings.Contains(fault.HintOf(err), "--kv-cache-dtype fp8") {
			t.Errorf("%s: %v (%s)", name, err, fault.HintOf(err))
		}
		for dtype, want := range map[string]string{"": "bf16 (default)", "fp8": "fp8 (as asked)", "bfloat16": "bf16 (as asked)"} {
			if c, err := m.CacheIn(dtype, Options{}); err != nil || c.Precision() != want {
				t.Errorf("%s in %q: %v, %v", name, dtype, c, err)
			}
		}
	}
	for _, name := range Names() {
		if quantized(name) {
			t.Errorf("%s is taken for quantized", name)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	for _, name := range []string{"meta-llama/Llama-3.1-70B", "META-LLAMA/LLAMA-3.1-70B", "meta-llama/llama-3.1-70b", "LLAMA3.1_70B", "llama3.1-70b"} {
		if m, err := Load(name); err != nil || m.Name != "LLAMA3.1_70B" {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	for name, says := range map[string]string{
		"lama3.1-8b":                `there is no model "lama3.1-8b"; did you mean "llama3.1-8b"?`,
		"completely-different-name": `there is no model "completely-different-name"`,
		"dir/x":                     `there is no model "dir/x"`,
		"":                          `there is no model ""`,
	} {
		if _, err := Load(name); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, wanted %s", name, err, says)
		}
	}
	for name, says := range map[string]string{"no.yaml": "no.yaml: there is no such file", t.TempDir(): "config.json: there is no such file"} {
		if _, err := Load(name); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, wanted %s", name, err, says)
		}
	}
}
