package matgen

import (
	"maps"
	"math/bits"
	"slices"
	"strings"

	"perigee/internal/conf"
)

// Model is what of a model's architecture decides the size of its KV cache and
// the time of its prefill.
//
// A model either has KVHeads heads of HeadDim values each, for keys and for
// values (GQA), or one vector of LatentDim + RopeDim values per token and
// layer that all heads share (MLA).
type Model struct {
	Name          string `yaml:"name"`
	Hidden        int64  `yaml:"hidden_size"`
	Layers        int64  `yaml:"num_layers"`
	Heads         int64  `yaml:"num_heads"`
	KVHeads       int64  `yaml:"num_kv_heads,omitempty"`         // 0: MLA
	HeadDim       int64  `yaml:"head_dim,omitempty"`             // 0: MLA
	LatentDim     int64  `yaml:"mla_latent_dimension,omitempty"` // 0: GQA
	RopeDim       int64  `yaml:"mla_rope_dimension,omitempty"`   // 0: GQA
	DtypeSize     int64  `yaml:"dtype_size"`                     // bytes
	BytesPerToken int64  `yaml:"bytes_per_token"`                // of KV cache, on all ranks together, without replicas
	hiddenGuessed bool
}

// MLA reports whether all heads share one latent vector.
func (m Model) MLA() bool { return m.LatentDim > 0 }

const (
	customName   = "custom"
	defaultDtype = 2 // bytes: fp16, bfloat16
)

// presets are the models behind --model, as their model cards give them.
var presets = map[string]Model{
	"llama-405b":                    {Hidden: 16384, Layers: 126, Heads: 128, KVHeads: 8, HeadDim: 128, DtypeSize: 2},
	"qwen3-30B":                     {Hidden: 2048, Layers: 48, Heads: 32, KVHeads: 4, HeadDim: 128, DtypeSize: 2},
	"deepseek-r1-distill-llama-70b": {Hidden: 8192, Layers: 80, Heads: 64, KVHeads: 8, HeadDim: 128, DtypeSize: 2},
	"deepseek-r1":                   {Hidden: 7168, Layers: 61, Heads: 128, LatentDim: 512, RopeDim: 64, DtypeSize: 2},
}

// compatPresets are the models of the original, of which two are wrong. It
// knows no size of a head but hidden size / heads, rounded down.
var compatPresets = map[string]Model{
	"llama-405b":                    {Hidden: 16384, Layers: 126, Heads: 128, KVHeads: 8, DtypeSize: 2},
	"qwen3-30B":                     {Hidden: 32768, Layers: 48, Heads: 32, KVHeads: 4, DtypeSize: 2},
	"deepseek-r1-distill-llama-70b": {Hidden: 8192, Layers: 80, Heads: 64, KVHeads: 8, DtypeSize: 2},
	"deepseek-r1":                   {Hidden: 12288, Layers: 100, Heads: 96, KVHeads: 12, DtypeSize: 2},
}

// ModelNames returns the names that --model knows.
func ModelNames() []string {
	return slices.Sorted(maps.Keys(presets))
}

// model returns the model that the options name. file is what --model-file
// holds.
func (o *Options) model(file *Model) (Model, error) {
	switch {
	case o.Model != "":
		return o.presetModel()
	case file != nil:
		return o.fileModel(*file)
	default:
		return o.customModel()
	}
}

func (o *Options) presetModel() (Model, error) {
	known := presets
	if o.Compat {
		known = compatPresets
	}
	m, ok := known[o.Model]
	if !ok {
		return Model{}, usage("--model: unknown model %q, wanted one of %s", o.Model, strings.Join(ModelNames(), ", "))
	}
	m.Name = o.Model
	if m.HeadDim == 0 && !m.MLA() {
		m.HeadDim = m.Hidden / m.Heads
	}
	return m.sized()
}

