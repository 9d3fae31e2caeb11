package model

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"testing"

	"perigee/internal/kit/must"
)

// truth is what testdata/kv-models/truth.json says of a model: bytes that a separate program computed from the same files.
type truth struct {
	Model      string
	StateBytes json.RawMessage            `json:"state_bytes"` // 0, or by the precision of the recurrence
	StateRank  map[string]json.RawMessage `json:"state_bytes_per_rank"`
	SSM        *string                    `json:"ssm_dtype"`
	Layers     []struct {
		Kind   Kind
		Layers int
		IDs    []int64          `json:"layer_ids"`
		Bytes  map[string]int64 `json:"bytes_per_token"`
	}
	Cases []struct {
		ISL    int64
		DType  string
		ByKind map[Kind]int64 `json:"by_kind"`
		KV     int64          `json:"kv_bytes"`
		State  *int64         `json:"state_bytes"`
		Rank   map[string]*struct {
			KV    int64
			State *int64
		} `json:"per_rank"`
	}
	Other    map[string]map[string]int64 `json:"other_precisions"`
	Variants map[string]struct {
		Bytes map[string]int64
	} `json:"engine_variants"`
}

func readTruth(t *testing.T) map[string]truth {
	t.Helper()
	text := must.Read(t, "testdata/kv-models/truth.json")
	var doc struct{ Models map[string]truth }
	must.Do(t, json.Unmarshal(text, &doc))
	return doc.Models
}

func mustLoad(t *testing.T, path string) *Model {
	t.Helper()
	m, err := LoadFile(path)
	must.Do(t, err)
	return m
}

// mustGolden reads a file with known answers.
func mustGolden(t *testing.T, name string) *Model {
	t.Helper()
	return mustLoad(t, filepath.Join("testdata/kv-models", name+".json"))
}

func mustCache(t *testing.T, m *Model, dtype string, o Options) *Cache {
	t.Helper()
	var err error
	if o.DType, err = m.ParseDType(dtype); err != nil {
		t.Fatal(err)
	}
	c, err := m.Cache(o)
	must.Do(t, err)
	return c
}

func mustBytes(t *testing.T, c *Cache, tokens int64) (kv, state int64) {
	t.Helper()
	kv, state, err := c.Bytes(tokens)
	must.Do(t, err)
	return kv, state
}

// TestGolden compares each file with its truth, byte for byte: by kind, in all, by rank, in every precision.
func TestGolden(t *testing.T) {
	for file, want := range readTruth(t) {
		t.Run(file, func(t *testing.T) {
			m := mustLoad(t, filepath.Join("testdata/kv-models", file))
			for _, c := range want.Cases {
				cache := mustCache(t, m, c.DType, Options{})
				kv, state := mustBytes(t, cache, c.ISL)
				if kv != c.KV || c.State != nil && state != *c.State {
					t.Errorf("%s, %d tokens: %d and %d bytes, want %d and %v", c.DType, c.ISL, kv, state, c.KV, c.State)
				}
				kinds := map[Kind]int64{}
				for i, g := range m.Groups {
					n, _ := cache.GroupBytes(i, 0, c.ISL, c.ISL)
					kinds[g.Kind] += n
				}
				for kind, n := range c.ByKind {
					if kinds[kind] != n {
						t.Errorf("%s, %d tokens, %s: %d bytes, want %d", c.DType, c.ISL, kind, kinds[kind], n)
					}
				}
				for tp, rank := range c.Rank {
					ranks, _ := strconv.ParseInt(tp, 10, 64)
					if err := m.CheckTP(ranks); (err == nil) != (rank != nil) {
						t.Errorf("tp %s: %v, want %+v", tp, err, rank)
					}
					if rank == nil {
						continue
					}
					if kv, state := mustBytes(t, cache.Rank(ranks), c.ISL); kv != rank.KV || rank.State != nil && state != *rank.State {
						t.Errorf("%s, %d tokens, a rank of %s: %d and %d bytes, want %+v", c.DType, c.ISL, tp, kv, state, rank)
					}
				}
			}
			for dtype, bytes := range want.Other {
				cache := mustCache(t, m, dtype, Options{})
				for isl, n := range bytes {
					tokens, _ := strconv.ParseInt(isl, 10, 64)
					if kv, _ := mustBytes(t, cache, tokens); kv != n {
						t.Errorf("%s, %s tokens: %d bytes, want %d", dtype, isl, kv, n)
					}
				}
			}
			checkStates(t, m, want)
			checkVariants(t, m, want)
		})
	}
}

// checkStates compares the states of both precisions, also where the engine decides.
func checkStates(t *testing.T, m *Model, want truth) {
	bytes := func(raw json.RawMessage) (by map[string]int64) {
		json.Unmarshal(raw, &by)
		return by
	}
	for dtype, n := range bytes(want.StateBytes) {
		cache := mustCache(t, m, "bf16", Options{StateDType: dtype})
		if _, state := mustBytes(t, cache, 1); state != n {
			t.Errorf("states in %s: %d bytes, want %d", dtype, state, n)
		}
		for tp, raw := range want.StateRank {
			ranks, _ := strconv.ParseInt(tp, 10, 64)
			if n, known := bytes(raw)[dtype]; known && m.CheckTP(ranks) == nil {
				if _, state := mustBytes(t, cache.Rank(ranks), 1); state != n {
					t.Errorf("states in %s of a rank of %s: %d bytes, want %d", dtype, tp, state, n)
				}
			}
		}
	}
	if cache := mustCache(t, m, "bf16", Options{}); want.SSM != nil && cache.State != *want.SSM {
		t.Errorf("states in %s, want %s", cache.State, *want.SSM)
	}
}

// checkVariants compares what engines move instead, with a token a page and 16 bit. The truths are of tokens; beside
// states vLLM moves them in whole blocks.
func checkVariants(t *testing.T, m *Model, want truth) {
	_, pooled := windowPools[m.Family]
	serving := map[string]Serving{"vllm_nixl": VLLM, "vllm_window": VLLM, "vllm_expanded": VLLM, "sglang_window": SGLang}
	if !pooled {
		serving["no_window_pool"] = SGLang
	}
	for name, v := range want.Variants {
		engine, ok := serving[name]
		if !ok {
			continue // moved by hand-made configurations only
		}
		cache := mustCache(t, m, "bf16", Options{Serving: engine, Page: 1})
		for isl, n := range v.Bytes {
			tokens, _ := strconv.ParseInt(isl, 10, 64)
			if name == "vllm_nixl" {
				sent := max(tokens-1, 1)
				n = n / sent * ceilDiv(sent, cache.Block) * cache.Block
			}
			if kv, _ := mustBytes(t, cache, tokens); kv != n {
				t.Errorf("%s, %s tokens: %d bytes, want %d", name, isl, kv, n)
			}
		}
	}
}
