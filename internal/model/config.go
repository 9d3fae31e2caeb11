package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/value"
)

// isConfig reports whether a document is the config.json of a model of Hugging Face's transformers.
func isConfig(v *conf.Value) bool {
	return v.Kind == conf.Map && (v.Has("model_type") || v.Has("architectures") || languagePart(v) != nil)
}

// languagePart returns the part of a config.json that describes the language model, where it is nested.
func languagePart(v *conf.Value) *conf.Value {
	if v == nil || v.Kind != conf.Map {
		return nil
	}
	if t := v.Get("thinker_config"); languagePart(t) != nil {
		return t
	}
	for _, key := range []string{"text_config", "llm_config", "language_config"} {
		if t := v.Get(key); t != nil && t.Kind == conf.Map {
			return t
		}
	}
	return nil
}

// config reads a config.json. Its first error stays; after it every value is empty. Keys that are missing are collected
// until the end, and what fails after the first of them may come of it and is no error.
type config struct {
	builder
	v       *conf.Value   // the innermost part
	outer   []*conf.Value // the parts around it, the innermost first
	kind    string        // model_type, or what architectures stands for; empty: neither says it
	read    map[string]bool
	missing []string
	err     error

	layers, heads int64
	full          Keep // what a layer with full attention keeps
	expanded      Keep // what vLLM keeps instead, where that differs
	state         State
	stateKind     Kind
	stateDType    string // that the class fixes
}

