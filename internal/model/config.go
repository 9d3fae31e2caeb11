package model

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"perigee/internal/conf"
)

// isConfig reports whether a document is the config.json of a model of Hugging Face's transformers.
func isConfig(v *conf.Value) bool {
	return v.Kind == conf.Map && (v.Has("model_type") || v.Has("architectures") || languagePart(v) != nil)
}

// languagePart returns the part of a config.json that describes the language model, where it is nested.
func languagePart(v *conf.Value) *conf.Value {
	if t := v.Get("thinker_config").Get("text_config"); t != nil && t.Kind == conf.Map {
		return t
	}
	for _, key := range []string{"text_config", "llm_config", "language_config"} {
		if t := v.Get(key); t != nil && t.Kind == conf.Map {
			return t
		}
	}
	return nil
}

// config reads a config.json. Its first error stays; after it every value is empty.
type config struct {
	builder
	v     *conf.Value   // the innermost part
	outer []*conf.Value // the parts around it, the innermost first
	kind  string        // model_type
	read  map[string]bool
	err   error

	layers, heads int64
	full          Keep // what a layer with full attention keeps
	state         State
	stateKind     Kind
	stateDType    string // that the class fixes
}

// parseConfig reads a config.json. Missing keys have the defaults of the class that model_type names. A key that looks as
// if it changed what layers keep, and that nothing here has read, is refused by its name: a size that is silently wrong
// is worse than none.
func parseConfig(v *conf.Value) (*Model, error) {
	c := &config{v: v, read: map[string]bool{}}
	for inner := languagePart(v); inner != nil; inner = languagePart(inner) {
		c.outer = append([]*conf.Value{c.v}, c.outer...)
		c.v = inner
	}
	c.kind = c.modelType()
	read := plain
	if f, ok := families[c.kind]; ok {
		read = f
	} else if reason, ok := notKnown[c.kind]; ok {
		return nil, c.v.Errorf("model_type %s: %s", c.kind, reason).WithHint(ownFile)
	}
	read(c)
	m := &Model{
		Name: c.name(), Family: c.kind, Layers: c.layers, Heads: c.heads, Groups: c.groups, Params: v.Get("num_model_params").Float(),
		Hidden: c.hidden(), DType: c.dtype(), CacheDType: c.cacheDType(), StateDType: c.fixedStateDType(),
	}
	c.experts(m)
	if c.err == nil {
		c.refuseUnread()
	}
	if c.err == nil && len(c.groups) == 0 {
		c.fail(c.v, "no layer of it keeps anything of a request")
	}
	if c.err != nil {
		return nil, c.err
	}
	return m, nil
}

const ownFile = "describe its layers in a file with the key groups (docs/models.md)"

// modelType is the family: model_type of the innermost part, or that around it.
func (c *config) modelType() string {
	for _, v := range append([]*conf.Value{c.v}, c.outer...) {
		if t := v.Get("model_type"); t != nil && t.Kind == conf.String && t.Text() != "" {
			return strings.ToLower(t.Text())
		}
	}
	return ""
}

func (c *config) name() string {
	for _, v := range append(slices.Clone(c.outer), c.v) {
		for _, key := range []string{"model_name", "_name_or_path", "name_or_path"} {
			if t := v.Get(key); t != nil && t.Kind == conf.String && t.Text() != "" {
				return t.Text()
			}
		}
	}
	return cmp.Or(c.kind, "model")
}

// value returns the value of the first of several keys that is there and holds something.
func (c *config) value(keys ...string) *conf.Value {
	for _, key := range keys {
		c.read[key] = true
		if v := c.v.Get(key); v != nil && v.Kind != conf.Null {
			return v
		}
	}
	return nil
}

// understand marks keys that change nothing here.
func (c *config) understand(keys ...string) {
	for _, key := range keys {
		c.read[key] = true
	}
}

// MaxNumber bounds every number of a file: within it no product of them overflows 63 bits.
const MaxNumber = 1 << 20

