package model

import (
	"strings"
	"testing"

	"perigee/internal/fault"
)

func mustNamed(t *testing.T, name string) *Model {
	t.Helper()
	m, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
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

func TestLoad(t *testing.T) {
	for _, name := range []string{"meta-llama/Llama-3.1-70B", "META-LLAMA/LLAMA-3.1-70B", "meta-llama/llama-3.1-70b", "LLAMA3.1_70B", "llama3.1-70b"} {
		if m, err := Load(name); err != nil || m.Name != "LLAMA3.1_70B" {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	for name, says := range map[string]string{
		"lama3.1-8b":                `there is no model "lama3.1-8b"; did you mean "llama3.1-8b"?`,
		"zai-org/GLM-5.3-FP8":       `there is no model "zai-org/GLM-5.3-FP8"; did you mean "glm-5.2"?`,
		"Qwen/Qwen3-9B-Instruct":    `; did you mean "qwen3-8b"?`,
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
