package model

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// card is what a model's public card says beside the numbers in its file, as far
// as it takes to add up the parameters, and token, the values of KV cache per
// token, added up by hand.
type card struct {
	heads           int64
	token           int64
	vocab, mlp      int64
	dense           int64 // layers without experts, where others have some
	experts, shared int64 // of a layer
	expertMLP       int64
	queryRank       int64 // MLA: of the compressed queries; 0: they are not compressed
	window, full    int64 // tokens that layers with a window keep, layers without; 0, 0: all layers are
	tied            bool  // the embedding is the output, too
	apart           int64 // parameters outside of the language model
}

var cards = map[string]card{
	"llama3.1-8b":   {token: 65536, heads: 32, vocab: 128256, mlp: 14336},
	"llama3.1-70b":  {token: 163840, heads: 64, vocab: 128256, mlp: 28672},
	"llama3.1-405b": {token: 258048, heads: 128, vocab: 128256, mlp: 53248},
	"llama3.2-1b":   {token: 16384, heads: 32, vocab: 128256, mlp: 8192, tied: true},
	"llama3.2-3b":   {token: 57344, heads: 24, vocab: 128256, mlp: 8192, tied: true},
	"llama3.3-70b":  {token: 163840, heads: 64, vocab: 128256, mlp: 28672},

	"deepseek-r1-distill-llama-70b": {token: 163840, heads: 64, vocab: 128256, mlp: 28672},

	"mistral-7b-v0.1": {token: 65536, heads: 32, vocab: 32000, mlp: 14336, window: 4096},
	"mistral-7b-v0.3": {token: 65536, heads: 32, vocab: 32768, mlp: 14336},
	"mixtral-8x7b":    {token: 65536, heads: 32, vocab: 32000, experts: 8, expertMLP: 14336},
	"mixtral-8x22b":   {token: 114688, heads: 48, vocab: 32768, experts: 8, expertMLP: 16384},

	"qwen2.5-7b":      {token: 28672, heads: 28, vocab: 152064, mlp: 18944},
	"qwen2.5-72b":     {token: 163840, heads: 64, vocab: 152064, mlp: 29568},
	"qwen3-8b":        {token: 73728, heads: 32, vocab: 151936, mlp: 12288},
	"qwen3-14b":       {token: 81920, heads: 40, vocab: 151936, mlp: 17408},
	"qwen3-32b":       {token: 131072, heads: 64, vocab: 151936, mlp: 25600},
	"qwen3-30b-a3b":   {token: 49152, heads: 32, vocab: 151936, experts: 128, expertMLP: 768},
	"qwen3-235b-a22b": {token: 96256, heads: 64, vocab: 151936, experts: 128, expertMLP: 1536},

	"gemma2-9b":  {token: 172032, heads: 16, vocab: 256000, mlp: 14336, tied: true, window: 4096, full: 21},
	"gemma2-27b": {token: 188416, heads: 32, vocab: 256000, mlp: 36864, tied: true, window: 4096, full: 23},
	"gemma3-12b": {token: 196608, heads: 16, vocab: 262208, mlp: 15360, tied: true, apart: 420e6, window: 1024, full: 8},
	"gemma3-27b": {token: 253952, heads: 32, vocab: 262208, mlp: 21504, tied: true, apart: 420e6, window: 1024, full: 10},

	"glm-4.5":     {token: 188416, heads: 96, vocab: 151552, mlp: 12288, dense: 3, experts: 160, expertMLP: 1536, shared: 1},
	"glm-4.5-air": {token: 94208, heads: 96, vocab: 151552, mlp: 10944, dense: 1, experts: 128, expertMLP: 1408, shared: 1},

	"gpt-oss-20b":  {token: 24576, heads: 64, vocab: 201088, experts: 32, expertMLP: 2880, window: 128, full: 12},
	"gpt-oss-120b": {token: 36864, heads: 64, vocab: 201088, experts: 128, expertMLP: 2880, window: 128, full: 18},

	"deepseek-v2-lite": {token: 15552, heads: 16, vocab: 102400, mlp: 10944, dense: 1, experts: 64, expertMLP: 1408, shared: 2},
	"deepseek-v2":      {token: 34560, heads: 128, vocab: 102400, mlp: 12288, dense: 1, experts: 160, expertMLP: 1536, shared: 2, queryRank: 1536},
	"deepseek-v3":      {token: 35136, heads: 128, vocab: 129280, mlp: 18432, dense: 3, experts: 256, expertMLP: 2048, shared: 1, queryRank: 1536},
	"deepseek-r1":      {token: 35136, heads: 128, vocab: 129280, mlp: 18432, dense: 3, experts: 256, expertMLP: 2048, shared: 1, queryRank: 1536},
	"kimi-k2":          {token: 35136, heads: 64, vocab: 163840, mlp: 18432, dense: 1, experts: 384, expertMLP: 2048, shared: 1, queryRank: 1536},
}