// number returns the whole number under the first of several keys that is there, or else the default; 0 counts as
// missing.
func (c *config) number(fallback int64, keys ...string) int64 {
	v := c.value(keys...)
	if v == nil {
		return fallback
	}
	return cmp.Or(c.whole(v, 0), fallback)
}

// whole returns a whole number that is not below least.
func (c *config) whole(v *conf.Value, least int64) int64 {
	n := v.Int()
	if v.Kind == conf.Float && v.Float() == float64(int64(v.Float())) {
		n = int64(v.Float())
	} else if v.Kind != conf.Int {
		n = -1
	}
	if n < least || n > MaxNumber<<20 {
		c.fail(v, "wanted a whole number from %d to %d, got %v", least, MaxNumber<<20, v.Plain())
		return least
	}
	return n
}

// required is number without a default.
func (c *config) required(keys ...string) int64 {
	n := c.number(0, keys...)
	if n == 0 {
		c.fail(c.v, "the key %s is missing: is this the config.json of a language model?", keys[0])
		return 1
	}
	if n > MaxNumber {
		c.fail(c.value(keys...), "wanted at most %d, got %d", MaxNumber, n)
	}
	return n
}

// flag returns whether a key holds true; missing, it has the default.
func (c *config) flag(key string, fallback bool) bool {
	v := c.value(key)
	if v == nil {
		return fallback
	}
	if v.Kind != conf.Bool {
		c.fail(v, "wanted true or false, got %v", v.Plain())
	}
	return v.Bool()
}

// list returns the elements under a key, at least as many as there are layers; those beyond are of draft layers.
func (c *config) list(key string) []*conf.Value {
	v := c.value(key)
	if v == nil || v.Len() == 0 && v.Kind == conf.List {
		return nil
	}
	if v.Kind != conf.List || int64(v.Len()) < c.layers {
		c.fail(v, "wanted a list with an element for each of the %d layers, got %s", c.layers, described(v))
		return nil
	}
	return v.List()[:c.layers]
}

func described(v *conf.Value) string {
	if v.Kind == conf.List {
		return fmt.Sprintf("one of %d", v.Len())
	}
	return v.Kind.String()
}

// numbers returns the whole numbers of a list of its own length.
func (c *config) numbers(v *conf.Value) []int64 {
	var all []int64
	for _, x := range v.List() {
		all = append(all, c.whole(x, 0))
	}
	return all
}

// section returns the map under a key; where there is none it is an error.
func (c *config) section(key string) *config {
	v := c.value(key)
	if v == nil || v.Kind != conf.Map {
		c.fail(c.v, "the map %s is missing", key)
		v = c.v
	}
	return &config{v: v, kind: c.kind, read: map[string]bool{}, layers: c.layers}
}

// take takes over the error of a section.
func (c *config) take(s *config) {
	if c.err == nil {
		c.err = s.err
	}
}

func (c *config) fail(at *conf.Value, format string, args ...any) {
	if c.err == nil {
		c.err = at.Errorf(format, args...)
	}
}

// hidden is the size of the hidden state; 0: the file does not say.
func (c *config) hidden() int64 { return c.number(0, "hidden_size", "n_embd", "d_model", "hidden_dim") }

// dtype is the precision of the model.
func (c *config) dtype() string {
	for _, v := range append([]*conf.Value{c.v}, c.outer...) {
		for _, key := range []string{"dtype", "torch_dtype"} {
			if t := v.Get(key); t != nil && t.Kind == conf.String && t.Text() != "auto" {
				return strings.TrimPrefix(t.Text(), "torch.")
			}
		}
	}
	return ""
}

// cacheDType is the precision of the cache that a quantized model asks for.
func (c *config) cacheDType() string {
	for _, v := range append([]*conf.Value{c.v}, c.outer...) {
		if name := quantizedCache(v.Get("quantization_config")); name != "" {
			return name
		}
	}
	return ""
}

