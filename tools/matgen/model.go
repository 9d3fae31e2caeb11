package matgen

import (
	"maps"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/model"
)

// Model decides the bytes of a request and the time of its prefill: a model, and the precision of its cache.
type Model struct {
	Name          string     `yaml:"name"`
	Hidden        int64      `yaml:"hidden_size"`
	Layers        int64      `yaml:"num_layers"`
	Heads         int64      `yaml:"num_heads,omitempty"`
	CacheDType    string     `yaml:"kv_cache_dtype"`
	CacheDTypeBy  string     `yaml:"kv_cache_dtype_by"`
	Serving       string     `yaml:"serving,omitempty"`
	Block         int64      `yaml:"block,omitempty"`        // tokens of a page, with an engine
	Copies        string     `yaml:"copies,omitempty"`       // who receives the same bytes as others
	BytesPerToken int64      `yaml:"bytes_per_token"`        // of a long request, in all layers that keep all tokens
	WindowBytes   int64      `yaml:"window_bytes,omitempty"` // that layers with a window keep of a long request
	StateBytes    int64      `yaml:"state_bytes,omitempty"`  // of states, whatever the request's length
	StateDType    string     `yaml:"state_dtype,omitempty"`
	Groups        []groupDoc `yaml:"groups"`

	cache         *model.Cache
	hiddenGuessed bool
}

// groupDoc is a group of layers in the metadata.
type groupDoc struct {
	Kind        string `yaml:"kind"`
	Layers      int    `yaml:"layers"`
	Bytes       int64  `yaml:"bytes_per_entry"` // of a token, an entry for several, or a state, in one layer
	Last        int64  `yaml:"last_tokens,omitempty"`
	TokensEntry int64  `yaml:"tokens_per_entry,omitempty"`
}

const customName = "custom"

// compatPresets are the models of the original, of which two are wrong. It
// knows no size of a head but hidden size / heads, rounded down.
var compatPresets = map[string]struct{ hidden, layers, heads, kvHeads int64 }{
	"llama-405b":                    {16384, 126, 128, 8},
	"qwen3-30B":                     {32768, 48, 32, 4},
	"deepseek-r1-distill-llama-70b": {8192, 80, 64, 8},
	"deepseek-r1":                   {12288, 100, 96, 12},
}

// model returns the model that the options name, with its cache. file is the content of a model file, or nil.
func (o *Options) model(file *model.Model) (Model, error) {
	m, err := o.architecture(file)
	if err != nil {
		return Model{}, err
	}
	if err := m.CheckHeads(); err != nil {
		return Model{}, err
	}
	c, err := o.cache(m)
	if err != nil {
		return Model{}, err
	}
	return o.sized(c), nil
}

// architecture returns the model that the options name.
func (o *Options) architecture(file *model.Model) (*model.Model, error) {
	switch {
	case o.Compat && o.Model != "":
		p, ok := compatPresets[o.Model]
		if !ok {
			return nil, usage("--model: the original has no model %q, wanted one of %s", o.Model,
				strings.Join(slices.Sorted(maps.Keys(compatPresets)), ", "))
		}
		return model.OfHeads(o.Model, p.layers, p.heads, p.kvHeads, p.hidden/p.heads, p.hidden), nil
	case file != nil:
		return file, o.refuseNumbers()
	case o.Model != "":
		return model.Named(o.Model)
	}
	return o.customModel()
}

// named reports whether --model is the name of a model that perigee knows. Then numbers do not count, as in the
// original.
func (o *Options) named() bool {
	if o.Compat || o.Model == "" {
		return o.Model != ""
	}
	_, err := model.Named(o.Model)
	return err == nil
}

