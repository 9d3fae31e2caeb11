package model

import (
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
)

// Parse reads a model file: the config.json of a model of Hugging Face, a list of groups, or a file of NIXL's KVBench,
// whose model_name, or else family, decides which keys it has. All errors are of kind Input and say file, line and key.
// What no model can be is one, such as KV heads that do not divide the query heads; of KVBench's files see
// [Model.CheckHeads].
func Parse(v *conf.Value) (*Model, error) {
	if err := otherDocument(v); err != nil {
		return nil, err
	}
	read := parseKVBench
	if isConfig(v) {
		read = parseConfig
	} else if v = v.WithoutNulls(); v.Has("groups") {
		read = parseGroups
	}
	m, err := read(v)
	if err != nil {
		return nil, err
	}
	has := func(kinds ...Kind) bool {
		return slices.ContainsFunc(m.Groups, func(g Group) bool { return slices.Contains(kinds, g.Kind) })
	}
	m.recurrent = has(Mamba1, Mamba2, GDN, KDA)
	if has(KDA) && m.StateDType == "" {
		m.StateDType = float32Name // in vLLM and SGLang, whatever the model's precision
	}
	return m, nil
}

var least = 1.0

// number makes a required key that holds a whole number.
func number(name, help string) conf.Field {
	return conf.Field{Name: name, Type: "int", Required: true, Min: &least, Max: bound(MaxNumber), Help: help}
}

func bound(n int64) *float64 {
	most := float64(n)
	return &most
}

// optional makes keys that may be missing.
func optional(fields ...conf.Field) []conf.Field {
	for i := range fields {
		fields[i].Required = false
	}
	return fields
}

// withDefault makes a key that may be missing and then has a value.
func withDefault(f conf.Field, value int64) conf.Field {
	f.Required, f.Default = false, value
	return f
}

// common are the keys of every file but a config.json.
func common() conf.Schema {
	layers := number("num_layers", "layers")
	layers.Max = bound(MaxLayers)
	return append(conf.Schema{
		{Name: "model_name", Type: "string", Required: true, Aliases: []string{"model"}},
		layers,
	}, optional(
		number("num_experts", "routed experts of a layer that has some"),
		number("experts_per_token", "routed experts that each token is sent to"),
		number("num_shared_experts", "experts of a layer that every token uses, at its own rank"),
		number("num_draft_layers", "layers that predict further tokens, which no figure counts"),
	)...)
}

// params is the key of the parameters.
func params(required bool) conf.Field {
	return conf.Field{Name: "num_model_params", Type: "float", Required: required, Min: &least,
		Help: "parameters, for the reader: enters no figure"}
}

// readCommon reads the common keys.
func readCommon(v *conf.Value) (*Model, error) {
	m := &Model{
		Name: v.Get("model_name").Text(), Layers: v.Get("num_layers").Int(),
		Params: v.Get("num_model_params").Float(), Experts: v.Get("num_experts").Int(),
		TopK: v.Get("experts_per_token").Int(), Shared: v.Get("num_shared_experts").Int(),
		Draft: v.Get("num_draft_layers").Int(),
	}
	switch topk := v.Get("experts_per_token"); {
	case m.Experts > 0 && topk == nil:
		return nil, v.Get("num_experts").Errorf("num_experts without experts_per_token")
	case topk != nil && m.TopK > m.Experts:
		return nil, topk.Errorf("experts_per_token is %d, more than the %d experts of num_experts", m.TopK, m.Experts)
	}
	return m, nil
}

// groupKinds are the keys of each kind of group, the required ones first, up to a ";".
var groupKinds = map[Kind]string{
	Full: "kv_heads head_dim ; value_dim", Window: "window ; kv_heads head_dim value_dim latent_dim rope_dim packing",
	Chunk: "kv_heads head_dim window ; value_dim", MLA: "latent_dim rope_dim ; packing", Indexer: "index_dim ; every",
	IndexKey: "latent_dim ;", Compressed: "latent_dim every ; rope_dim packing",
	Cross:  "kv_heads head_dim entries ; value_dim",
	Mamba1: "inner_size state_size kernel ; conv_width",
	Mamba2: "inner_size heads head_dim groups state_size kernel ; conv_width",
	GDN:    "key_heads key_dim value_heads value_dim kernel ; conv_width", KDA: "heads head_dim kernel ; conv_width",
	Lightning: "heads head_dim ;", ShortConv: "channels kernel ;", SharedKV: ";",
	CCA: "heads kv_heads head_dim columns ;", Ring: "bytes ;",
}

