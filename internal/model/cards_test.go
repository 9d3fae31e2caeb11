package model

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// card is what a model's public card says beside the numbers in its file, as far as it takes to add up the parameters,
// and token, the values of KV cache per token, added up by hand.
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
	"qwen3-0.6b":      {token: 57344, heads: 16, vocab: 151936, mlp: 3072, tied: true},
	"qwen3-4b":        {token: 73728, heads: 32, vocab: 151936, mlp: 9728, tied: true},
	"qwen3-8b":        {token: 73728, heads: 32, vocab: 151936, mlp: 12288},
	"qwen3-14b":       {token: 81920, heads: 40, vocab: 151936, mlp: 17408},
	"qwen3-32b":       {token: 131072, heads: 64, vocab: 151936, mlp: 25600},
	"qwen3-30b-a3b":   {token: 49152, heads: 32, vocab: 151936, experts: 128, expertMLP: 768},
	"qwen3-235b-a22b": {token: 96256, heads: 64, vocab: 151936, experts: 128, expertMLP: 1536},

	"gemma2-9b":  {token: 172032, heads: 16, vocab: 256000, mlp: 14336, tied: true, window: 4096, full: 21},
	"gemma2-27b": {token: 188416, heads: 32, vocab: 256000, mlp: 36864, tied: true, window: 4096, full: 23},
	"gemma3-4b":  {token: 69632, heads: 8, vocab: 262208, mlp: 10240, tied: true, apart: 420e6, window: 1024, full: 5},
	"gemma3-12b": {token: 196608, heads: 16, vocab: 262208, mlp: 15360, tied: true, apart: 420e6, window: 1024, full: 8},
	"gemma3-27b": {token: 253952, heads: 32, vocab: 262208, mlp: 21504, tied: true, apart: 420e6, window: 1024, full: 10},

	"glm-4.5":     {token: 188416, heads: 96, vocab: 151552, mlp: 12288, dense: 3, experts: 160, expertMLP: 1536, shared: 1},
	"glm-4.5-air": {token: 94208, heads: 96, vocab: 151552, mlp: 10944, dense: 1, experts: 128, expertMLP: 1408, shared: 1},

	"gpt-oss-20b":  {token: 24576, heads: 64, vocab: 201088, experts: 32, expertMLP: 2880, window: 128, full: 12},
	"gpt-oss-120b": {token: 36864, heads: 64, vocab: 201088, experts: 128, expertMLP: 2880, window: 128, full: 18},

	"seed-oss-36b": {token: 131072, heads: 80, vocab: 155136, mlp: 27648},

	"deepseek-v2-lite": {token: 15552, heads: 16, vocab: 102400, mlp: 10944, dense: 1, experts: 64, expertMLP: 1408, shared: 2},
	"deepseek-v2":      {token: 34560, heads: 128, vocab: 102400, mlp: 12288, dense: 1, experts: 160, expertMLP: 1536, shared: 2, queryRank: 1536},
	"deepseek-v3":      {token: 35136, heads: 128, vocab: 129280, mlp: 18432, dense: 3, experts: 256, expertMLP: 2048, shared: 1, queryRank: 1536},
	"deepseek-r1":      {token: 35136, heads: 128, vocab: 129280, mlp: 18432, dense: 3, experts: 256, expertMLP: 2048, shared: 1, queryRank: 1536},
	"kimi-k2":          {token: 35136, heads: 64, vocab: 163840, mlp: 18432, dense: 1, experts: 384, expertMLP: 2048, shared: 1, queryRank: 1536},
}

// parameters adds up the large matrices; norms and biases are less than a thousandth.
func (c card) parameters(m *Model) int64 {
	k := m.Groups[0].Keep
	attention := m.Hidden * k.Key * (2*m.Heads + 2*k.Heads) // queries, output; keys, values
	if k.Kind == MLA {
		const head = 128
		query, wide := m.Hidden, int64(0)
		if c.queryRank > 0 {
			query, wide = c.queryRank, m.Hidden*c.queryRank
		}
		attention = wide + query*m.Heads*(head+k.Rope) + m.Hidden*(k.Latent+k.Rope) + k.Latent*m.Heads*2*head +
			m.Heads*head*m.Hidden
	}
	dense := m.Layers
	if c.experts > 0 {
		dense = c.dense
	}
	const gateUpDown = 3
	sparse := m.Hidden * ((c.experts+c.shared)*gateUpDown*c.expertMLP + c.experts)
	embeddings := int64(2)
	if c.tied {
		embeddings = 1
	}
	return m.Layers*attention + dense*gateUpDown*m.Hidden*c.mlp + (m.Layers-dense)*sparse + embeddings*c.vocab*m.Hidden + c.apart
}

