package model

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
)

// DType is the precision of a cache: a layout of the values of a head, not the flag of an engine. fp8 is one byte a
// value for every kind of cache; where an engine packs latent vectors otherwise, that layout has another name.
//
// Scales count where they are kept with the tokens, and so are moved. Scales of a tensor or a layer are constants.
type DType struct {
	Name  string
	bits  int64 // of a value
	scale int64 // bits of the scale of each vector of a head
	block int64 // values that share a scale of 8 bits; 0: none
}

// dtypes are all layouts by name. Sources: vLLM 0.33, SGLang 0.5.23 and TensorRT-LLM, November 2026.
var dtypes = []DType{
	{Name: "bf16", bits: 16}, {Name: "fp16", bits: 16}, {Name: "fp8", bits: 8}, {Name: "int8", bits: 8},
	{Name: "fp8_per_token_head", bits: 8, scale: 32},
	{Name: "int8_per_token_head", bits: 8, scale: 32},
	{Name: "int4_per_token_head", bits: 4, scale: 32},
	{Name: "mxfp8", bits: 8, block: 32},
	{Name: "nvfp4", bits: 4, block: 16},
	{Name: fp8DSMLA, bits: 8}, {Name: nvfp4DSMLA, bits: 4},
}

// The layouts of latent vectors beside which an indexer chooses tokens.
const (
	fp8DSMLA   = "fp8_ds_mla"
	nvfp4DSMLA = "nvfp4_ds_mla"
)

// otherNames are the words of engines and configurations for the same layouts.
var otherNames = map[string]string{
	"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "bf16", "float": "bf16",
	"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp4": "nvfp4", "fp4_mx_block16": "nvfp4",
}

// DTypeNames lists the precisions that [ParseDType] knows.
func DTypeNames() []string {
	var names []string
	for _, t := range dtypes {
		names = append(names, t.Name)
	}
	return append(names, "auto")
}

// ParseDType returns a precision by its name. auto is that which engines take by themselves, where something says it.
// An unknown name is an error of the kind Usage.
func (m *Model) ParseDType(name string) (DType, error) {
	t, _, err := m.precision(name)
	return t, err
}

// precision is ParseDType, and says what has decided. Without a name it is bf16, and of a checkpoint in the local cache
// what its files say.
func (m *Model) precision(name string) (t DType, by string, err error) {
	by, name = "as asked", strings.ToLower(name)
	switch {
	case name == "" && m.OfID && m.noAuto != "":
		name, by = "bf16", "assumed: "+m.noAuto
	case name == "" && !m.OfID:
		name, by = "bf16", "default"
	case name == "auto" || name == "":
		if m.noAuto != "" {
			asked := cmp.Or(m.ByName, m.Name)
			return t, "", fault.New(fault.Usage, "%s: what auto is cannot be said: %s", asked, m.noAuto).
				WithHint("put both files into the local cache: hf download %s config.json hf_quant_config.json; "+
					"or give the checkpoint's folder; or name the precision, such as --kv-cache-dtype fp8", hubID(asked))
		}
		name, by = m.auto()
		if t, ok := dtypeOf(name); ok {
			return t, by, nil
		}
		return t, "", fault.New(fault.Input, "%s: its file asks for the precision %q, which is none of a KV cache here",
			m.Name, name).WithHint("say which to count with: %s", strings.Join(DTypeNames(), ", "))
	}
	t, ok := dtypeOf(name)
	if !ok {
		return t, "", fault.New(fault.Usage, "there is no precision %q of a KV cache", name).
			WithHint("there are %s", strings.Join(DTypeNames(), ", "))
	}
	return t, by, nil
}

// dtypeOf finds a precision by one of its names.
func dtypeOf(name string) (DType, bool) {
	name = cmp.Or(otherNames[name], name)
	i := slices.IndexFunc(dtypes, func(t DType) bool { return t.Name == name })
	if i < 0 {
		return DType{}, false
	}
	return dtypes[i], true
}

// auto is the precision that engines take by themselves: that which the file says of the cache, or else that of the
// model, or 16 bit. Weights' precision says nothing of the cache.
func (m *Model) auto() (name, by string) {
	switch {
	case m.CacheDType != "":
		name, by = m.CacheDType, m.cacheDTypeSource()+" says so"
	case m.DType == "float32" || m.DType == "float":
		name, by = m.DType, "engines cast the file's float32"
	case m.DType != "":
		name, by = m.DType, "the file's dtype"
	default:
		name, by = "bf16", "assumed: the file says none"
	}
	if m.ByName != "" {
		by = "the preset's, by name only"
	}
	return name, by
}

