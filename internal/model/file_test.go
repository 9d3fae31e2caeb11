package model

import (
	"fmt"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// groupsText is a file of groups, one a line.
func groupsText(layers int, groups ...string) string {
	return fmt.Sprintf("model_name: m\nnum_layers: %d\ngroups:\n  - {%s}\n", layers, strings.Join(groups, "}\n  - {"))
}

// TestGroupKinds has one group of each kind, and each way to name layers.
func TestGroupKinds(t *testing.T) {
	for text, want := range map[string]string{
		"kind: full, layers: all, kv_heads: 2, head_dim: 8":                                                                        "full 0 to 9 2x8",
		"kind: full, layers: 9, kv_heads: 2, head_dim: 8, value_dim: 4":                                                            "full 9 2x8/4",
		"kind: window, layers: [3, 1], window: 7, kv_heads: 2, head_dim: 8":                                                        "window 1, 3 2x8 w7",
		"kind: window, layers: '0-2, 5', window: 7, latent_dim: 448, rope_dim: 64, packing: v4":                                    "window 0 to 2, 5 448+64 w7",
		"kind: chunk, layers: 1-9/4, window: 1099511627776, kv_heads: 2, head_dim: 8":                                              "chunk 1, 5, ... 9 2x8 w1099511627776",
		"kind: mla, layers: all, latent_dim: 32, rope_dim: 4, packing: dsa":                                                        "mla 0 to 9 32+4",
		"kind: indexer, layers: all, index_dim: 128":                                                                               "indexer 0 to 9 128",
		"kind: index_key, layers: all, latent_dim: 128":                                                                            "index_key 0 to 9 128+0",
		"kind: compressed, layers: all, latent_dim: 28, rope_dim: 4, every: 4":                                                     "compressed 0 to 9 28+4 :4",
		"kind: cross, layers: all, kv_heads: 2, head_dim: 8, entries: 1500":                                                        "cross 0 to 9 2x8 =1500",
		"kind: mamba1, layers: all, inner_size: 128, state_size: 2, kernel: 3":                                                     "mamba1 0 to 9 256+0/256",
		"kind: mamba2, layers: all, inner_size: 128, heads: 16, head_dim: 8, groups: 1, state_size: 4, kernel: 4":                  "mamba2 0 to 9 384+24/512",
		"kind: gdn, layers: all, key_heads: 2, key_dim: 4, value_heads: 4, value_dim: 4, kernel: 4":                                "gdn 0 to 9 96+0/64",
		"kind: kda, layers: all, heads: 2, head_dim: 4, kernel: 4":                                                                 "kda 0 to 9 72+0/32",
		"kind: lightning, layers: all, heads: 8, head_dim: 8":                                                                      "lightning 0 to 9 0+0/512",
		"kind: shortconv, layers: all, channels: 64, kernel: 3":                                                                    "shortconv 0 to 9 128+0/0",
		"kind: full, layers: 0-3, kv_heads: 2, head_dim: 8}\n  - {kind: shared, layers: rest":                                      "full 0 to 3 2x8; shared 4 to 9",
		"kind: mla, layers: all, latent_dim: 32, rope_dim: 0":                                                                      "mla 0 to 9 32+0",
		"kind: ring, layers: all, bytes: 8191":                                                                                     "ring 0 to 9 =8191 bytes",
		"kind: cca, layers: all, heads: 8, kv_heads: 2, head_dim: 4, columns: 2":                                                   "cca 0 to 9 80+4/0",
		"kind: mamba1, layers: all, inner_size: 128, state_size: 2, kernel: 3, conv_width: 130":                                    "mamba1 0 to 9 260+0/256",
		"kind: mamba2, layers: all, inner_size: 128, heads: 16, head_dim: 8, groups: 1, state_size: 4, kernel: 4, conv_width: 138": "mamba2 0 to 9 390+24/512",
		"kind: gdn, layers: all, key_heads: 2, key_dim: 4, value_heads: 4, value_dim: 4, kernel: 4, conv_width: 16":                "gdn 0 to 9 48+0/64",
		"kind: kda, layers: all, heads: 2, head_dim: 4, kernel: 4, conv_width: 7":                                                  "kda 0 to 9 21+0/32",
		"kind: mla, layers: [0, 0], latent_dim: 32, rope_dim: 4}\n  - {kind: full, layers: 1-9, kv_heads: 2, head_dim: 8":          "mla 0 32+4; full 1 to 9 2x8",
		"kind: full, layers: all, kv_heads: 2, head_dim: 8}\n  - {kind: lightning, layers: '1, 3, 5-9', heads: 8, head_dim: 8":     "full 0 to 9 2x8; lightning 1, 3, 5 to 9 0+0/512",
	} {
		if m, err := parse(groupsText(10, text)); err != nil || describe(m) != want {
			t.Errorf("%s: %v, %v, want %s", text, m, err, want)
		}
	}
	if len(groupKinds) != len(Kinds()) {
		t.Errorf("%d kinds of groups, want %d", len(groupKinds), len(Kinds()))
	}
}

// TestGroupsOfGolden describes by hand models whose config.json has known answers.
func TestGroupsOfGolden(t *testing.T) {
	for file, text := range map[string]string{
		"gemma-4-26b-a4b": groupsText(30, "kind: full, layers: 5-29/6, kv_heads: 2, head_dim: 512", "kind: window, layers: rest, window: 1024, kv_heads: 8, head_dim: 256"),
		"deepseek-v4-flash": groupsText(43, "kind: window, layers: all, window: 128, latent_dim: 448, rope_dim: 64, packing: v4",
			"kind: compressed, layers: 2-42/2, every: 4, latent_dim: 448, rope_dim: 64, packing: v4", "kind: compressed, layers: 3-41/2, every: 128, latent_dim: 448, rope_dim: 64, packing: v4",
			"kind: indexer, layers: 2-42/2, every: 4, index_dim: 128"),
		"falcon-h1-7b": groupsText(44, "kind: full, layers: all, kv_heads: 2, head_dim: 128",
			"kind: mamba2, layers: all, inner_size: 3072, heads: 24, head_dim: 128, groups: 1, state_size: 256, kernel: 4"),
		"gemma-3n-e4b": groupsText(35, "kind: full, layers: '4, 9, 14, 19', kv_heads: 2, head_dim: 256", "kind: shared, layers: 20-34",
			"kind: window, layers: rest, window: 512, kv_heads: 2, head_dim: 256"),
		"whisper-large-v3": groupsText(32, "kind: full, layers: all, kv_heads: 20, head_dim: 64", "kind: cross, layers: all, kv_heads: 20, head_dim: 64, entries: 1500"),
		"jamba-v0.1":       groupsText(32, "kind: full, layers: 4-31/8, kv_heads: 8, head_dim: 128", "kind: mamba1, layers: rest, inner_size: 8192, state_size: 16, kernel: 4"),
		"longcat-flash":    groupsText(28, "kind: mla, layers: '0-27, 0-27', latent_dim: 512, rope_dim: 64"),
	} {
		want := mustGolden(t, file)
		got, err := parse(text)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, dtype := range []string{"bf16", "fp8"} {
			for _, tokens := range []int64{1, 129, 100000} {
				kv, state := mustBytes(t, mustCache(t, got, dtype, Options{}), tokens)
				wantKV, wantState := mustBytes(t, mustCache(t, want, dtype, Options{}), tokens)
				if kv != wantKV || state != wantState {
					t.Errorf("%s in %s, %d tokens: %d and %d bytes, want %d and %d", file, dtype, tokens, kv, state, wantKV, wantState)
				}
			}
		}
	}
}

func TestGroupsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"kind: ful, layers: all":                                             `m.yaml:4: groups[0].kind: wanted one of full, window,`,
		"kind: full, kv_heads: 2, head_dim: 8":                               "m.yaml:4: groups[0]: the key layers is missing",
		"kind: full, layers: all, kv_heads: 2":                               "m.yaml:4: groups[0]: a group of the kind full: the key head_dim is missing",
		"kind: full, layers: all, kv_heads: 2, head_dim: 8, window: 9":       "m.yaml:4: groups[0].window: a group of the kind full has no window",
		"kind: full, layers: all, kv_heads: 2, head_dim: 8, windows: 9":      `m.yaml:4: groups[0].windows: the key "windows" is not known here; did you mean "window"?`,
		"kind: full, layers: all, kv_heads: 0, head_dim: 8":                  "m.yaml:4: groups[0].kv_heads: wanted a whole number from 1 to 1048576, got 0",
		"kind: full, layers: all":                                            "m.yaml:4: groups[0]: a group of the kind full: the keys kv_heads, head_dim are missing",
		"kind: mla, layers: all, latent_dim: 32":                             "the key rope_dim is missing",
		"kind: mla, layers: all, latent_dim: 0, rope_dim: 0":                 "m.yaml:4: groups[0].latent_dim: wanted a whole number from 1 to 1048576, got 0",
		"kind: mla, layers: all, latent_dim: 32, rope_dim: -1":               "m.yaml:4: groups[0].rope_dim: wanted a whole number from 0 to 1048576, got -1",
		"kind: ring, layers: all":                                            "m.yaml:4: groups[0]: a group of the kind ring: the key bytes is missing",
		"kind: ring, layers: all, bytes: 0":                                  "m.yaml:4: groups[0].bytes: wanted a whole number from 1 to 1099511627776, got 0",
		"kind: lightning, layers: all, heads: 8, head_dim: 8, conv_width: 4": "a group of the kind lightning has no conv_width",
		"kind: mamba2, layers: all, inner_size: 128, heads: 16, head_dim: 8, groups: 1, state_size: 4, kernel: 4, conv_width: 7": "m.yaml:4: groups[0].conv_width: wanted at least the values of the one group, 2 state_size, got 7",
		"kind: window, layers: all, window: 9":                                       "m.yaml:4: groups[0]: a window of either kv_heads and head_dim, or latent_dim",
		"kind: window, layers: all, window: 9, kv_heads: 2":                          "m.yaml:4: groups[0]: kv_heads without head_dim",
		"kind: window, layers: all, window: 9, kv_heads: 2, latent_dim: 3":           "a window of either",
		"kind: mla, layers: all, latent_dim: 3, rope_dim: 3, packing: v5":            "m.yaml:4: groups[0].packing: wanted one of dsa, v4",
		"kind: kda, layers: all, heads: 2, head_dim: 4, kernel: 1025":                "m.yaml:4: groups[0].kernel: wanted a whole number from 1 to 1024",
		"kind: shared, layers: 10":                                                   "m.yaml:4: groups[0].layers: wanted layers from 0 to 9, got 10",
		"kind: shared, layers: 3-1":                                                  "wanted layers from 0 to 9, got 3-1",
		"kind: shared, layers: 1-3/0":                                                "wanted layers from 0 to 9, got 1-3/0",
		"kind: shared, layers: some":                                                 "wanted all, rest, or layers such as 0-2, 5, 7-47/4; got some",
		"kind: shared, layers: [1, a]":                                               "m.yaml:4: groups[0].layers[1]: wanted the number of a layer, got a",
		"kind: shared, layers: []":                                                   "wanted all, rest, or layers such as",
		"kind: shared, layers: all}\n  - {kind: shared, layers: rest":                "m.yaml:5: groups[1].layers: wanted all, rest",
		"kind: full, layers: all, kv_heads: 2, head_dim: 8}\nstate_dtype: [a]\nx: {": "m.yaml:5: state_dtype: wanted",
	} {
		_, err := parse(groupsText(10, text))
		must.Fail(t, err, fault.Input, says)
	}
	for text, says := range map[string]string{
		"model_name: m\nnum_layers: 3\ngroups: []":                           "m.yaml:3: groups: wanted",
		"num_layers: 3\ngroups: [{kind: shared, layers: all}]":               "the key model_name is missing",
		"model_name: m\ngroups: [{kind: shared, layers: all}]":               "the key num_layers is missing",
		"model_name: m\nnum_layers: 16385\ngroups: [{kind: a, layers: all}]": "m.yaml:2: num_layers: wanted a whole number from 1 to 16384",
		"[]": "wanted a map with the text model_name",
	} {
		if _, err := parse(text); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, wanted %s", text, err, says)
		}
	}
}

// TestGroupsOfHeads refuses KV heads that do not divide the query heads. Layers with a window and other KV heads may
// have other query heads than those that the file says.
func TestGroupsOfHeads(t *testing.T) {
	const full, window = "kind: full, layers: 0-3, kv_heads: ", "kind: window, layers: rest, window: 9, head_dim: 8, kv_heads: "
	for text, says := range map[string]string{
		groupsText(10, full+"2, head_dim: 8", window+"3"): "",
		groupsText(10, full+"3, head_dim: 8", window+"2"): "m.yaml:4: groups[0].kv_heads: wanted a number that divides the 8 query heads, got 3",
		groupsText(10, window+"16"):                       "m.yaml:4: groups[0].kv_heads: wanted a number that divides the 8 query heads, got 16",
	} {
		_, err := parse(text + "num_query_heads: 8\n")
		if says == "" && err != nil || says != "" && (fault.KindOf(err) != fault.Input || err.Error() != says) {
			t.Errorf("%s: got %v, wanted %q", text, err, says)
		}
	}
}
