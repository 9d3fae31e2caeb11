package matgen

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/size"
	"perigee/internal/kit/value"
	"perigee/internal/model"
)

// The limits of a workload. They keep a typing error from filling the memory.
const (
	maxRanks    = 1 << 15  // a matrix of so many ranks is a text of 2 GiB
	maxRequests = 10 << 20 // that are invented; a list or a trace has as many as it has
	maxTokens   = 1 << 40  // tokens of a request
)

// The bounds of draws, where the command line gives none.
const leastISL, mostISL int64 = 1000, 128_000

// The original divides by originalFLOPS. It calls it "36 TFlops
// (h100)".
const originalFLOPS = 36e12

const defaultFLOPS = model.PrefillFLOPS

var memTypes = []string{"cuda", "vram", "cpu", "dram"}

// Options are the options of `perigee matgen generate`, also written to the
// metadata. The names in the command line have dashes instead of underscores.
// [DefaultOptions] gives their defaults. A nil pointer is an option that is
// not given, and so are 0 nodes.
type Options struct {
	NumUserRequests *int   `placeholder:"1000" group:"Requests" help:"Number of requests. With --isl-list or --trace: how many of those to take; default all." yaml:"num_user_requests,omitempty"`
	BatchSize       int    `min:"1" default:"1" group:"Requests" help:"Most requests in a batch." yaml:"batch_size"`
	MaxBatchMem     memory `default:"100e9" placeholder:"SIZE" group:"Requests" help:"A batch is closed once its KV cache is larger than this, such as 80G (default: 100e9)." yaml:"max_batch_mem"`

	NumPrefillNodes int `min:"1" max:"32768" placeholder:"N" group:"Names of the originals" help:"Nodes that prefill." yaml:"num_prefill_nodes"`
	NumDecodeNodes  int `min:"1" max:"32768" placeholder:"N" group:"Names of the originals" help:"Nodes that decode." yaml:"num_decode_nodes"`
	PPN             int `name:"ppn" min:"1" max:"32768" default:"8" group:"Names of the originals" help:"GPUs, and so ranks, per node." yaml:"ppn"`

	PrefillTP int `name:"prefill-tp" min:"1" max:"32768" default:"1" group:"Names of the originals" help:"Tensor parallelism of a prefill worker." yaml:"prefill_tp"`
	PrefillPP int `name:"prefill-pp" min:"1" max:"32768" default:"1" group:"System" help:"Pipeline parallelism of a prefill worker: each stage sends its layers when it has them." yaml:"prefill_pp"`
	PrefillCP int `name:"prefill-cp" min:"1" max:"32768" default:"1" group:"System" help:"Context parallelism of a prefill worker." yaml:"prefill_cp"`
	DecodeTP  int `name:"decode-tp" min:"1" max:"32768" default:"1" group:"Names of the originals" help:"Tensor parallelism of a decode worker." yaml:"decode_tp"`
	DecodePP  int `name:"decode-pp" min:"1" max:"32768" default:"1" group:"System" help:"Pipeline parallelism of a decode worker." yaml:"decode_pp"`
	DecodeCP  int `name:"decode-cp" min:"1" max:"32768" default:"1" group:"System" help:"Context parallelism of a decode worker: its parts share out the tokens evenly." yaml:"decode_cp"`
	PrefillDP int `name:"prefill-dp" min:"1" max:"32768" default:"1" group:"System" help:"Attention groups of a prefill worker (data-parallel attention): a request lives on tp / dp of its ranks." yaml:"prefill_dp"`
	DecodeDP  int `name:"decode-dp" min:"1" max:"32768" default:"1" group:"System" help:"The same of a decode worker." yaml:"decode_dp"`

	PrefillPPLayers []int64 `name:"prefill-pp-layers" placeholder:"N,N,..." group:"System" help:"Layers of each stage of a prefill worker, where they are not as --serving shares them out." yaml:"prefill_pp_layers,omitempty"`
	DecodePPLayers  []int64 `name:"decode-pp-layers" placeholder:"N,N,..." group:"System" help:"The same of a decode worker." yaml:"decode_pp_layers,omitempty"`

	RailOptimized bool `negatable:"" group:"System" help:"Place the ranks of a decode worker so that each rank sends to its own NIC and the one 4 further; needs prefill tp 4 and decode tp 8." yaml:"rail_optimized"`

	Model       string `completes:"models" placeholder:"NAME|FILE" group:"Model" help:"A name such as llama-405b, qwen3-30B or deepseek-ai/DeepSeek-R1 (perigee kvbench models), a config.json, or a file of your own." yaml:"model,omitempty"`
	ModelFile   string `hidden:"" placeholder:"FILE" group:"Model" help:"The same as --model with a file." yaml:"model_file,omitempty"`
	model.Flags `group:"Model" yaml:",inline"`

	HiddenSize *int64 `min:"1" max:"1048576" placeholder:"N" group:"Model" help:"Custom model: hidden size. Also completes a file that does not say it." yaml:"hidden_size,omitempty"`
	NumLayers  *int64 `min:"1" max:"16384" placeholder:"N" group:"Model" help:"Custom model: layers." yaml:"num_layers,omitempty"`
	NumHeads   *int64 `min:"1" max:"1048576" placeholder:"N" group:"Model" help:"Custom model: attention heads." yaml:"num_heads,omitempty"`
	NumKVHeads *int64 `min:"1" max:"1048576" name:"num-kv-heads" placeholder:"N" group:"Model" help:"Custom model: heads of the KV cache." yaml:"num_kv_heads,omitempty"`
	HeadDim    *int64 `min:"1" max:"1048576" placeholder:"N" group:"Model" help:"Custom model: size of a head, where it is not hidden size / heads." yaml:"head_dim,omitempty"`

	DtypeSize *float64 `placeholder:"BYTES" group:"Model" help:"Custom model, or a file: bytes per value of the cache, such as 1 or 0.5, instead of a --kv-cache-dtype." yaml:"dtype_size,omitempty"`

	ISLMean  float64 `name:"isl-mean" type:"tokens" default:"16000" group:"Requests" help:"Mean of the input lengths, in tokens; 64k is 64000, 64K is 65536." yaml:"isl_mean"`
	ISLScale float64 `name:"isl-scale" type:"tokens" default:"10000" group:"Requests" help:"Their standard deviation; 0 makes all requests alike." yaml:"isl_scale"`
	MinISL   *int64  `name:"min-isl" type:"tokens" min:"1" max:"1099511627776" placeholder:"1000" group:"Requests" help:"Shorter draws become this long (default: 1000); with --trace requests, where it is given." yaml:"min_isl,omitempty"`
	MaxISL   *int64  `name:"max-isl" type:"tokens" min:"1" max:"1099511627776" placeholder:"128000" group:"Requests" help:"Longer draws become this long (default: 128000); with --trace requests, where it is given." yaml:"max_isl,omitempty"`
	Seed     uint64  `default:"0" group:"Requests" help:"Seed of the draws." yaml:"seed"`
	ISLList  string  `name:"isl-list" placeholder:"FILE" group:"Requests" help:"Take the draws from a file, one number a line." yaml:"isl_list,omitempty"`

	Trace     string `placeholder:"FILE" group:"Requests" help:"Take lengths and arrival times from a serving trace: JSON lines of Mooncake, Bailian, Dynamo; CSV of Azure, BurstGPT, or such columns; gzip or zstd." yaml:"trace,omitempty"`
	TraceUnit string `name:"trace-unit" placeholder:"s|ms|us|ns" group:"Requests" help:"Unit of the trace's timestamps, s, ms, us or ns, where the trace does not say it." yaml:"trace_unit,omitempty"`

	FLOPS        float64 `name:"flops" default:"400e12" group:"System" help:"Operations per second that a GPU reaches in prefill; decides the sleeps." yaml:"flops"`
	model.Copies `group:"Traffic" yaml:",inline"`
	Scale        float64 `type:"number" default:"1" group:"Traffic" help:"Keep only this part of all bytes, such as 0.001 or 1/1000, so that a small machine can play the workload." yaml:"scale"`
	TimeScale    float64 `name:"time-scale" default:"1" group:"Traffic" help:"Shrink all sleeps by this factor." yaml:"time_scale"`
	Layerwise    bool    `group:"Traffic" help:"Send each run of layers of a batch when it is prefilled, while the next one is." yaml:"layerwise,omitempty"`
	Runs         int     `name:"layer-runs" min:"1" placeholder:"N" group:"Traffic" help:"With --layerwise: into how many runs a stage's layers are cut (default: 8, or as many as it has)." yaml:"layer_runs,omitempty"`
	Chunk        int64   `type:"tokens" min:"1" placeholder:"TOKENS" group:"Traffic" help:"Prefill, and send, each request by chunks of so many tokens." yaml:"chunk,omitempty"`
	MemType      string  `placeholder:"TYPE" group:"Traffic" help:"mem_type of every pattern: cuda, vram, cpu or dram. By default it is left to the run." yaml:"mem_type,omitempty"`
	Compat       bool    `group:"Traffic" help:"Make the files of the original generator, with its rounding, presets and sleeps." yaml:"compat"`
	Dense        bool    `group:"Files" help:"Write a row for each rank even of more than 1024 ranks, instead of a line for each message." yaml:"dense"`
}

