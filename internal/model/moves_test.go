package model

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"perigee/internal/kit/must"
)

// kept is what testdata/kv-moves/truth.json says that a whole model file keeps, in 16 bit, with recurrences in float32.
// Its read_me explains the keys; those of engines are left out here.
type kept struct {
	QueryHeads int64 `json:"query_heads"`
	Layers     []struct {
		Kind    Kind
		Layers  int
		KVHeads int64 `json:"kv_heads"`
		Bytes   int64 `json:"bytes_per_token_and_head"`
		Window  int64
		Every   int64
	}
	KV     map[string]int64  `json:"kv_bytes"`
	State  int64             `json:"state_bytes"`
	Rank   map[string]*int64 `json:"fullest_rank"`
	States []struct {
		Kind   Kind
		Layers int
		Bytes  int64
	}
	KindsUnchecked []Kind           `json:"kinds_not_checked"`
	KVChecked      map[string]int64 `json:"kv_bytes_checked"`
	Ring           int64            `json:"ring_bytes"`
	Unchecked      []string         `json:"not_checked"`
}

func readKept(t *testing.T) map[string]kept {
	t.Helper()
	text := must.Read(t, "testdata/kv-moves/truth.json")
	var doc struct{ Models map[string]kept }
	must.Do(t, json.Unmarshal(text, &doc))
	return doc.Models
}

// TestKept reads 25 files with all their keys, as they are published or as transformers has written them, and compares
// what their layers keep with bytes measured in the caches of their classes.
func TestKept(t *testing.T) {
	all := readKept(t)
	if len(all) != 25 {
		t.Errorf("%d files, want 25", len(all))
	}
	for file, want := range all {
		t.Run(file, func(t *testing.T) {
			m := mustLoad(t, filepath.Join("testdata/kv-moves", file))
			if m.Heads != want.QueryHeads {
				t.Errorf("%d query heads, want %d", m.Heads, want.QueryHeads)
			}
			c := mustCache(t, m, "bf16", Options{StateDType: float32Name})
			checkLayers(t, c, want)
			for isl, bytes := range want.KV {
				if slices.Contains(want.Unchecked, isl) {
					continue
				}
				if checked, ok := want.KVChecked[isl]; ok {
					bytes = checked
				}
				tokens, _ := strconv.ParseInt(isl, 10, 64)
				if kv, state := want.checked(t, c, tokens); kv != bytes || state != want.State {
					t.Errorf("%s tokens: %d bytes and states of %d, want %d and %d", isl, kv, state, bytes, want.State)
				}
			}
			for tp, bytes := range want.Rank {
				ranks, _ := strconv.ParseInt(tp, 10, 64)
				if slices.Contains(want.Unchecked, "fullest_rank") || bytes == nil && want.KindsUnchecked != nil {
					continue
				}
				err := m.CheckTP(ranks)
				if (err == nil) != (bytes != nil) {
					t.Errorf("tp %s: %v", tp, err)
				}
				if kv, state := want.checked(t, c.Rank(ranks), 1000); bytes != nil && kv+state != *bytes {
					t.Errorf("a rank of %s: %d bytes, want %d", tp, kv+state, *bytes)
				}
			}
		})
	}
}

// checked returns the bytes of a request without those of kinds that are not checked.
func (want kept) checked(t *testing.T, c *Cache, tokens int64) (kv, state int64) {
	t.Helper()
	for i, g := range c.Model.Groups {
		n, ok := c.GroupBytes(i, 0, tokens, tokens)
		switch {
		case !ok:
			t.Fatal("too many bytes")
		case slices.Contains(want.KindsUnchecked, g.Kind):
		case g.State.Any():
			state += n
		default:
			kv += n
		}
	}
	return kv, state
}

// checkLayers compares group by group.
func checkLayers(t *testing.T, c *Cache, want kept) {
	t.Helper()
	var got, wanted []string
	line := func(kind Kind, layers int, heads, bytes, window, every int64) string {
		text, _ := json.Marshal([]any{kind, layers, max(heads, 1), bytes, window, every})
		return string(text)
	}
	for i, g := range c.Model.Groups {
		if g.Kind != Ring {
			got = append(got, line(g.Kind, len(g.Layers), g.Heads, c.EntryBytes(i)/max(g.Heads, 1), g.Last, g.Every))
		} else if n := c.EntryBytes(i) * int64(len(g.Layers)); n != want.Ring {
			t.Errorf("rings of %d bytes, want %d", n, want.Ring)
		}
	}
	for _, l := range want.Layers {
		wanted = append(wanted, line(l.Kind, l.Layers, l.KVHeads, l.Bytes, l.Window, l.Every))
	}
	for _, s := range want.States {
		wanted = append(wanted, line(s.Kind, s.Layers, 0, s.Bytes, 0, 0))
	}
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("layers %v, want %v", got, wanted)
	}
}

// TestServed compares what engines move of whole files, and the blocks that they make of a page.
func TestServed(t *testing.T) {
	text := must.Read(t, "testdata/kv-moves/truth.json")
	var doc struct {
		Models map[string]struct {
			Engines []struct {
				Serving Serving
				Page    int64 `json:"page_size"`
				Block   json.RawMessage
				KV      map[string]json.RawMessage `json:"kv_bytes"`
				Unsure  string
			}
		}
	}
	must.Do(t, json.Unmarshal(text, &doc))
	checked := 0
	for file, want := range doc.Models {
		m := mustLoad(t, filepath.Join("testdata/kv-moves", file))
		for _, e := range want.Engines {
			if e.Unsure != "" {
				continue
			}
			c := mustCache(t, m, "bf16", Options{Serving: e.Serving, Page: e.Page, StateDType: float32Name})
			if got := strconv.FormatInt(c.Block, 10); got != string(e.Block) {
				t.Errorf("%s, %v, pages of %d: blocks of %s, want %s", file, e.Serving, e.Page, got, e.Block)
			}
			for isl, bytes := range e.KV {
				tokens, _ := strconv.ParseInt(isl, 10, 64)
				if kv, _ := mustBytes(t, c, tokens); strconv.FormatInt(kv, 10) != string(bytes) {
					t.Errorf("%s, %v, pages of %d, %s tokens: %d bytes, want %s", file, e.Serving, e.Page, isl, kv, bytes)
				}
				checked++
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d figures of engines were compared", checked)
	}
}

// Without a size of pages an engine's own counts.
func TestOwnPages(t *testing.T) {
	for _, tt := range []struct {
		model                string
		vllm, sglang, trtllm int64
	}{
		{"llama3.1-8b", 16, 1, 32}, {"deepseek-v3", 64, 1, 32}, {"deepseek-v3.2", 64, 64, 32},
		{"deepseek-v4-flash", 256, 256, 32}, {"kimi-k3", 5760, 1, 32}, {"gpt-oss-20b", 16, 1, 32},
	} {
		m := mustNamed(t, tt.model)
		for engine, want := range map[Serving]int64{VLLM: tt.vllm, SGLang: tt.sglang, TRTLLM: tt.trtllm, Exact: 1} {
			if c := mustCache(t, m, "bf16", Options{Serving: engine}); c.Block != want {
				t.Errorf("%s, %v: pages of %d, want %d", tt.model, engine, c.Block, want)
			}
		}
	}
}