// TestCards adds up the parameters from the numbers in each file of KVBench's form and compares with the total that the
// card names: layers, heads, their size and the hidden size all enter that sum. What changes it less than the card
// rounds, as the heads of a model with many experts, is compared by itself.
func TestCards(t *testing.T) {
	for name, c := range cards {
		m, ok := Shipped(name)
		if !ok {
			t.Errorf("there is no %s", name)
			continue
		}
		var token, full int64 // values of a token; layers that keep all
		for i, g := range m.Groups {
			token += mustCache(t, m, "fp8", Options{}).EntryBytes(i) * int64(len(g.Layers))
			if g.Last == 0 {
				full += int64(len(g.Layers))
			} else if g.Last != c.window {
				t.Errorf("%s: layers keep the last %d tokens, wanted %d", name, g.Last, c.window)
			}
		}
		wantFull := c.full
		if c.window == 0 {
			wantFull = m.Layers
		}
		if token != c.token || full != wantFull || m.Heads != c.heads {
			t.Errorf("%s: %d values per token, %d layers that keep all tokens, %d query heads; wanted %d, %d and %d", name, token, full, m.Heads,
				c.token, wantFull, c.heads)
		}
		if m.Experts != c.experts || m.Shared != c.shared || m.TopK > m.Experts || (m.TopK == 0) != (m.Experts == 0) {
			t.Errorf("%s: %d experts, %d shared, %d for each token; wanted %d and %d", name, m.Experts, m.Shared, m.TopK, c.experts, c.shared)
		}
		tolerance := 0.01
		if name == "kimi-k2" {
			tolerance = 0.03 // its card says 1T
		}
		if sum := float64(c.parameters(m)); math.Abs(sum/m.Params-1) > tolerance {
			t.Errorf("%s: its numbers make %.4g parameters, its file says %.4g", name, sum, m.Params)
		}
		if size := sizeInName.FindStringSubmatch(name); size != nil {
			billions, err := strconv.ParseFloat(size[1], 64)
			if ratio := m.Params / (billions * 1e9); err != nil || ratio < 0.95 || ratio > 1.25 {
				t.Errorf("%s: %.4g parameters", name, m.Params)
			}
		}
	}
}

// sizeInName finds the billions of parameters in a name, where it is not of several experts.
var sizeInName = regexp.MustCompile(`-(\d+)b`)

// sums are the bytes of a token in the layers that keep all, in 16 bit, and those that do not grow: full windows, and
// states with recurrences in float32. Layers x what one keeps, by hand from each model's config.json.
var sums = map[string]struct {
	token float64
	once  int64
}{
	"deepseek-v3.2":                   {61 * (1152 + 132), 0},
	"deepseek-v4-flash":               {21*(1024+132)/4 + 20*1024/128, 43 * 128 * 1024},
	"deepseek-v4-pro":                 {30*(1024+132)/4 + 31*1024/128, 61 * 128 * 1024},
	"exaone-4.0-32b":                  {16 * 4096, 48 * 4096 * 4096},
	"falcon-h1-7b":                    {44 * 1024, 139358208},
	"gemma-3n-e4b":                    {4 * 2048, 16 * 512 * 2048},
	"gemma-4-26b-a4b":                 {5 * 4096, 25 * 1024 * 8192},
	"gemma-4-31b":                     {10 * 8192, 50 * 1024 * 16384},
	"glm-5":                           {100152, 0},
	"glm-5.2":                         {78*1152 + 21*132, 0},
	"granite-4.0-h-small":             {4 * 4096, 36 * ((8192+2*128)*3*2 + 8192*128*4)},
	"kimi-linear-48b-a3b":             {7 * 1152, 20 * (3*4096*3*2 + 32*128*128*4)},
	"kimi-k2.5":                       {61 * 1152, 0},
	"kimi-k3":                         {24 * 1152, 69 * (221184 + 6291456)},
	"lfm2-350m":                       {6 * 2048, 10 * 1024 * 2 * 2},
	"llama-3.3-nemotron-super-49b-v1": {49 * 4096, 0},
	"llama-4-maverick-17b-128e":       {12 * 4096, 36 * 8192 * 4096},
	"llama-4-scout-17b-16e":           {12 * 4096, 36 * 8192 * 4096},
	"longcat-flash":                   {2 * 28 * 1152, 0},
	"mimo-v2-flash":                   {9 * 4 * (192 + 128) * 2, 39 * 128 * 8 * (192 + 128) * 2},
	"minimax-m2.5":                    {62 * 4096, 0},
	"minimax-m3":                      {60*2048 + 57*256, 0},
	"nemotron-3-nano-30b-a3b":         {6144, 49082368},
	"nemotron-3-super-120b-a12b":      {8 * 1024, 40 * ((8192+2048)*3*2 + 8192*128*4)},
	"nemotron-3-ultra-550b-a55b":      {12 * 1024, 48 * ((16384+2048)*3*2 + 16384*128*4)},
	"olmo-3-7b":                       {8 * 16384, 24 * 4096 * 16384},
	"qwen3-coder-480b-a35b":           {62 * 4096, 0},
	"qwen3-next-80b-a3b":              {24576, 77266944},
	"qwen3-omni-30b-a3b":              {48 * 2048, 0},
	"qwen3.5-27b":                     {16 * 4096, 48 * ((4096+6144)*3*2 + 48*128*128*4)},
	"qwen3.5-35b-a3b":                 {10 * 2048, 30 * ((4096+4096)*3*2 + 32*128*128*4)},
	"qwen3.5-122b-a10b":               {12 * 2048, 36 * ((4096+8192)*3*2 + 64*128*128*4)},
	"qwen3.5-397b-a17b":               {15 * 2048, 45 * ((4096+8192)*3*2 + 64*128*128*4)},
	"step-3.5-flash":                  {12 * 4096, 33 * 512 * 4096},
	"step3":                           {61 * 1024, 0},
}