// DefaultOptions returns what the command line starts from. The node counts
// have no default.
var DefaultOptions = sync.OnceValue(func() (o Options) {
	cli.Take(&o, nil)
	return o
})

// usage makes an error of the command line.
func usage(format string, args ...any) *fault.Error {
	return fault.New(fault.Usage, format, args...)
}

// checkNumbers refuses every number that no workload can have, whatever else
// is given.
func (o *Options) checkNumbers() error {
	if n := o.NumUserRequests; n != nil && !(o.Compat && *n == 0) { // the original makes an empty workload of 0
		if _, err := value.Whole(1, maxRequests).Check(int64(*n)); err != nil {
			return usage("--num-user-requests: %w", err)
		}
	}
	return o.checkReals()
}

// memory is a number of bytes: a size, or any number, as the original generator takes it.
type memory float64

// UnmarshalText reads a size or a number.
func (m *memory) UnmarshalText(text []byte) error {
	if v, err := strconv.ParseFloat(string(text), 64); err == nil {
		*m = memory(v)
		return nil
	}
	n, err := size.Parse(string(text))
	*m = memory(n)
	return err
}

// checkReals checks the numbers with fractions, by one table of their limits.
func (o *Options) checkReals() error {
	reals := []struct {
		flag  string
		value float64
		zero  bool // may be 0
		most  float64
	}{
		{"max-batch-mem", float64(o.MaxBatchMem), false, math.MaxFloat64},
		{"isl-mean", o.ISLMean, false, maxTokens},
		{"isl-scale", o.ISLScale, true, maxTokens},
		{"flops", o.FLOPS, false, math.MaxFloat64},
		{"scale", o.Scale, false, 1},
		{"time-scale", o.TimeScale, true, math.MaxFloat64},
	}
	for _, n := range reals {
		switch {
		case math.IsNaN(n.value) || math.IsInf(n.value, 0):
			return usage("--%s: wanted a finite number, got %v", n.flag, n.value)
		case n.value < 0 || n.value == 0 && !n.zero:
			return usage("--%s: wanted a number above 0, got %v", n.flag, n.value)
		case n.value > n.most:
			return usage("--%s: wanted at most %v, got %v", n.flag, n.most, n.value)
		}
	}
	return nil
}

