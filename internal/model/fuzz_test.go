package model

import (
	"path/filepath"
	"testing"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// FuzzParse reads documents like those of all models: errors say what is wrong with the file, and no bytes are negative,
// whatever the precision, the engine and the rank.
func FuzzParse(f *testing.F) {
	var documents []string
	for _, name := range Names() {
		_, text, _ := Source(name)
		f.Add(text)
		documents = append(documents, string(text))
	}
	files, err := filepath.Glob("testdata/kv-*/*.json")
	must.Do(f, err)
	for _, file := range files {
		text := must.Read(f, file)
		if name := filepath.Base(file); name != "truth.json" && name != "moves.json" {
			documents = append(documents, string(text))
		}
	}
	f.Add([]byte("model: a\nfamily: gqa\n"))
	f.Add([]byte(groupsText(4, "kind: mamba2, layers: all, inner_size: 8, heads: 2, head_dim: 4, groups: 1, state_size: 4, kernel: 4")))
	f.Add([]byte(groupsText(4, "kind: ring, layers: all, bytes: 7", "kind: mla, layers: 0, latent_dim: 8, rope_dim: 0",
		"kind: mamba2, layers: 1, inner_size: 8, heads: 2, head_dim: 4, groups: 1, state_size: 4, kernel: 4, conv_width: 16")))
	f.Add([]byte(`{"architectures": ["Glm5NextForCausalLM"], "qk_rope_head_dim": 0, "layer_types": 1, "index_kpool": 0}`))
	f.Add([]byte(`{"model_type": "gemma4", "num_hidden_layers": 2, "per_layer_config": {"01": {"num_key_value_heads": 0}, "-1": {}}}`))
	f.Add([]byte(`{"dim": 8, "n_layers": 1, "n_heads": 2}`))
	fuzztest.RunDocuments(f, documents, func(t *testing.T, text []byte) {
		v, err := conf.Parse("m.yaml", text)
		if err != nil {
			return // conf tests its own errors
		}
		m, err := Parse(v)
		if err != nil {
			if fault.KindOf(err) != fault.Input {
				t.Errorf("error %q of kind %v", err, fault.KindOf(err))
			}
			return
		}
		if m.Layers < 1 || m.Layers > MaxLayers || m.Name == "" || len(m.Groups) == 0 {
			t.Errorf("%+v", m)
		}
		checkBytes(t, m)
	})
}

func checkBytes(t *testing.T, m *Model) {
	m.CheckHeads()
	m.Uniform()
	for _, g := range m.Groups {
		g.LayerText()
	}
	for _, dtype := range DTypeNames() {
		d, err := m.ParseDType(dtype)
		if err != nil {
			continue // auto
		}
		for _, engine := range everyEngine {
			c, err := m.Cache(Options{DType: d, Serving: engine, Page: 64})
			if err != nil {
				if fault.KindOf(err) != fault.Input {
					t.Errorf("error %q of kind %v", err, fault.KindOf(err))
				}
				continue
			}
			for _, part := range []*Cache{c, c.Rank(8), c.Stage(0, (m.Layers+1)/2)} {
				for _, tokens := range []int64{1, 1000, 1 << 40} {
					if kv, state, err := part.Bytes(tokens); kv < 0 || state < 0 || err != nil && fault.KindOf(err) != fault.Input {
						t.Errorf("%d and %d bytes, %v", kv, state, err)
					}
				}
				if token, once, state := part.TokenBytes(); !(token >= 0) || once < 0 || state < 0 {
					t.Errorf("%v bytes a token and %d once", token, once)
				}
			}
		}
	}
}