// groupSchema lists the keys of a group in perigee's own form of a model. Which of them a kind needs is checked later.
func groupSchema() []conf.Field {
	var kinds []string
	for _, k := range Kinds() {
		kinds = append(kinds, string(k))
	}
	fields := []conf.Field{
		{Name: "kind", Type: "enum", Enum: kinds, Required: true},
		{Name: "layers", Type: "any", Required: true},
		{Name: "packing", Type: "enum", Enum: []string{packingDSA, packingV4}},
	}
	for _, name := range strings.Fields("kv_heads head_dim value_dim window latent_dim rope_dim index_dim every entries " +
		"inner_size state_size kernel heads groups key_heads key_dim value_heads channels conv_width columns bytes") {
		f := number(name, "")
		switch name {
		case "window", "bytes":
			f.Max = bound(maxTokens)
		case "kernel", "columns":
			f.Max = bound(maxKernel)
		case "rope_dim": // of latent vectors without a rotated part
			f.Min = bound(0)
		}
		fields = append(fields, optional(f)...)
	}
	return fields
}

// parseGroups reads a model that says every group by hand.
func parseGroups(v *conf.Value) (*Model, error) {
	leastOne := 1.0
	schema := append(common(), params(false))
	schema = append(schema, optional(number("num_query_heads", "query heads"),
		number("hidden_size", "size of the hidden state"))...)
	schema = append(schema,
		conf.Field{Name: "dtype", Type: "string"}, conf.Field{Name: "kv_cache_dtype", Type: "string"},
		conf.Field{Name: "state_dtype", Type: "enum", Enum: []string{float32Name, bfloat16Name}},
		conf.Field{Name: "groups", Type: "list", Min: &leastOne, Elem: &conf.Field{Type: "map", Fields: groupSchema()}})
	v, err := schema.Check(v)
	if err != nil {
		return nil, err
	}
	m, err := readCommon(v)
	if err != nil {
		return nil, err
	}
	m.Family, m.Heads, m.Hidden = "groups", v.Get("num_query_heads").Int(), v.Get("hidden_size").Int()
	m.DType, m.CacheDType = v.Get("dtype").Text(), v.Get("kv_cache_dtype").Text()
	m.StateDType = v.Get("state_dtype").Text()
	taken := make([]bool, m.Layers)
	for _, g := range v.Get("groups").List() {
		k, err := readKeep(g)
		if err != nil {
			return nil, err
		}
		layers, err := readLayers(g.Get("layers"), taken)
		if err != nil {
			return nil, err
		}
		m.Groups = append(m.Groups, Group{Keep: k, Layers: layers})
	}
	for i, g := range m.Groups { // layers with a window and other KV heads than the rest may have other query heads
		if g.Heads > 0 && m.Heads%g.Heads != 0 && (g.Kind != Window || !m.Uneven()) {
			return nil, v.Get("groups").List()[i].Get("kv_heads").
				Errorf("wanted a number that divides the %d query heads, got %d", m.Heads, g.Heads)
		}
	}
	return m, nil
}

// readKeep reads one group by its kind.
func readKeep(g *conf.Value) (Keep, error) {
	kind := Kind(g.Get("kind").Text())
	required, allowed, _ := strings.Cut(groupKinds[kind], ";")
	missing := slices.DeleteFunc(strings.Fields(required), g.Has)
	if len(missing) > 0 {
		return Keep{}, g.Errorf("a group of the kind %s: %s", kind, conf.AreMissing(missing))
	}
	known := append(strings.Fields(required+" "+allowed), "kind", "layers")
	for _, key := range g.Keys() {
		if !slices.Contains(known, key) {
			return Keep{}, g.Get(key).Errorf("a group of the kind %s has no %s", kind, key).
				WithHint("its keys are %s", strings.Join(known, ", "))
		}
	}
	n := func(key string) int64 { return g.Get(key).Int() }
	k := Keep{
		Kind: kind, Last: n("window"), Every: n("every"), Fixed: n("entries"),
		Heads: n("kv_heads"), Key: n("head_dim"), Value: n("value_dim"),
		Latent: n("latent_dim"), Rope: n("rope_dim"), Index: n("index_dim"), Packing: g.Get("packing").Text(),
	}
	if k.Value == 0 {
		k.Value = k.Key
	}
	if kind == Window && (k.Heads == 0) == (k.Latent == 0) {
		return Keep{}, g.Errorf("a window of either kv_heads and head_dim, or latent_dim")
	}
	if k.Heads > 0 && k.Key == 0 {
		return Keep{}, g.Errorf("kv_heads without head_dim")
	}
	if k.State = readState(kind, n); !k.State.Any() {
		return k, nil
	}
	if width := g.Get("conv_width"); width != nil {
		if k.State = k.State.widened(n("conv_width"), n("kernel")); k.State.Conv < 0 {
			return Keep{}, width.Errorf("wanted at least the values of the one group, 2 state_size, got %d", width.Int())
		}
	}
	return Keep{Kind: kind, State: k.State}, nil
}

