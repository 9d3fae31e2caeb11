package model

// gemma are Gemma 2 and 3, where most layers have a sliding window; how large
// it is and how many layers have none differs.
var gemma = family{
	name:  "gemma",
	parts: []string{"gemma2", "gemma3", "gemma_2", "gemma_3"},
	keys:  gqaKeys(windowKey, patternKey),
	ratio: "num_kv_heads",
	arch:  gqaArch,
}