// fileModel completes a model file by what it cannot say.
func (o *Options) fileModel(m Model) (Model, error) {
	for _, x := range o.customNumbers() {
		if x.value != nil && x.flag != "hidden-size" && x.flag != "dtype-size" {
			return Model{}, usage("--%s: --model-file says that already", x.flag)
		}
		if x.value != nil && *x.value < 1 {
			return Model{}, usage("--%s: wanted at least 1, got %d", x.flag, *x.value)
		}
	}
	m.DtypeSize = defaultDtype
	if o.DtypeSize != nil {
		m.DtypeSize = *o.DtypeSize
	}
	switch {
	case o.HiddenSize != nil:
		m.Hidden = *o.HiddenSize
	case m.Hidden == 0:
		m.hiddenGuessed = true
		var ok bool
		if m.Hidden, ok = product(m.Heads, m.HeadDim); !ok {
			return Model{}, tooLargeModel()
		}
	}
	return m.sized()
}

// customModel makes a model of the five numbers on the command line.
func (o *Options) customModel() (Model, error) {
	var missing []string
	for _, x := range o.customNumbers() {
		switch {
		case x.value == nil && x.required:
			missing = append(missing, "--"+x.flag)
		case x.value != nil && *x.value < 1:
			return Model{}, usage("--%s: wanted at least 1, got %d", x.flag, *x.value)
		}
	}
	if missing != nil {
		return Model{}, usage("wanted --model, --model-file or all numbers of a custom model: %s missing", strings.Join(missing, ", ")).
			WithHint("the models are %s", strings.Join(ModelNames(), ", "))
	}
	m := Model{
		Name: customName, Hidden: *o.HiddenSize, Layers: *o.NumLayers, Heads: *o.NumHeads,
		KVHeads: *o.NumKVHeads, DtypeSize: *o.DtypeSize,
	}
	m.HeadDim = m.Hidden / m.Heads
	if o.HeadDim != nil {
		m.HeadDim = *o.HeadDim
	}
	if !o.Compat {
		if err := m.checkHeads(o.HeadDim != nil); err != nil {
			return Model{}, err
		}
	}
	return m.sized()
}

func (m Model) checkHeads(headDimGiven bool) error {
	if !headDimGiven && m.Hidden%m.Heads != 0 {
		return usage("--hidden-size %d does not divide into --num-heads %d heads", m.Hidden, m.Heads).
			WithHint("--head-dim gives the size of a head where it is not hidden size / heads")
	}
	if m.Heads%m.KVHeads != 0 {
		return usage("--num-heads %d does not divide into groups for --num-kv-heads %d: wanted a multiple of %d", m.Heads, m.KVHeads, m.KVHeads)
	}
	return nil
}

type customNumber struct {
	flag     string
	value    *int64
	required bool
}

func (o *Options) customNumbers() []customNumber {
	return []customNumber{
		{"hidden-size", o.HiddenSize, true},
		{"num-layers", o.NumLayers, true},
		{"num-heads", o.NumHeads, true},
		{"num-kv-heads", o.NumKVHeads, true},
		{"dtype-size", o.DtypeSize, true},
		{"head-dim", o.HeadDim, false},
	}
}

// sized fills in the bytes per token.
func (m Model) sized() (Model, error) {
	values, ok := product(2, m.KVHeads, m.HeadDim)
	if m.MLA() {
		values, ok = m.LatentDim+m.RopeDim, true // keys and values share it
	}
	if !ok {
		return Model{}, tooLargeModel()
	}
	if m.BytesPerToken, ok = product(values, m.Layers, m.DtypeSize); !ok {
		return Model{}, tooLargeModel()
	}
	if m.BytesPerToken == 0 { // only the original can round a head down to nothing
		return Model{}, usage("--hidden-size %d leaves nothing for each of %d heads", m.Hidden, m.Heads)
	}
	return m, nil
}

func tooLargeModel() error {
	return usage("the model is too large: its KV cache per token does not fit 63 bits")
}

// product multiplies numbers that are not negative and reports whether the
// result fits.
func product(factors ...int64) (int64, bool) {
	result := uint64(1)
	for _, f := range factors {
		high, low := bits.Mul64(result, uint64(f))
		if high != 0 || low > 1<<63-1 {
			return 0, false
		}
		result = low
	}
	return int64(result), true
}