// parameters adds up the large matrices; norms and biases are less than a
// thousandth.
func (c card) parameters(a Arch) int64 {
	attention := a.Hidden * a.HeadDim * (2*a.Heads + 2*a.KVHeads) // queries, output; keys, values
	if a.MLA() {
		query, wide := a.Hidden, int64(0)
		if c.queryRank > 0 {
			query, wide = c.queryRank, a.Hidden*c.queryRank
		}
		attention = wide + query*a.Heads*(a.HeadDim+a.RopeDim) + a.Hidden*(a.LatentDim+a.RopeDim) +
			a.LatentDim*a.Heads*2*a.HeadDim + a.Heads*a.HeadDim*a.Hidden
	}
	dense := a.Layers
	if c.experts > 0 {
		dense = c.dense
	}
	const gateUpDown = 3
	sparse := a.Hidden * ((c.experts+c.shared)*gateUpDown*c.expertMLP + c.experts)
	embeddings := int64(2)
	if c.tied {
		embeddings = 1
	}
	return a.Layers*attention + dense*gateUpDown*a.Hidden*c.mlp + (a.Layers-dense)*sparse + embeddings*c.vocab*a.Hidden + c.apart
}

// TestCards adds up the parameters from each model's numbers and compares with
// the total that its card names: layers, heads, their size and the hidden size
// all enter that sum. What changes it less than the card rounds, as the heads
// of a model with many experts, is compared by itself.
func TestCards(t *testing.T) {
	for _, name := range Names() {
		c, ok := cards[name]
		a, _ := Shipped(name)
		if !ok {
			t.Errorf("%s: its card is not here", name)
			continue
		}
		if got := a.Values(a.KVHeads) * a.Layers; got != c.token {
			t.Errorf("%s: %d values per token, wanted %d", name, got, c.token)
		}
		if a.Heads != c.heads || a.MLA() && a.HeadDim != 128 {
			t.Errorf("%s: %d query heads of %d values, wanted %d, with latent attention of 128 values", name, a.Heads, a.HeadDim, c.heads)
		}
		full := c.full
		if c.window == 0 {
			full = a.Layers
		}
		if a.Window != c.window || a.FullLayers(0, a.Layers) != full {
			t.Errorf("%s: %d layers keep all tokens, the others %d; wanted %d and %d", name, a.FullLayers(0, a.Layers), a.Window, full, c.window)
		}
		if a.Experts != c.experts || a.Shared != c.shared || a.TopK > a.Experts || (a.TopK == 0) != (a.Experts == 0) {
			t.Errorf("%s: %d experts, %d shared, %d for each token; wanted %d and %d", name, a.Experts, a.Shared, a.TopK, c.experts, c.shared)
		}
		tolerance := 0.01
		if name == "kimi-k2" {
			tolerance = 0.03 // its card says 1T
		}
		if sum := float64(c.parameters(a)); math.Abs(sum/a.Params-1) > tolerance {
			t.Errorf("%s: its numbers make %.4g parameters, its file says %.4g", name, sum, a.Params)
		}
		if size := sizeInName.FindStringSubmatch(name); size != nil {
			billions, err := strconv.ParseFloat(size[1], 64)
			if ratio := a.Params / (billions * 1e9); err != nil || ratio < 0.95 || ratio > 1.25 {
				t.Errorf("%s: %.4g parameters", name, a.Params)
			}
		}
		_, text, _ := Source(name)
		if !strings.Contains(string(text), "\n# source: ") {
			t.Errorf("%s does not say where its numbers are from", name)
		}
	}
	if len(cards) != len(Names()) {
		t.Errorf("%d cards for %d models", len(cards), len(Names()))
	}
}

// sizeInName finds the billions of parameters in a name, where it is not of
// several experts.
var sizeInName = regexp.MustCompile(`-(\d+)b`)
