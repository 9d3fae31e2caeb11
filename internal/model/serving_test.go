package model

import (
	"slices"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// entryTokens are the tokens that an engine sends of a layer of a group, in the bytes of one.
func entryTokens(t *testing.T, c *Cache, kind Kind, tokens int64) int64 {
	t.Helper()
	for i, g := range c.Model.Groups {
		if g.Kind == kind {
			n, ok := c.LayerBytes(i, 0, tokens, tokens)
			if !ok || n%c.EntryBytes(i) != 0 {
				t.Fatalf("%d bytes, %v, of entries of %d", n, ok, c.EntryBytes(i))
			}
			return n / c.EntryBytes(i)
		}
	}
	t.Fatalf("there is no group of the kind %s", kind)
	return 0
}

// TestEnginesSend compares the tokens that engines send of one layer with figures counted by hand.
func TestEnginesSend(t *testing.T) {
	for _, tt := range []struct {
		file         string
		engine       Serving
		page, tokens int64
		kind         Kind
		want         int64
	}{
		{"gpt-oss-120b", Exact, 16, 1000, Window, 128},
		{"gpt-oss-120b", VLLM, 16, 1000, Window, 144}, // 9 blocks
		{"gpt-oss-120b", SGLang, 64, 1000, Window, 192},
		{"gpt-oss-120b", TRTLLM, 32, 1000, Window, 160}, // 128/32 + 1 blocks
		{"gpt-oss-120b", VLLM, 16, 50, Window, 64},
		{"gpt-oss-120b", SGLang, 64, 50, Window, 64},
		{"gpt-oss-120b", VLLM, 16, 1000, Full, 1008},
		{"gpt-oss-120b", SGLang, 64, 1000, Full, 1024},
		{"gpt-oss-120b", TRTLLM, 32, 1000, Full, 1024},
		{"step-3.5-flash", SGLang, 64, 1000, Window, 576}, // from 488, rounded down to 448
		{"gemma-3-27b", SGLang, 64, 9000, Window, 9024},   // no pool for windows
		{"gemma-3-27b", VLLM, 16, 9000, Window, 1040},
		{"command-r7b", VLLM, 1, 9000, Window, 4097},
		{"llama-4-scout", VLLM, 16, 9000, Chunk, 9008}, // chunks are sent whole
		{"llama-4-scout", SGLang, 64, 9000, Chunk, 8256},
		{"llama-4-scout", Exact, 0, 9000, Chunk, 8192},
		{"jamba-v0.1", VLLM, 16, 81, Full, 80}, // one token less, in blocks of 80
		{"jamba-v0.1", VLLM, 16, 82, Full, 160},
		{"jamba-v0.1", VLLM, 16, 1, Full, 80},
		{"jamba-v0.1", TRTLLM, 0, 1, Full, 32},
		{"jamba-v0.1", SGLang, 1, 17, Full, 17},
		{"qwen3-next-80b-a3b", VLLM, 1, 1000, Full, 1088}, // 2 blocks of 544
		{"lfm2-350m", VLLM, 1, 1000, Full, 1008},          // no recurrence, and a small state
		{"deepseek-v4-flash", VLLM, 256, 1000, Window, 512},
		{"deepseek-v4-flash", SGLang, 256, 1000, Window, 256},
	} {
		c := mustCache(t, mustGolden(t, tt.file), "bf16", Options{Serving: tt.engine, Page: tt.page})
		if got := entryTokens(t, c, tt.kind, tt.tokens); got != tt.want {
			t.Errorf("%s, %q, pages of %d, %d tokens, %s: %d tokens sent, want %d", tt.file, tt.engine, tt.page, tt.tokens, tt.kind, got, tt.want)
		}
	}
}

// A stage with attention alone stops one token short, too.
func TestStageOfHybrid(t *testing.T) {
	c := mustCache(t, mustGolden(t, "jamba-v0.1"), "bf16", Options{Serving: VLLM})
	if kv, state := mustBytes(t, c.Stage(4, 5), 961); kv != 960*4096 || state != 0 {
		t.Errorf("%d and %d bytes, want %d", kv, state, 960*4096)
	}
}

// TestPaddedPages has the pages of DeepSeek-V4 in bytes: of 64 entries, of 2, of 64 index keys, of a window.
func TestPaddedPages(t *testing.T) {
	for _, tt := range []struct {
		engine Serving
		dtype  string
		page   int64
		want   []int64 // of the window, ratio 4, its index keys, ratio 128
	}{
		{VLLM, fp8DSMLA, 256, []int64{4 * 37440, 37440, 8640, 1728}},
		{SGLang, fp8DSMLA, 256, []int64{4 * 37440, 37440, 8640, 1728}},
		{VLLM, "fp8", 256, []int64{131072, 32768, 8704, 1024}},
		{TRTLLM, "bf16", 256, []int64{262144, 65536, 8448, 2048}},
		{VLLM, fp8DSMLA, 1, []int64{129 * 584, 64 * 584, 64 * 132, 2 * 584}},
	} {
		c := mustCache(t, mustGolden(t, "deepseek-v4-flash"), tt.dtype, Options{Serving: tt.engine, Page: tt.page})
		var got []int64
		for i := range c.Model.Groups {
			n, _ := c.LayerBytes(i, 0, 256, 256)
			got = append(got, n)
		}
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s in %s, pages of %d: %v bytes, want %v", tt.engine, tt.dtype, tt.page, got, tt.want)
		}
	}
}