// cacheDTypeSource names what says CacheDType.
func (m *Model) cacheDTypeSource() string {
	switch {
	case m.cacheDTypeBy != "":
		return m.cacheDTypeBy
	case m.Family == "groups":
		return "kv_cache_dtype of the file"
	}
	return "quantization_config"
}

// BytesPerValue is a precision without a name, of so many bytes for every value. They are whole bits.
func BytesPerValue(bytes float64) (DType, error) {
	bits := bytes * 8
	if !(bits >= 1 && bits <= 1<<20) || bits != float64(int64(bits)) {
		return DType{}, fault.New(fault.Usage, "wanted whole bits for a value, such as 2, 1 or 0.5 bytes, got %v", bytes)
	}
	return DType{Name: strconv.FormatFloat(bytes, 'g', -1, 64) + " bytes a value", bits: int64(bits)}, nil
}

// vectorBits are the bits of so many values that have a scale together.
func (t DType) vectorBits(values int64) (int64, error) {
	if t.block > 0 && values%t.block != 0 {
		return 0, fault.New(fault.Input, "%s has a scale for each %d values, and %d values do not divide", t.Name, t.block,
			values)
	}
	bits := values*t.bits + t.scale
	if t.block > 0 {
		bits += values / t.block * 8
	}
	return bits, nil
}

// EntryBytes are the bytes of one entry in one layer. A state has none of these: see [Keep.StateBytes].
func (k Keep) EntryBytes(t DType) (int64, error) {
	var bits int64
	var err error
	heads := int64(1)
	switch {
	case k.State.Any() || k.Kind == SharedKV:
		return 0, nil
	case k.Kind == Indexer: // whatever the precision of the cache
		return k.Index + ceilDiv(k.Index, 128)*4, nil
	case k.Heads > 0:
		heads = k.Heads
		bits, err = t.headBits(k)
	default:
		bits, err = t.latentBits(k)
	}
	if err == nil && bits%8 != 0 {
		err = fault.New(fault.Input, "%d values of %s are no whole bytes", k.Key+k.Value+k.Latent+k.Rope, t.Name)
	}
	if err != nil {
		return 0, err
	}
	return heads * (bits / 8), nil
}

// headBits are the bits of a head's key and value.
func (t DType) headBits(k Keep) (int64, error) {
	if t.Name == fp8DSMLA || t.Name == nvfp4DSMLA {
		return 0, fault.New(fault.Input, "%s is a layout of latent vectors, and the %s layers keep keys and values", t.Name,
			k.Kind)
	}
	key, err := t.vectorBits(k.Key)
	if err != nil {
		return 0, err
	}
	value, err := t.vectorBits(k.Value)
	return key + value, err
}

// latentBits are the bits of a vector that all heads share.
func (t DType) latentBits(k Keep) (int64, error) {
	refused := fault.New(fault.Input, "no engine keeps the %s layers in %s", k.Kind, t.Name)
	values := k.Latent + k.Rope
	switch {
	case t.Name == fp8DSMLA && k.Packing == packingDSA: // fp8 with a fp32 scale for 128; the rotated key in 16 bit
		return 8*k.Latent + ceilDiv(k.Latent, 128)*32 + 16*k.Rope, nil
	case t.Name == fp8DSMLA && k.Packing == packingV4: // fp8, 8 bytes of scales and padding; the rotated part in 16 bit
		return 8*k.Latent + 16*k.Rope + 64, nil
	case t.Name == nvfp4DSMLA && k.Packing == packingDSA: // fp4 with a fp8 scale for 16; the rotated key in fp8
		return 4*k.Latent + ceilDiv(k.Latent, 16)*8 + 8*k.Rope, nil
	case t.Name == fp8DSMLA || t.Name == nvfp4DSMLA:
		return 0, refused.WithHint("it is a layout of DeepSeek's sparse attention")
	case t.scale > 0 && k.Kind == MLA: // two scales
		return values*t.bits + 2*t.scale, nil
	case t.Name == "nvfp4" && k.Packing == packingDSA:
		return 0, refused.WithHint("%s is what one keeps", nvfp4DSMLA)
	case t.Name == "nvfp4" && k.Kind == MLA, t.scale == 0 && t.block == 0:
		return t.vectorBits(values)
	}
	return 0, refused
}

// StateBytes are the bytes of a state in one layer, with a recurrence of so many bytes a value.
func (k Keep) StateBytes(ssm int64) int64 {
	return (k.State.Conv+k.State.ConvCopied)*convBytes + k.State.SSM*ssm + k.State.Ring
}