// families are the kinds of models a KVBench model file may hold, found by a
// part of the model's name, in this order.
var families = []struct {
	part  string
	keys  []string
	model func(number func(key string) int64) Model
}{
	{"llama3.1", []string{"num_query_heads_with_mha", "query_head_dimension", "gqa_num_queries_in_group"},
		func(number func(string) int64) Model {
			heads := number("num_query_heads_with_mha")
			return Model{Heads: heads, KVHeads: heads / number("gqa_num_queries_in_group"), HeadDim: number("query_head_dimension")}
		}},
	{"deepseek_r1", []string{"num_query_heads", "query_head_dimension", "embedding_dimension", "rope_mla_dimension", "mla_latent_vector_dimension"},
		func(number func(string) int64) Model {
			return Model{
				Hidden: number("embedding_dimension"), Heads: number("num_query_heads"),
				LatentDim: number("mla_latent_vector_dimension"), RopeDim: number("rope_mla_dimension"),
			}
		}},
	{"gpt_oss", []string{"num_query_heads", "num_kv_heads", "query_head_dimension"}, kvHeadsModel},
	{"qwen3", []string{"num_query_heads", "num_kv_heads", "query_head_dimension"}, kvHeadsModel},
}

func kvHeadsModel(number func(string) int64) Model {
	return Model{Heads: number("num_query_heads"), KVHeads: number("num_kv_heads"), HeadDim: number("query_head_dimension")}
}

// LoadModel reads a KVBench model architecture file. The file says neither the
// precision of the cache nor, but for MLA, the hidden size; [Plan] takes both
// from the options.
func LoadModel(path string) (*Model, error) {
	v, err := conf.Load(path)
	if err != nil {
		return nil, err
	}
	return modelFrom(v)
}

func modelFrom(v *conf.Value) (*Model, error) {
	name := v.Get("model_name")
	if name == nil || name.Kind != conf.String {
		return nil, v.Errorf("wanted a map with the text model_name")
	}
	for _, f := range families {
		if !strings.Contains(strings.ToLower(name.Text()), f.part) {
			continue
		}
		checked, err := familySchema(v, f.keys).Check(v)
		if err != nil {
			return nil, err
		}
		m := f.model(func(key string) int64 { return checked.Get(key).Int() })
		m.Name, m.Layers = name.Text(), checked.Get("num_layers").Int()
		if group := checked.Get("gqa_num_queries_in_group"); group.Int() > 0 && m.Heads%group.Int() != 0 {
			return nil, group.Errorf("wanted a number that divides the %d query heads, got %d", m.Heads, group.Int())
		}
		if m.KVHeads > 0 && m.Heads%m.KVHeads != 0 {
			return nil, checked.Get("num_kv_heads").Errorf("wanted a number that divides the %d query heads, got %d", m.Heads, m.KVHeads)
		}
		return &m, nil
	}
	return nil, name.Errorf("model %q is of no known family: wanted a name that contains llama3.1, deepseek_r1, gpt_oss or qwen3", name.Text())
}

// familySchema describes a model file of a family. Any key may be there
// without a value, as if it were not.
func familySchema(v *conf.Value, keys []string) conf.Schema {
	least, most := 1.0, float64(maxTokens)
	schema := conf.Schema{{Name: "model_name", Type: "string", Required: true}, {Name: "num_model_params", Type: "float", Required: true}}
	for _, k := range append([]string{"num_layers"}, keys...) {
		schema = append(schema, conf.Field{Name: k, Type: "int", Required: true, Min: &least, Max: &most})
	}
	for _, k := range v.Keys() {
		known := slices.ContainsFunc(schema, func(f conf.Field) bool { return f.Name == k })
		if !known && k != "" && v.Get(k).Kind == conf.Null { // a schema has no empty names
			schema = append(schema, conf.Field{Name: k, Type: "any"})
		}
	}
	return schema
}
