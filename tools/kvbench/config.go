package kvbench

import (
	"embed"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/value"
	"perigee/internal/model"
)

// Config is a model config: how a model is served, and the requests.
type Config struct {
	TP, PP       int64  // tensor and pipeline parallelism
	ModelQuant   string // precision of the weights; see quantBytes
	KVQuant      string // precision of the KV cache
	Requests     int64
	ISL, OSL     int64  // tokens of a request's input and output
	PageSize     int64  // tokens of a page
	Access       string // block or layer
	Hardware     string // for the reader, as the rest
	Backend      string
	Source, Dest string

	keys map[string]*conf.Value // where the values stand in the file
	file map[string]bool        // the keys that are in the file
	over map[string]string      // the flags that have replaced values, by key
}

// The access patterns: which layers of a page one block holds.
const (
	accessBlock = "block" // all layers of a pipeline stage
	accessLayer = "layer" // one layer
)

// quantBytes are the bytes of a value in the precisions that kvbench knows.
var quantBytes = map[string]int64{"fp8": 1, "int8": 1, "fp16": 2, "bfloat16": 2}

var quantNames = []string{"fp8", "int8", "fp16", "bfloat16"}

// cacheQuantNames are the precisions of a cache: KVBench's words, then those that it does not know.
func cacheQuantNames() []string {
	others := slices.DeleteFunc(model.DTypeNames(), func(name string) bool { return slices.Contains(quantNames, name) })
	return slices.Concat(quantNames, others)
}

// The largest numbers of a config, far beyond any system.
const (
	maxRanks    = 1 << 20
	maxRequests = 1 << 32
	maxTokens   = 1 << 40
	maxPage     = 1 << 30
)

func whole(name string, least, most float64, help string) conf.Field {
	return conf.Field{Name: name, Type: "int", Default: 1, Min: &least, Max: &most, Help: help}
}

func tokens(name string, least, most float64, help string) conf.Field {
	f := whole(name, least, most, help)
	f.Type = "tokens"
	return f
}

// configSchema is the schema of a model config.
var configSchema = conf.Schema{
	{Name: "strategy", Type: "map", Default: map[string]any{}, Fields: []conf.Field{
		whole("tp_size", 1, maxRanks, "tensor parallelism"),
		whole("pp_size", 1, maxRanks, "pipeline parallelism"),
		{Name: "model_quant_mode", Type: "enum", Enum: quantNames, Default: "fp8", Help: "precision of the weights"},
		{Name: "kvcache_quant_mode", Type: "enum", Enum: cacheQuantNames(), Default: "fp8",
			Help: "precision of the KV cache"},
	}},
	{Name: "runtime", Type: "map", Default: map[string]any{}, Fields: []conf.Field{
		whole("num_requests", 1, maxRequests, "requests"),
		tokens("isl", 1, maxTokens, "tokens of a request's input"),
		tokens("osl", 0, maxTokens, "tokens of a request's output"),
	}},
	{Name: "system", Type: "map", Default: map[string]any{}, Fields: []conf.Field{
		{Name: "hardware", Type: "string"},
		{Name: "backend", Type: "string", Default: "SGLANG"},
		tokens("page_size", 1, maxPage, "tokens of a page"),
		{Name: "access_pattern", Type: "enum", Enum: []string{accessBlock, accessLayer}, Default: accessLayer},
		{Name: "source", Type: "string"},
		{Name: "destination", Type: "string"},
	}},
}

// ParseConfig reads a model config. Keys and sections without a value count as
// missing. All errors are of kind Input and say file, line and key.
func ParseConfig(v *conf.Value) (Config, error) {
	v = v.WithoutNulls()
	checked, err := configSchema.Check(v)
	if err != nil {
		return Config{}, err
	}
	c := Config{keys: map[string]*conf.Value{}, file: map[string]bool{}, over: map[string]string{}}
	for _, section := range v.Keys() {
		for _, key := range v.Get(section).Keys() {
			c.file[key] = true
		}
	}
	for _, section := range checked.Keys() {
		for _, key := range checked.Get(section).Keys() {
			c.keys[key] = checked.Get(section).Get(key)
		}
	}
	text := func(key string) string { return c.keys[key].Text() }
	c.TP, c.PP = c.keys["tp_size"].Int(), c.keys["pp_size"].Int()
	c.ModelQuant, c.KVQuant = text("model_quant_mode"), text("kvcache_quant_mode")
	c.Requests, c.OSL = c.keys["num_requests"].Int(), c.keys["osl"].Int()
	c.PageSize, c.Access = c.keys["page_size"].Int(), text("access_pattern")
	c.Hardware, c.Backend = text("hardware"), text("backend")
	c.Source, c.Dest = text("source"), text("destination")
	c.ISL = c.keys["isl"].Int()
	return c, nil
}

// given reports whether a file or an option says the value of a key.
func (c Config) given(key string) bool { return c.file[key] || c.over[key] != "" }

// by says where the value of a key comes from, and which option, if there is one, says another.
func (c Config) by(key, option string) string {
	switch {
	case c.over[key] != "":
		return c.over[key]
	case c.file[key] && option != "":
		return key + " of the config, " + option + " says another"
	case c.file[key]:
		return key + " of the config"
	case option != "":
		return "KVBench's default, " + option + " says another"
	}
	return "KVBench's default"
}

// errorf makes an error that says where the value of a key comes from: the
// file, or the flag that has replaced it.
func (c Config) errorf(key, format string, args ...any) *fault.Error {
	if flag, ok := c.over[key]; ok {
		return fault.New(fault.Usage, flag+": "+format, args...)
	}
	return c.keys[key].Errorf(format, args...)
}