// readState makes the state of a kind from the sizes that n reads.
func readState(kind Kind, n func(key string) int64) State {
	switch kind {
	case Mamba1:
		return mamba1(n("inner_size"), n("state_size"), n("kernel"))
	case Mamba2:
		return mamba2(n("inner_size"), n("heads"), n("head_dim"), n("groups"), n("state_size"), n("kernel"))
	case GDN:
		return gatedDelta(n("key_heads"), n("key_dim"), n("value_heads"), n("value_dim"), n("kernel"))
	case KDA:
		return kimiDelta(n("heads"), n("head_dim"), n("kernel"))
	case Lightning:
		return lightning(n("heads"), n("head_dim"))
	case ShortConv:
		return shortConv(n("channels"), n("kernel"))
	case CCA:
		return convolved(n("heads"), n("kv_heads"), n("head_dim"), n("columns"))
	case Ring:
		return ring(n("bytes"))
	}
	return State{}
}

// readLayers reads the layers of a group: all; rest, those that no group before has; or numbers and runs, such as
// "0-2, 5, 7-47/4".
func readLayers(v *conf.Value, taken []bool) ([]int64, error) {
	n := int64(len(taken))
	var layers []int64
	add := func(from, to, step int64) error {
		if from < 0 || to >= n || from > to || step < 1 {
			return v.Errorf("wanted layers from 0 to %d, got %v", n-1, v.Plain())
		}
		for i := from; i <= to; i += step {
			layers = append(layers, i)
		}
		return nil
	}
	var err error
	switch text := v.Text(); {
	case v.Kind == conf.Int:
		err = add(v.Int(), v.Int(), 1)
	case v.Kind == conf.List:
		for _, x := range v.List() {
			if x.Kind != conf.Int {
				return nil, x.Errorf("wanted the number of a layer, got %v", x.Plain())
			}
			if err == nil {
				err = add(x.Int(), x.Int(), 1)
			}
		}
	case text == "all":
		err = add(0, n-1, 1)
	case text == "rest":
		for i := range n {
			if !taken[i] {
				layers = append(layers, i)
			}
		}
	default:
		err = eachRun(v, add)
	}
	if err == nil && len(layers) == 0 {
		err = v.Errorf("wanted all, rest, or layers such as 0-2, 5, 7-47/4; got %v", v.Plain())
	}
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		taken[l] = true
	}
	slices.Sort(layers)
	return layers, nil
}

// eachRun calls add for each run of a text.
func eachRun(v *conf.Value, add func(from, to, step int64) error) error {
	for run := range strings.SplitSeq(v.Text(), ",") {
		run, stepText, stepped := strings.Cut(strings.TrimSpace(run), "/")
		fromText, toText, several := strings.Cut(run, "-")
		if !several {
			toText = fromText
		}
		if !stepped {
			stepText = "1"
		}
		var numbers [3]int64
		for i, text := range []string{fromText, toText, stepText} {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
			if err != nil {
				return v.Errorf("wanted all, rest, or layers such as 0-2, 5, 7-47/4; got %v", v.Plain())
			}
			numbers[i] = n
		}
		if err := add(numbers[0], numbers[1], numbers[2]); err != nil {
			return err
		}
	}
	return nil
}

// unknownFamily is the error of a KVBench file whose name says no family.
func unknownFamily(name *conf.Value) *fault.Error {
	return name.Errorf("model %q is of no known family", name.Text()).
		WithHint("add the key family: gqa for grouped-query attention with num_query_heads, num_kv_heads and query_head_dimension; mla for multi-head latent attention; or the key groups (docs/models.md)")
}