// cache is the cache of a model, as it is served to the ranks of a decode worker that hold a request together.
func (o *Options) cache(m *model.Model) (*model.Cache, error) {
	ranks := int64(max(o.DecodeTP/o.DecodeDP, 1))
	if o.KVCacheDType != "" || o.DtypeSize == nil || o.named() {
		return o.Flags.Cache(m, ranks)
	}
	choice, err := o.Flags.Options(ranks)
	if err != nil {
		return nil, err
	}
	if choice.DType, err = model.BytesPerValue(*o.DtypeSize); err != nil {
		return nil, usage("--dtype-size: %w", err)
	}
	c, err := m.Cache(choice)
	if err == nil {
		c.DTypeBy = "--dtype-size"
	}
	return c, err
}

// refuseNumbers refuses numbers of a custom model beside a file that says them.
func (o *Options) refuseNumbers() error {
	for _, x := range o.customNumbers() {
		if x.value != nil && x.flag != "hidden-size" {
			return usage("--%s: --model says that already", x.flag)
		}
	}
	return nil
}

// customModel makes a model of the numbers on the command line.
func (o *Options) customModel() (*model.Model, error) {
	var missing []string
	for _, x := range o.customNumbers() {
		if x.value == nil && x.required {
			missing = append(missing, "--"+x.flag)
		}
	}
	if o.DtypeSize == nil && o.KVCacheDType == "" {
		missing = append(missing, "--dtype-size")
	}
	if missing != nil {
		return nil, usage("wanted --model NAME|FILE or all numbers of a custom model: %s missing", strings.Join(missing, ", ")).
			WithHint("perigee kvbench models lists the names; the config.json of a model is a file")
	}
	head := cli.Given(o.HeadDim, *o.HiddenSize / *o.NumHeads)
	if !o.Compat {
		if err := o.checkHeads(); err != nil {
			return nil, err
		}
	}
	if head == 0 { // only the original can round a head down to nothing
		return nil, usage("--hidden-size %d leaves nothing for each of %d heads", *o.HiddenSize, *o.NumHeads)
	}
	return model.OfHeads(customName, *o.NumLayers, *o.NumHeads, *o.NumKVHeads, head, *o.HiddenSize), nil
}

func (o *Options) checkHeads() error {
	hidden, heads, kv := *o.HiddenSize, *o.NumHeads, *o.NumKVHeads
	if o.HeadDim == nil && hidden%heads != 0 {
		return usage("--hidden-size %d does not divide into --num-heads %d heads", hidden, heads).
			WithHint("--head-dim gives the size of a head where it is not hidden size / heads")
	}
	if heads%kv != 0 {
		return usage("--num-heads %d does not divide into groups for --num-kv-heads %d: wanted a multiple of %d",
			heads, kv, kv)
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
		{"head-dim", o.HeadDim, false},
	}
}

// sized computes the bytes, and completes a hidden size that the file does not say.
func (o *Options) sized(c *model.Cache) Model {
	m := c.Model
	growing, windows, states := c.TokenBytes()
	sized := Model{
		Name: m.Name, Hidden: m.Hidden, Layers: m.Layers, Heads: m.Heads,
		CacheDType: c.DType.Name, CacheDTypeBy: c.DTypeBy,
		Serving: string(c.Serving), BytesPerToken: int64(growing), WindowBytes: windows, StateBytes: states,
		StateDType: c.State, cache: c,
	}
	if c.Serving != model.Exact {
		sized.Block = c.Block
	}
	if o.named() {
		sized.Name = o.Model
	}
	for i, g := range m.Groups {
		sized.Groups = append(sized.Groups, groupDoc{string(g.Kind), len(g.Layers), c.EntryBytes(i), g.Last, g.Every})
	}
	switch {
	case o.HiddenSize != nil && !o.named():
		sized.Hidden = *o.HiddenSize
	case m.Hidden == 0:
		sized.hiddenGuessed = true
		sized.Hidden = m.HiddenSize()
	}
	return sized
}

// requestBytes returns what is kept of a request of so many tokens, states included, and whether it fits 63 bits.
func (m Model) requestBytes(tokens int64) (int64, bool) {
	kv, state, err := m.cache.Bytes(tokens)
	return kv + state, err == nil
}