// vLLM expands the latent vectors of MiniCPM3 to all heads, which ranks share out.
func TestExpanded(t *testing.T) {
	c := mustCache(t, mustGolden(t, "minicpm3-4b"), "fp8", Options{Serving: VLLM})
	if got := c.EntryBytes(0); got != 40*96*2 {
		t.Errorf("%d bytes a token, want %d", got, 40*96*2)
	}
	if got := c.Rank(4).EntryBytes(0); got != 10*96*2 {
		t.Errorf("%d bytes a token of a rank, want %d", got, 10*96*2)
	}
}

func TestStages(t *testing.T) {
	for _, tt := range []struct {
		layers, stages int64
		engine         Serving
		want           []int64
	}{
		{61, 4, SGLang, []int64{0, 15, 30, 45, 61}},
		{61, 4, VLLM, []int64{0, 15, 30, 46, 61}},
		{61, 4, TRTLLM, []int64{0, 16, 31, 46, 61}},
		{61, 4, Exact, []int64{0, 16, 31, 46, 61}},
		{7, 4, VLLM, []int64{0, 2, 4, 6, 7}},
		{7, 4, SGLang, []int64{0, 1, 3, 5, 7}},
		{8, 4, VLLM, []int64{0, 2, 4, 6, 8}},
		{5, 1, VLLM, []int64{0, 5}},
	} {
		if got, err := Stages(tt.layers, tt.stages, tt.engine); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%d layers, %d stages, %q: %v, %v, want %v", tt.layers, tt.stages, tt.engine, got, err, tt.want)
		}
	}
	if got, err := StagesOf(5, []int64{2, 3}); err != nil || !slices.Equal(got, []int64{0, 2, 5}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, err := range []error{second(Stages(3, 4, VLLM)), second(StagesOf(5, []int64{2, 2})), second(StagesOf(5, []int64{5, 0}))} {
		if fault.KindOf(err) != fault.Input {
			t.Errorf("got %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestRanks counts what each rank holds, kind by kind, and how many ranks hold the same.
func TestRanks(t *testing.T) {
	for _, tt := range []struct {
		file       string
		tp         int64
		kind       Kind
		heads, was int64 // KV heads of a rank, ranks that hold them
	}{
		{"gemma-4-26b-a4b", 4, Full, 1, 2},
		{"gemma-4-26b-a4b", 4, Window, 2, 1},
		{"llama-3.1-70b", 16, Full, 1, 2},
		{"deepseek-v3.2", 8, MLA, 0, 8},
		{"deepseek-v3.2", 8, Indexer, 0, 8},
		{"deepseek-v4-flash", 8, Compressed, 0, 8},
		{"whisper-large-v3", 4, Cross, 5, 1},
		{"qwen3-next-80b-a3b", 8, GDN, 0, 1},
	} {
		m := mustGolden(t, tt.file)
		if err := m.CheckTP(tt.tp); err != nil {
			t.Error(err)
		}
		i := slices.IndexFunc(m.Groups, func(g Group) bool { return g.Kind == tt.kind })
		if got, copies := m.Rank(tt.tp).Groups[i].Heads, m.Groups[i].Copies(tt.tp); got != tt.heads || copies != tt.was {
			t.Errorf("%s, %s, tp %d: %d heads, %d copies, want %d and %d", tt.file, tt.kind, tt.tp, got, copies, tt.heads, tt.was)
		}
	}
	for file, tp := range map[string]int64{"falcon-7b": 2, "nemotron-3-nano-30b": 16, "qwen3-next-80b-a3b": 32, "exaone-4.0-32b": 16, "dbrx": 5} {
		must.Fail(t, mustGolden(t, file).CheckTP(tp), fault.Input, "do not divide among")
	}
}