// parseConfig reads a config.json. Missing keys have the defaults of the class that model_type names. A key that looks
// as if it changed what layers keep, and that nothing here has read, is refused by its name: a size that is silently
// wrong is worse than none.
func parseConfig(v *conf.Value) (*Model, error) {
	c := &config{v: v, read: map[string]bool{}}
	for inner := languagePart(v); inner != nil; inner = languagePart(inner) {
		c.outer = append([]*conf.Value{c.v}, c.outer...)
		c.v = inner
	}
	types := c.families()
	if len(types) > 0 {
		c.kind = types[0]
	}
	for _, t := range types {
		if reason := notKnown(t); reason != "" {
			return nil, c.v.Errorf("model_type %s: %s", t, reason).WithHint(ownFile)
		}
	}
	read := plain
	if f, ok := families[c.kind]; ok {
		read = f
	}
	read(c)
	m := &Model{
		Name: c.name(), Family: c.kind, Layers: c.layers, Heads: c.heads, Groups: c.groups,
		Params: v.Get("num_model_params").Float(), Hidden: c.hidden(),
		DType: c.dtype(), CacheDType: c.cacheDType(), StateDType: c.fixedStateDType(), expanded: c.expanded,
	}
	c.experts(m)
	m.Draft = c.numberOrOff(0, "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
	c.refuseUnread()
	if len(c.groups) == 0 {
		c.fail(c.v, "no layer of it keeps anything of a request")
	}
	c.closeMissing()
	if c.err != nil {
		return nil, c.err
	}
	return m, nil
}

const ownFile = "describe its layers in a file with the key groups (docs/models.md)"

// parts are the innermost part and those around it, in this order.
func (c *config) parts() []*conf.Value { return append([]*conf.Value{c.v}, c.outer...) }

// families are those that the parts name by model_type, or else by architectures. The first one, of the innermost part,
// counts.
func (c *config) families() []string {
	var types []string
	for _, v := range c.parts() {
		t := strings.ToLower(v.Get("model_type").Text())
		if t = cmp.Or(t, familyOfClass(v.Get("architectures"))); t != "" {
			types = append(types, t)
		}
	}
	return types
}

// ofType says for messages which models the file is one of.
func (c *config) ofType() string {
	if c.kind == "" {
		return "models without model_type"
	}
	return fmt.Sprintf("models of type %q", c.kind)
}

func (c *config) name() string {
	parts := c.parts()
	slices.Reverse(parts)
	for _, v := range parts {
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
	c.understand(keys...)
	for _, key := range keys {
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

// MaxNumber bounds sizes and counts, maxTokens windows, and maxKernel the length of a convolution: within them no
// product of those of a layer overflows 63 bits.
const (
	MaxNumber = 1 << 20
	maxTokens = 1 << 40
	maxKernel = 1 << 10
)

// number returns the whole number under the first of several keys that is there, or else the default. 0 is an error: it
// is no size and no count; null is what stands for a missing key.
func (c *config) number(fallback int64, keys ...string) int64 {
	return c.between(1, MaxNumber, fallback, keys...)
}

// numberOrOff is number for what 0 switches off: it counts as missing.
func (c *config) numberOrOff(fallback int64, keys ...string) int64 {
	return cmp.Or(c.between(0, MaxNumber, 0, keys...), fallback)
}

// kernel is number for the length of a convolution.
func (c *config) kernel(fallback int64, keys ...string) int64 {
	return c.between(1, maxKernel, fallback, keys...)
}

func (c *config) between(least, most, fallback int64, keys ...string) int64 {
	v := c.value(keys...)
	if v == nil {
		return fallback
	}
	return c.whole(v, least, most)
}

// window returns the tokens that layers with a window keep: what the class means by missing keys, or what the file
// says. null, 0 and a negative number switch the window off.
func (c *config) window(missing int64, keys ...string) int64 {
	c.understand(keys...)
	for _, key := range keys {
		v := c.v.Get(key)
		if v != nil {
			missing = 0
		}
		if !off(v) {
			return c.whole(v, 0, maxTokens)
		}
	}
	return missing
}

// whole returns a whole number within bounds.
func (c *config) whole(v *conf.Value, least, most int64) int64 {
	f := value.Whole(least, most)
	n, ok := f.Take(v.Plain())
	if !ok {
		c.fail(v, "wanted %s, got %s", f.Wanted(), shown(v))
		return least
	}
	return n.(int64)
}

// shown writes a value for messages. A number in quotes is to be seen as a text.
func shown(v *conf.Value) string {
	if v.Kind == conf.String {
		return fmt.Sprintf("%q (a string)", v.Text())
	}
	return fmt.Sprint(v.Plain())
}

// code returns a number in a list of layers, one of those that the family knows.
func (c *config) code(v *conf.Value, known ...int64) int64 {
	n := c.whole(v, 0, MaxNumber)
	if !slices.Contains(known, n) {
		c.unknownWord(v)
	}
	return n
}

// layerNumber is a whole number that may be 0, such as that of a layer, and may be missing.
func (c *config) layerNumber(fallback int64, key string) int64 {
	return c.between(0, MaxNumber, fallback, key)
}

// required is number without a default.
func (c *config) required(keys ...string) int64 {
	if c.value(keys...) == nil {
		c.miss(keys[0])
	}
	return c.number(1, keys...)
}

// miss notes that a key is missing without which nothing can be said.
func (c *config) miss(key string) {
	if c.err == nil && !slices.Contains(c.missing, key) {
		c.missing = append(c.missing, key)
	}
}

// closeMissing makes an error of the keys that are missing.
func (c *config) closeMissing() {
	if c.err != nil || c.missing == nil {
		return
	}
	err := c.v.Errorf("%s", conf.AreMissing(c.missing))
	if slices.Contains(c.missing, layerKeys[0]) {
		err = err.WithHint("is this the config.json of a language model?")
	}
	c.err = err
}

// flag returns whether a key holds true; missing, it has the default.
func (c *config) flag(key string, fallback bool) bool {
	v := c.value(key)
	if v == nil {
		return fallback
	}
	if v.Kind != conf.Bool {
		c.fail(v, "wanted true or false, got %s", shown(v))
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

// needed is list for a key without which nothing can be said.
func (c *config) needed(key string) []*conf.Value {
	elements := c.list(key)
	if elements == nil {
		c.miss(key)
	}
	return elements
}

// numbers returns the whole numbers of a list of any length.
func (c *config) numbers(v *conf.Value) []int64 {
	if v != nil && v.Kind != conf.List {
		c.fail(v, "wanted a list of numbers, got %s", described(v))
	}
	var all []int64
	for _, x := range v.List() {
		all = append(all, c.whole(x, 0, MaxNumber))
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
	return c.within(v)
}

// within reads a map that is part of another one.
func (c *config) within(v *conf.Value) *config {
	return &config{v: v, kind: c.kind, read: map[string]bool{}, layers: c.layers, heads: c.heads}
}

// take takes over the error of a section.
func (c *config) take(s *config) {
	s.closeMissing()
	if !c.failed() {
		c.err = s.err
	}
}

// failed reports whether the file is refused, or will be.
func (c *config) failed() bool { return c.err != nil || c.missing != nil }

func (c *config) fail(at *conf.Value, format string, args ...any) {
	if !c.failed() {
		c.err = at.Errorf(format, args...)
	}
}

var hiddenKeys = []string{"hidden_size", "n_embd", "n_embed", "d_model", "hidden_dim"}

// hidden is the size of the hidden state; 0: the file does not say.
func (c *config) hidden() int64 { return c.number(0, hiddenKeys...) }

// dtype is the precision of the model.
func (c *config) dtype() string {
	for _, v := range c.parts() {
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
	for _, v := range c.parts() {
		if name := quantizedCache(v.Get("quantization_config")); name != "" {
			return name
		}
	}
	return ""
}

// quantizedCache reads the precision of the cache from a map of quantization; empty: it has none.
func quantizedCache(q *conf.Value) string {
	for _, v := range []*conf.Value{q.Get("kv_cache_quant_algo"), q.Get("kv_cache_scheme")} {
		if name := strings.ToLower(v.Text()); name != "" && name != "none" && name != "auto" {
			return name
		}
	}
	scheme := q.Get("kv_cache_scheme")
	bits, integer := scheme.Get("num_bits").Int(), scheme.Get("type").Text() == "int"
	switch {
	case bits == 8 && integer:
		return "int8"
	case bits == 8:
		return "fp8"
	case bits == 4 && !integer:
		return "nvfp4"
	case bits != 0:
		return fmt.Sprintf("%d-bit %s", bits, scheme.Get("type").Text()) // which no precision is called
	}
	return ""
}

// fixedStateDType is the precision of the recurrences that the file says, or else the class.
func (c *config) fixedStateDType() string {
	t := c.value("mamba_ssm_dtype", "mamba_ssm_cache_dtype")
	switch name := strings.TrimPrefix(t.Text(), "torch."); name {
	case "", "auto":
		return c.stateDType
	case float32Name, "fp32", "float":
		return float32Name
	case bfloat16Name, "bf16", "float16", "fp16", "half":
		return bfloat16Name
	default:
		c.fail(t, "wanted float32, bfloat16 or float16, got %q", name)
		return ""
	}
}

// experts reads what the file says of experts.
func (c *config) experts(m *Model) {
	ffn := c.v.Get("ffn_config") // dbrx
	find := func(keys ...string) int64 {
		v := c.value(keys...)
		if v.Len() > 0 && v.Kind == conf.List { // HunYuan's has a number for each layer
			v = v.List()[0]
		}
		if v != nil {
			return c.whole(v, 0, MaxNumber)
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
