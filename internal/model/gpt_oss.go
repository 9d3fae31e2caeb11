package model

// gptOSS are the GPT-OSS models: every second layer keeps the last 128 tokens
// only, and the first is such a layer.
var gptOSS = family{
	name:  "gpt-oss",
	parts: []string{"gpt_oss"},
	keys:  gqaKeys(withDefault(windowKey, 128), withDefault(patternKey, 2)),
	ratio: "num_kv_heads",
	arch:  gqaArch,
}
