package model

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// TestOthers gives files that lie beside a config.json; each is named as what it is.
func TestOthers(t *testing.T) {
	header := `{"__metadata__": {"format": "pt"}}`
	length := string(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))
	for name, tt := range map[string]struct{ text, says string }{
		"a.gguf":                       {"GGUF\x03\x00\x00\x00\x00\x00\x00\x00", "this is a GGUF file"},
		"config.json":                  {"GGUF\x03\x00\x00\x00\x00\x00\x00\x00", "this is a GGUF file"},
		"model.safetensors":            {length + header + "\x00\x00", "this is a safetensors file"},
		"params.json":                  {`{"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 32768}`, ":1: this is a params.json"},
		"tokenizer_config.json":        {`{"added_tokens_decoder": {}, "tokenizer_class": "LlamaTokenizer"}`, ":1: this is a tokenizer_config.json"},
		"generation_config.json":       {`{"_from_model_config": true, "eos_token_id": 2, "transformers_version": "4.43.0"}`, ":1: this is a generation_config.json"},
		"model.safetensors.index.json": {`{"metadata": {"total_size": 1}, "weight_map": {}}`, ":1: this is an index of weights"},
	} {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, []byte(tt.text), 0o600))
		_, err := Load(path)
		if err == nil || fault.KindOf(err) != fault.Input || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %s", name, err, tt.says)
		}
		if !strings.Contains(fault.HintOf(err), "config.json") {
			t.Errorf("%s: the hint is %q", name, fault.HintOf(err))
		}
	}
	// Eight blanks before a document are no length of a header, and a file of nothing no weights.
	for text, says := range map[string]string{`        {"model_type": "x"}`: "num_hidden_layers", "": "m.json"} {
		path := filepath.Join(t.TempDir(), "m.json")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %s", text, err, says)
		}
	}
}