// TestShipped has every file in a table: its parameters are added up, or its bytes.
func TestShipped(t *testing.T) {
	for _, name := range Names() {
		m, ok := Shipped(name)
		if !ok {
			t.Errorf("%s: not found", name)
			continue
		}
		_, carded := cards[name]
		want, summed := sums[name]
		if carded == summed {
			t.Errorf("%s: wanted it in either cards or sums", name)
		}
		token, once, state := mustCache(t, m, "bf16", Options{StateDType: float32Name}).TokenBytes()
		if summed && (token != want.token || once+state != want.once) {
			t.Errorf("%s: %v bytes a token and %d once, want %v and %d", name, token, once+state, want.token, want.once)
		}
		if err := m.CheckHeads(); err != nil || m.Hidden == 0 || m.Heads == 0 || (m.Experts > 0) != (m.TopK > 0) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		if spelt := strings.ReplaceAll(strings.ToLower(m.Name), "_", "-"); spelt != name {
			t.Errorf("the file %s holds the model %s", name, m.Name)
		}
		if _, text, _ := Source(name); !strings.Contains(string(text), "\n# source: ") {
			t.Errorf("%s does not say where its numbers are from", name)
		}
	}
	if len(cards)+len(sums) != len(Names()) {
		t.Errorf("%d cards and %d sums for %d models", len(cards), len(sums), len(Names()))
	}
}

// TestPublicFigures compares with figures that others have published, in 16 bit: of a token while windows fill, of one
// beyond them.
func TestPublicFigures(t *testing.T) {
	gemma4, err := parse(configText("gemma4_text", "num_hidden_layers: 48\nattention_k_eq_v: true\nnum_global_key_value_heads: 1"))
	must.Do(t, err)
	for _, tt := range []struct {
		m              *Model
		within, beyond int64
	}{
		{mustNamed(t, "Llama-3.1-70B"), 327680, 327680},
		{mustNamed(t, "DeepSeek-V3"), 70272, 70272},
		{mustNamed(t, "gpt-oss-120b"), 73728, 36864},
		{mustNamed(t, "gemma-3-27b-it"), 507904, 81920},
		{mustNamed(t, "gemma-3-12b-it"), 393216, 65536},
		{gemma4, 48*4096 - 8*2048, 16384},
	} {
		c := mustCache(t, tt.m, "bf16", Options{})
		first, _ := mustBytes(t, c, 1)
		long, _ := mustBytes(t, c, 100000)
		longer, _ := mustBytes(t, c, 100001)
		if first != tt.within || longer-long != tt.beyond {
			t.Errorf("%s: %d bytes of the first token, %d of a late one; want %d and %d", tt.m.Name, first, longer-long, tt.within, tt.beyond)
		}
	}
	gib := func(m *Model, dtype string, tokens int64) float64 {
		kv, _ := mustBytes(t, mustCache(t, m, dtype, Options{}), tokens)
		return float64(kv) / (1 << 30)
	}
	if got := gib(mustGolden(t, "jamba-v0.1"), "bf16", 256<<10); got != 4 {
		t.Errorf("Jamba keeps %v GiB of 256 Ki tokens, its paper says 4", got)
	}
	if got := gib(mustNamed(t, "DeepSeek-V4-Pro"), "bf16", 1<<20); math.Abs(got-8.7) > 0.05 {
		t.Errorf("DeepSeek-V4-Pro keeps %v GiB of 1 Mi tokens, want 8.7", got)
	}
	// SGLang names the buffers of keys and values of MiMo-V2-Flash for a rank of four, and 1496958 tokens in each layer.
	m := mustNamed(t, "MiMo-V2-Flash").Rank(4)
	for i, want := range map[int][2]float64{0: {4.82, 3.21}, 1: {41.76, 27.84}} {
		g := m.Groups[i]
		values := float64(int64(len(g.Layers))*g.Heads*1496958*2) / (1 << 30)
		if k, v := values*float64(g.Key), values*float64(g.Value); math.Abs(k-want[0]) > 0.006 || math.Abs(v-want[1]) > 0.006 {
			t.Errorf("MiMo-V2-Flash, %s: %.2f and %.2f GiB, want %v", g.Kind, k, v, want)
		}
	}
}