// checkWords refuses words that mean nothing and options that exclude each
// other.
func (o *Options) checkWords() error {
	_, err := o.Flags.Options(1)
	if err = cmp.Or(err, o.CheckPages(), o.KVReplicas.Check()); err != nil {
		return err
	}
	if o.MemType != "" && !slices.Contains(memTypes, o.MemType) {
		return usage("--mem-type: wanted one of %s, got %q", strings.Join(memTypes, ", "), o.MemType)
	}
	if o.ISLList != "" && o.Trace != "" {
		return usage("--isl-list and --trace exclude each other: both give the lengths of the requests")
	}
	if o.TraceUnit != "" && o.Trace == "" {
		return usage("--trace-unit without effect: there is no --trace")
	}
	if o.Model != "" && o.ModelFile != "" {
		return usage("--model and --model-file exclude each other: --model takes a file, too")
	}
	if o.KVCacheDType != "" && o.DtypeSize != nil {
		return usage("--kv-cache-dtype and --dtype-size exclude each other: both give the precision of the cache")
	}
	for _, x := range []struct {
		flag, without string
		idle          bool
	}{
		{"--layer-runs", "--layerwise", o.Runs != 0 && !o.Layerwise},
	} {
		if x.idle {
			return usage("%s without effect: there is no %s", x.flag, x.without)
		}
	}
	if o.Compat {
		return o.checkCompat()
	}
	if least, most := o.bounds(); least > most {
		return usage("--min-isl %d is larger than --max-isl %d", least, most)
	}
	return nil
}

// bounds are the lengths that shorter and longer requests get. Those of a trace are no draws: they stay as they were
// recorded, unless a bound is asked for.
func (o *Options) bounds() (least, most int64) {
	if o.Trace != "" {
		return cli.Given(o.MinISL, 0), cli.Given(o.MaxISL, maxTokens)
	}
	return cli.Given(o.MinISL, leastISL), cli.Given(o.MaxISL, mostISL)
}

// checkCompat refuses options that the original does not have where they would
// have to change its result.
func (o *Options) checkCompat() error {
	choice, err := o.Flags.Options(1)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		flag  string
		given bool
	}{
		{"--trace", o.Trace != ""},
		{"--model-file", o.ModelFile != ""},
		{"--head-dim", o.HeadDim != nil},
		{"--flops", o.FLOPS != defaultFLOPS},
		{"--kv-replicas", o.KVReplicas != model.ReplicasFull},
		{"--scale", o.Scale != 1},
		{"--mem-type", o.MemType != ""},
		{"--time-scale", o.TimeScale != 1},
		{"--layerwise", o.Layerwise},
		{"--chunk", o.Chunk != 0},
		{"--kv-cache-dtype", o.KVCacheDType != ""},
		{"--serving", choice.Serving != model.Exact},
		{"--state-dtype", o.StateDType != ""},
		{"--prefill-dp, --decode-dp", o.PrefillDP != 1 || o.DecodeDP != 1},
	} {
		if x.given {
			return usage("%s cannot be combined with --compat: the original has no such option", x.flag)
		}
	}
	return nil
}

// cut reports whether a batch moves in several patterns that overlap its prefill.
func (o *Options) cut() bool { return o.Layerwise || o.Chunk > 0 }