// quantizedCache is what a map of quantization says of the cache.
func quantizedCache(q *conf.Value) string {
	algo, scheme := q.Get("kv_cache_quant_algo"), q.Get("kv_cache_scheme")
	bits, kind := scheme.Get("num_bits").Int(), scheme.Get("type").Text()
	switch {
	case algo != nil && algo.Kind == conf.String:
		return strings.ToLower(algo.Text())
	case scheme.Text() != "":
		return strings.ToLower(scheme.Text())
	case bits == 8 && kind == "int":
		return "int8"
	case bits == 8:
		return "fp8"
	case bits == 4:
		return "nvfp4"
	}
	return ""
}

// fixedStateDType is the precision of the recurrences that the file says, or else the class.
func (c *config) fixedStateDType() string {
	if t := c.value("mamba_ssm_dtype", "mamba_ssm_cache_dtype"); t != nil && t.Text() != "auto" {
		return t.Text()
	}
	return c.stateDType
}

// experts reads what the file says of experts.
func (c *config) experts(m *Model) {
	ffn := c.v.Get("ffn_config") // dbrx
	find := func(keys ...string) int64 {
		if v := c.value(keys...); v != nil && v.Kind == conf.Int {
			return v.Int()
		}
		for _, key := range keys {
			if n := ffn.Get(key).Int(); n > 0 {
				return n
			}
		}
		return 0
	}
	m.Experts = find("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
	m.TopK = find("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k_experts", "moe_k")
	m.Shared = find("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
	one := find("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim",
		"shared_intermediate_size") > 0
	if m.Shared == 0 && (one || strings.HasPrefix(c.kind, "llama4")) && m.Experts > 0 {
		m.Shared = 1
	}
}

// A key that says what layers keep has one of the words of aboutCaches in it. Those with a word of aboutOthers are about
// something else: how attention is computed, experts, positions, vocabularies, training.
var (
	aboutCaches = regexp.MustCompile(`layer|head|window|cache|kv|attn|attention|query|mamba|ssm|state|conv|linear|latent|lora|` +
		`compress|index|chunk|block|pattern|swa|sparse|group|interval|offset|stride|loop|cross|share|cla|local|global|` +
		`memory|encoder|decoder`)
	aboutOthers = regexp.MustCompile(`drop|bias|norm|eps|rope|rotary|theta|expert|moe|mlp|ffn|feed_forward|router|top_?k|mtp|` +
		`nextn|draft|eagle|token|beam|gate|softcap|softmax|scal|factor|multiplier|_act$|activation|init|quant|logit|_kernels$|` +
		`vocab|vision|image|audio|video|embed|^output_|^tie_|classif|dtype|implementation|fused|flash|sink|temperature|` +
		`pruned|per_layer_input|max_position|parallel|label|dense|^(use_cache|n_group|o_groups|q_lora_rank|o_lora_rank|` +
		`num_hash_layers|decoder_sparse_step|attn_res_block_size|ignore_index|is_decoder|num_lm_heads|head_type)$`)
)

// refuseUnread refuses the first key that may say what layers keep and that nothing has read.
func (c *config) refuseUnread() {
	for _, key := range c.v.Keys() {
		v, word := c.v.Get(key), strings.ToLower(key)
		if c.read[key] || off(v) || !aboutCaches.MatchString(word) || aboutOthers.MatchString(word) {
			continue
		}
		c.err = v.Errorf("%s may say what layers keep of a request, and perigee does not know it in models of type %q",
			key, c.kind).WithHint("%s; or leave the key away if it changes nothing of the cache", ownFile)
		return
	}
}

// off reports whether a value switches nothing on.
func off(v *conf.Value) bool {
	switch v.Kind {
	case conf.Null:
		return true
	case conf.Bool:
		return !v.Bool()
	case conf.Int, conf.Float:
		return v.Float() == 0
	case conf.String:
		return v.Text() == ""
	}
	return v.Len() == 0
}

// unknownWord is the error of a word in a list of layers.
func (c *config) unknownWord(v *conf.Value) {
	if c.err == nil {
		c.err = v.Errorf("a layer of the kind %v is not known in models of type %q", v.Plain(), c.kind).WithHint(ownFile)
	}
}
