package matgen

import (
	"maps"
	"math/bits"
	"slices"
	"strings"

	"perigee/internal/model"
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
	KVHeads       int64  `yaml:"num_kv_heads,omitempty"`           // 0: MLA
	HeadDim       int64  `yaml:"head_dim,omitempty"`               // 0: MLA
	LatentDim     int64  `yaml:"mla_latent_dimension,omitempty"`   // 0: GQA
	RopeDim       int64  `yaml:"mla_rope_dimension,omitempty"`     // 0: GQA
	DtypeSize     int64  `yaml:"dtype_size"`                       // bytes
	BytesPerToken int64  `yaml:"bytes_per_token"`                  // of KV cache, on all ranks together, without replicas
	Window        int64  `yaml:"sliding_window,omitempty"`         // tokens that most layers keep of a request; 0: all layers keep all
	FullEvery     int64  `yaml:"sliding_window_pattern,omitempty"` // with Window: every so manieth layer keeps all tokens
	hiddenGuessed bool
}

// MLA reports whether all heads share one latent vector.
func (m Model) MLA() bool { return m.LatentDim > 0 }

const (
	customName   = "custom"
	defaultDtype = 2 // bytes: fp16, bfloat16
)

// compatPresets are the models of the original, of which two are wrong. It
// knows no size of a head but hidden size / heads, rounded down.
var compatPresets = map[string]Model{
	"llama-405b":                    {Hidden: 16384, Layers: 126, Heads: 128, KVHeads: 8, DtypeSize: 2},
	"qwen3-30B":                     {Hidden: 32768, Layers: 48, Heads: 32, KVHeads: 4, DtypeSize: 2},
	"deepseek-r1-distill-llama-70b": {Hidden: 8192, Layers: 80, Heads: 64, KVHeads: 8, DtypeSize: 2},
	"deepseek-r1":                   {Hidden: 12288, Layers: 100, Heads: 96, KVHeads: 12, DtypeSize: 2},
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
	if !o.Compat {
		a, ok := model.Shipped(o.Model)
		if !ok {
			return Model{}, model.Unknown(o.Model).WithHint("shipped are %s; --model-file takes a file of your own",
				strings.Join(model.Names(), ", "))
		}
		m, err := fromArch(a)
		m.Name, m.DtypeSize = o.Model, defaultDtype
		if err != nil {
			return Model{}, err
		}
		return m.sized()
	}
	m, ok := compatPresets[o.Model]
	if !ok {
		return Model{}, usage("--model: the original has no model %q, wanted one of %s", o.Model,
			strings.Join(slices.Sorted(maps.Keys(compatPresets)), ", "))
	}
	m.Name = o.Model
	m.HeadDim = m.Hidden / m.Heads
	return m.sized()
}

// fromArch takes over what an architecture says. The dtype is not part of it.
func fromArch(a model.Arch) (Model, error) {
	if err := a.CheckHeads(); err != nil {
		return Model{}, err
	}
	m := Model{
		Name: a.Name, Hidden: a.Hidden, Layers: a.Layers, Heads: a.Heads, KVHeads: a.KVHeads, HeadDim: a.HeadDim,
		LatentDim: a.LatentDim, RopeDim: a.RopeDim, Window: a.Window, FullEvery: a.FullEvery,
	}
	if m.MLA() {
		m.HeadDim = 0 // it enters nothing here
	}
	return m, nil
}

// LoadModel reads a KVBench model architecture file. The file says neither the
// precision of the cache nor, in most cases, the hidden size; [Plan] takes
// them from the options.
func LoadModel(path string) (*Model, error) {
	a, err := model.LoadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := fromArch(a)
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// requestBytes returns the KV cache of a request of so many tokens, and whether it
// fits 63 bits.
func (m Model) requestBytes(tokens int64) (int64, bool) {
	if m.Window == 0 {
		return product(tokens, m.BytesPerToken)
	}
	values, ok := model.Arch{
		Layers: m.Layers, KVHeads: m.KVHeads, HeadDim: m.HeadDim, Window: m.Window, FullEvery: m.FullEvery,
	}.RequestValues(tokens)
	if !ok {
		return 0, false
	}
	return product(values, m.DtypeSize)
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
		return Model{}, usage("wanted --model, --model-file or all numbers of a custom model: %s missing",
			strings.Join(missing, ", ")).
			WithHint("the models are %s", strings.Join(model.Names(), ", "))
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
		return usage("--num-heads %d does not divide into groups for --num-kv-heads %d: wanted a multiple of %d",
			m.Heads, m.KVHeads, m.KVHeads)
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
