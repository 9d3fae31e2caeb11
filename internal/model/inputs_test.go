package model

import (
	"path/filepath"
	"testing"
)

// TestInputs has files of which an earlier perigee gave wrong sizes with exit code 0: the bytes of 100,000 tokens in fp8.
func TestInputs(t *testing.T) {
	want := map[string]int64{
		"F1-gemma3-config/config.json":                   4314103808,
		"F2-qwen3-next-config/config.json":               1228800000,
		"F3-deepseek-v32-config/config.json":             4318800000,
		"F3-deepseek-v32-config/glm-dsa-layout.json":     5522400000,
		"F3-deepseek-v32-config/deepseek-v4-layout.json": 348915488,
		"F4-gemma4-config/config.json":                   4515430400,
		"F5-llama4-config/config.json":                   3061579776,
		"F6-kv-heads-other-keys/falcon-7b.json":          409600000,
		"F6-kv-heads-other-keys/falcon-40b.json":         6144000000,
		"F6-kv-heads-other-keys/step3.json":              3123200000,
		"F6-kv-heads-other-keys/nemotron-nas.json":       16384000000,
		"F7-hybrid-other-keys/jamba.json":                819200000,
		"F7-hybrid-other-keys/bamba.json":                614400000,
		"F8-max-window-layers/config.json":               14419886080,
	}
	files, err := filepath.Glob("testdata/inputs/*/*.json")
	if err != nil || len(files) != len(want) {
		t.Errorf("%d files, %v, want %d", len(files), err, len(want))
	}
	for name, n := range want {
		m := mustLoad(t, filepath.Join("testdata/inputs", name))
		if kv, _ := mustBytes(t, mustCache(t, m, "fp8", Options{}), 100000); kv != n {
			t.Errorf("%s: %d bytes, want %d", name, kv, n)
		}
	}
}