// Overrides are the options that replace values of model configs. A nil pointer
// is an option that is not given.
type Overrides struct {
	PP            *int64  `name:"pp" min:"1" max:"1048576" placeholder:"N" group:"Instead of the config's" help:"Pipeline parallelism."`
	TP            *int64  `name:"tp" min:"1" max:"1048576" placeholder:"N" group:"Instead of the config's" help:"Tensor parallelism."`
	ISL           *int64  `name:"isl" type:"tokens" min:"1" max:"1099511627776" placeholder:"N" group:"Instead of the config's" help:"Tokens of a request's input; 64k is 64000, 64K is 65536."`
	OSL           *int64  `name:"osl" type:"tokens" min:"1" max:"1099511627776" placeholder:"N" group:"Instead of the config's" help:"Tokens of a request's output; enters no figure."`
	NumRequests   *int64  `name:"num_requests" min:"1" max:"4294967296" placeholder:"N" group:"Instead of the config's" help:"Requests."`
	PageSize      *int64  `name:"page_size" type:"tokens" min:"1" max:"1073741824" placeholder:"N" group:"Instead of the config's" help:"Tokens of a page."`
	KVCacheDType  *string `name:"kv_cache_dtype" placeholder:"NAME" group:"Instead of the config's" help:"Precision of the KV cache: bf16, fp8, nvfp4, fp8_ds_mla and others, auto for the model's own."`
	AccessPattern *string `name:"access_pattern" placeholder:"NAME" group:"Instead of the config's" help:"What one block holds of a page: block (all layers of a pipeline stage) or layer (one)."`
}

// check refuses values that no config may have.
func (o Overrides) check() error {
	if a := o.AccessPattern; a != nil && *a != accessBlock && *a != accessLayer {
		return usage("--access_pattern: wanted %s or %s, got %q%s", accessBlock, accessLayer, *a,
			value.Suggestion(*a, []string{accessBlock, accessLayer}))
	}
	return nil
}

// fromOptions is the name of the config that options alone describe; what they do not say is as in an empty file.
const fromOptions = "(options)"

// any reports whether an option is given.
func (o Overrides) any() bool { return o != Overrides{} }

// apply replaces values of a config.
func (o Overrides) apply(c Config) Config {
	for _, n := range []struct {
		flag, key string
		from, to  *int64
	}{
		{"--pp", "pp_size", o.PP, &c.PP}, {"--tp", "tp_size", o.TP, &c.TP}, {"--isl", "isl", o.ISL, &c.ISL},
		{"--osl", "osl", o.OSL, &c.OSL},
		{"--num_requests", "num_requests", o.NumRequests, &c.Requests},
		{"--page_size", "page_size", o.PageSize, &c.PageSize},
	} {
		if n.from != nil {
			*n.to, c.over[n.key] = *n.from, n.flag
		}
	}
	if o.KVCacheDType != nil {
		c.KVQuant, c.over["kvcache_quant_mode"] = kvbenchName(*o.KVCacheDType), "--kv_cache_dtype"
	}
	if o.AccessPattern != nil {
		c.Access, c.over["access_pattern"] = *o.AccessPattern, "--access_pattern"
	}
	return c
}

// kvbenchName is KVBench's word for a precision that it knows.
func kvbenchName(dtype string) string {
	for word, same := range map[string]string{"bfloat16": "bf16", "fp16": "float16"} {
		if strings.EqualFold(dtype, same) {
			return word
		}
	}
	return strings.ToLower(dtype)
}

//go:embed configs/*.yaml
var configFiles embed.FS

// ConfigNames lists the model configs that are part of perigee, sorted.
func ConfigNames() []string { return file.Stems(configFiles, "configs/*.yaml") }

// configSource returns the file of a shipped model config.
func configSource(name string) (file string, text []byte, ok bool) {
	file = name + ".yaml"
	text, err := configFiles.ReadFile("configs/" + file)
	return file, text, err == nil
}

// LoadConfig reads a model config file, or takes a shipped config where the name is of one. The errors are of the kind
// Usage for a name that is none, and Input for a file that is wrong.
func LoadConfig(name string) (Config, error) {
	v, err := loadConfig(name)
	if err != nil {
		return Config{}, err
	}
	return ParseConfig(v)
}

// loadConfig reads a model config by its shipped name, or a file. A file that cannot be read whose name is that of a
// shipped one was probably meant as that.
func loadConfig(name string) (*conf.Value, error) {
	if name == fromOptions {
		return conf.Parse(fromOptions+".yaml", []byte("{}"))
	}
	if file, text, ok := configSource(name); ok {
		return conf.Parse(file, text)
	}
	stem := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	if !strings.Contains(name, "/") && !conf.Readable(name) {
		return nil, usage("there is no model config %q%s", name, value.Suggestion(name, ConfigNames())).
			WithHint("shipped are %s; --tp, --pp and others replace what one says; a file of your own ends in .yaml",
				strings.Join(ConfigNames(), ", "))
	}
	v, err := conf.Load(name)
	if _, _, shipped := configSource(stem); err != nil && shipped {
		err = fault.New(fault.KindOf(err), "%w",
			err).WithHint("a config of this name is part of perigee: --model_config %s", stem)
	}
	return v, err
}

// usage makes an error of the command line.
func usage(format string, args ...any) *fault.Error {
	return fault.New(fault.Usage, format, args...)
}
