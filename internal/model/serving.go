package model

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

// windowPools are the families for which SGLang keeps windows apart; of all others it moves every token of all layers.
// The number is how many tokens less than the file's window its class sees.
var windowPools = map[string]int64{
	"gpt_oss": 1, "gpt-oss": 1, "gemma4": 1, "gemma4_text": 1, "llama4": 0, "llama4_text": 0, "mimo_v2_flash": 0,
	"mimo_v2": 0, "step3p5": 0, "step3p7": 0, "deepseek_v4": 0, "deepseek_ref": 0,
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
