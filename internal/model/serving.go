package model

import (
	"fmt"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
)

// Serving is an engine whose choices count: whole pages, its own ends of a window, tokens that it does not send. The
// zero value counts tokens as the model's architecture has them.
type Serving string

// The engines, as of November 2026: vLLM 0.33 with the NIXL connector, SGLang 0.5.23, TensorRT-LLM.
const (
	Exact  Serving = ""
	VLLM   Serving = "vllm"
	SGLang Serving = "sglang"
	TRTLLM Serving = "trtllm"
)

// ServingNames are the words of --serving: none, and the engines.
func ServingNames() []string { return []string{"none", string(VLLM), string(SGLang), string(TRTLLM)} }

// ParseServing reads one of [ServingNames]; empty is none. Errors are of the kind Usage.
func ParseServing(name string) (Serving, error) {
	switch {
	case name == "" || name == "none":
		return Exact, nil
	case slices.Contains(ServingNames(), name):
		return Serving(name), nil
	}
	return "", fault.New(fault.Usage, "wanted %s, got %q", strings.Join(ServingNames(), ", "), name)
}

// String is the engine's own spelling.
func (s Serving) String() string {
	switch s {
	case VLLM:
		return "vLLM"
	case SGLang:
		return "SGLang"
	case TRTLLM:
		return "TensorRT-LLM"
	}
	return "none"
}

// windowPools are the families for which SGLang keeps windows apart; of all others it moves every token of all layers.
// The number is how many tokens less than the file's window its class sees.
var windowPools = byType(map[string]int64{
	"gpt_oss gpt-oss gemma4 gemma4_text": 1,
	"granite_swa granitemoe_swa granite_moe_swa beam laguna mellum muse_glimmer muse_glimmer_text": 1,
	"llama4 llama4_text mimo_v2_flash mimo_v2 step3p5 step3p7 deepseek_v4 deepseek_ref":            0,
})

// The tokens of a page where the user says none: vLLM's blocks, those of its backends for latent vectors (FlashMLA) and
// for DeepSeek-V4, whose pages all engines take; TensorRT-LLM's tokens_per_block.
const (
	plainBlock  = 16
	latentBlock = 64
	v4Block     = 256
	trtllmBlock = 32
)

// setBlock chooses the tokens of a page: those that the user asks for, or the engine's own.
func (c *Cache) setBlock() {
	c.Block, c.BlockBy = c.Page, "as asked"
	if c.Page == 0 {
		c.Block, c.BlockBy = c.Serving.page(c.Model), fmt.Sprintf("%v's default", c.Serving)
	}
	if c.Serving == Exact {
		return
	}
	if large := c.stateBlock(); large > c.Block {
		c.BlockBy = "vLLM makes the page of a layer as large as a state"
		if c.Page > 0 {
			c.BlockBy += fmt.Sprintf(", whatever smaller one is asked for, as %d is", c.Page)
		}
		c.Block = large
	}
}

// page is the engine's own size of a page of a model.
func (s Serving) page(m *Model) int64 {
	is := func(fits func(g Group) bool) bool { return slices.ContainsFunc(m.Groups, fits) }
	sparse := is(func(g Group) bool { return g.Packing == packingDSA || g.Kind == Indexer })
	switch {
	case s == Exact:
		return 1
	case s == TRTLLM:
		return trtllmBlock
	case is(func(g Group) bool { return g.Packing == packingV4 }):
		return v4Block
	case sparse, s == VLLM && is(func(g Group) bool { return g.Kind == MLA }):
		return latentBlock
	case s == SGLang:
		return 1
	}
	return plainBlock
}

// stateBlock are the tokens of vLLM's blocks in a model whose layers keep states: the least multiple of a unit whose
// page of one layer and rank is at least as large as a state there. The unit is the page that the user asks for, at
// least 16 and of latent vectors 128. 0: the model has no states, or the engine does not do so.
func (c *Cache) stateBlock() int64 {
	if c.Serving != VLLM {
		return 0
	}
	if c.Ranks > 1 {
		return c.Rank(c.Ranks).stateBlock()
	}
	unit, state, token := max(c.Page, plainBlock), int64(0), c.attentionBytes()
	for i, g := range c.Model.Groups {
		if g.State.Any() {
			state = max(state, c.entry[i])
		}
		if g.Kind == MLA {
			unit = max(unit, 128)
		}
	}
	if state == 0 || token == 0 {
		return 0
	}
	page, fits := product(unit, token)
	if !fits {
		return 0
	}
	return unit * ceilDiv(state, page)
}

// attentionBytes are those of a token in the layer whose attention keeps most of it.
func (c *Cache) attentionBytes() (most int64) {
	for i, g := range c.Model.Groups {
		if !g.Fixes() && g.Every <= 1 && g.Kind != Indexer && g.Kind != SharedKV {
			most = max(most, c.entry[i])
		}
	}
	return most
}

// BlockText says in words in which pages the cache moves.
func (c *Cache) BlockText() string {
	return fmt.Sprintf("pages of %s (%s)", cli.Count(c.Block, "token"), c.BlockBy)
}

// sent returns how many tokens of a request prefill computes and sends. vLLM stops one token short where states move
// with the cache: the decoder makes the last one from the state.
func (s Serving) sent(m *Model, tokens int64) int64 {
	if s == VLLM && m.recurrent && tokens > 1 {
		return tokens - 1
	}
	return tokens
}

// window returns which tokens of so many an engine sends of a layer with a window, in whole pages: from, up to but
// without, to.
//
//	vLLM          the last ceil(W/P) + 1 blocks; of chunks all
//	TensorRT-LLM  the last W/P + 1 blocks
//	SGLang        from the page that token L - W lies in; without a pool for windows all
func (s Serving) window(m *Model, k Keep, tokens, page int64) (from, to int64) {
	to = ceilDiv(tokens, page) * page
	pool, pooled := windowPools[m.Family]
	switch {
	case s == VLLM && k.Kind != Chunk:
		from = to - (ceilDiv(k.Last, page)+1)*page
	case s == TRTLLM:
		from = to - (k.Last/page+1)*page
	case s == SGLang && pooled:
		from = (tokens - k.Last + pool) / page * page
	}
	return max(from, 0), to
}
