package kvbench

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/size"
	"perigee/internal/model"
)

// BlockPlan holds the figures and the commands for one model and config.
type BlockPlan struct {
	Model       *model.Model
	Config      Config
	ConfigName  string       // as the user named it
	Accounting  string       // which of the two the commands follow
	KVBench     *PlanFigures // nil: KVBench knows no such models
	Exact       PlanFigures
	Cache       *model.Cache
	Differences []string // why the two differ, a reason each
	Warnings    []string // what else the user should know
	Notes       []string // what is not counted

	replicas model.Replicas // what ranks that hold the same receive
	Commands []Command      // one for each size of blocks
}

// Command is one run of a benchmark.
type Command struct {
	Layers    string   // which layers it moves, where a plan has several commands
	Bench     Bench    // for nixlbench, with all that the plan decides
	Nixlbench []string // the words after nixlbench
	Scenario  Bench    // for perigee run kvbench, which does the same work
}

// perigee returns the words after perigee run kvbench.
func (c Command) perigee() []string {
	return append([]string{"-n", strconv.FormatInt(c.Scenario.ranks(), 10)}, wordsOf(c.Scenario.forScenario())...)
}

// Figures returns those of the plan's accounting.
func (p *BlockPlan) Figures() PlanFigures {
	if p.Accounting == accountingExact {
		return p.Exact
	}
	return *p.KVBench
}

// differs reports whether one GPU moves something else than the plan's accounting says.
func (p *BlockPlan) differs() bool {
	return p.Accounting == accountingKVBench && !slices.Equal(p.KVBench.Transfers, p.Exact.Transfers)
}

// precision says in what the plan's accounting counts the cache, and why. KVBench counts heads in that of the weights.
func (p *BlockPlan) precision() (name, by string) {
	k, _ := p.Model.Uniform()
	if p.Accounting == accountingExact || k.Kind == model.MLA {
		return p.Cache.DType.Name, p.Cache.DTypeBy
	}
	return p.Config.ModelQuant, p.Config.by("model_quant_mode", "") + ", by which KVBench counts"
}

// precisionText is precision for people.
func (p *BlockPlan) precisionText() string {
	name, by := p.precision()
	switch {
	case p.Accounting == accountingExact:
		return fmt.Sprintf("%s (%s), the part of one GPU", name, by)
	case by != p.Cache.DTypeBy:
		by += "; the accounting exact goes by --kv_cache_dtype"
	}
	return fmt.Sprintf("%s (%s)", name, by)
}

// page are the tokens of a page of the plan's accounting.
func (p *BlockPlan) page() int64 {
	if p.Accounting == accountingExact {
		return p.Cache.Block
	}
	return p.Config.PageSize
}

// newPlan computes the figures of a model and a config, without commands. accounting may be empty: then it is KVBench's
// for models that KVBench knows, unless an engine's choices count.
func newPlan(
	m *model.Model, c Config, name, accounting string, o model.Options, replicas model.Replicas,
) (*BlockPlan, error) {
	if o.Serving != model.Exact || replicas == model.ReplicasSplit {
		if accounting == accountingKVBench {
			return nil, usage("--accounting kvbench counts as KVBench does: it knows no --serving, and no --kv-replicas").
				WithHint("--accounting exact, which they have by default")
		}
		accounting = accountingExact
	}
	if err := c.check(m); err != nil {
		return nil, err
	}
	p := &BlockPlan{Model: m, Config: c, ConfigName: name, replicas: replicas}
	p.Accounting = cmp.Or(accounting, accountingExact)
	var err error
	if o.Serving == model.Exact || c.given("page_size") {
		o.Page = c.PageSize
	}
	o.Ranks = c.TP
	if m.OfID && !c.given("kvcache_quant_mode") {
		c.KVQuant = "auto" // its files say otherwise than KVBench's default
		p.Config = c
	}
	if p.Cache, err = m.CacheIn(c.KVQuant, o); err != nil {
		return nil, c.errorf("kvcache_quant_mode", "%w", err)
	}
	if c.KVQuant != "auto" {
		p.Cache.DTypeBy = c.by("kvcache_quant_mode", "--kv_cache_dtype")
	}
	if p.Exact, err = exactFigures(p.Cache, c, replicas); err != nil {
		return nil, err
	}
	if err := p.addKVBench(accounting); err != nil {
		return nil, err
	}
	p.Notes = m.Notes()
	if c.given("page_size") && p.Cache.BlockBy == "as asked" {
		p.Cache.BlockBy = c.by("page_size", "")
	}
	if err := m.CheckHeads(); err != nil {
		p.Warnings = append(p.Warnings, err.Error())
	} else if err := m.CheckTP(c.TP); err != nil {
		p.Warnings = append(p.Warnings, err.Error()+": engines refuse that")
	}
	return p, nil
}

// addKVBench adds the figures of KVBench's formulas, where there are such for the model and the precision.
func (p *BlockPlan) addKVBench(accounting string) error {
	k, ok := hasKVBench(p.Model, p.Config)
	switch {
	case !ok && accounting == accountingKVBench:
		return usage("--accounting kvbench: KVBench has formulas for models whose layers all keep the same in fp8, int8, fp16 or bfloat16, and %s in %s is another",
			p.Model.Name, p.Cache.DType.Name).WithHint("--accounting exact")
	case !ok:
		return nil
	}
	figures, err := kvbenchFigures(p.Model, k, p.Config)
	if err != nil {
		return err
	}
	p.KVBench, p.Accounting = &figures, cmp.Or(accounting, accountingKVBench)
	p.Differences = differences(p.Model, k, p.Config)
	return nil
}

// command fills in the commands for a checked and routed benchmark.
func (p *BlockPlan) command(given Bench) error {
	r, err := route(given)
	if err != nil {
		return err
	}
	p.Warnings = append(p.Warnings, r.warnings...)
	p.Warnings = append(p.Warnings, given.ignored()...)
	p.Warnings = append(p.Warnings, r.idle()...)
	for _, t := range p.Figures().Transfers {
		p.Warnings = append(append(p.Warnings, r.beyondScenario(t.BatchSize)...), r.beyondNixlbench(t.BatchSize)...)
		b := r.bench
		b.StartBlockSize, b.MaxBlockSize = &t.IOSize, &t.IOSize
		b.StartBatchSize, b.MaxBatchSize = &t.BatchSize, &t.BatchSize
		if b.TotalBufferSize, err = totalBuffer(b, t); err != nil {
			return err
		}
		if err := b.checkNVSHMEM(); err != nil {
			return err
		}
		p.Commands = append(p.Commands, Command{
			Layers: t.Layers, Bench: b, Nixlbench: wordsOf(b.given(false)), Scenario: r.scenario(b),
		})
	}
	return nil
}

// ignored lists the options that have no effect since the plan sets them itself.
func (b Bench) ignored() []string {
	var all []string
	for _, x := range []struct {
		flag  string
		value *int64
	}{
		{"start_block_size", b.StartBlockSize}, {"max_block_size", b.MaxBlockSize},
		{"start_batch_size", b.StartBatchSize}, {"max_batch_size", b.MaxBatchSize},
	} {
		if x.value != nil {
			all = append(all, fmt.Sprintf("--%s %d has no effect: the plan sets it", x.flag, *x.value))
		}
	}
	return all
}

// totalBuffer returns the buffer that a process needs. nixlbench refuses one
// that has no room for the blocks of each of its threads or devices, or does not
// divide among them.
func totalBuffer(b Bench, t Transfer) (*size.Bytes, error) {
	parts := lcm(b.NumThreads*b.NumInitiatorDev, b.NumThreads*b.NumTargetDev)
	need := times(big.NewInt(t.IOSize), t.BatchSize, max(b.NumThreads, b.NumInitiatorDev, b.NumTargetDev))
	need = ceilDiv(need, parts)
	need.Mul(need, parts)
	if !need.IsInt64() {
		return nil, usage("--num_threads %d, --num_initiator_dev %d, --num_target_dev %d: the buffers for so many do not fit 63 bits",
			b.NumThreads, b.NumInitiatorDev, b.NumTargetDev)
	}
	least := size.Bytes(need.Int64())
	total := cli.Given(b.TotalBufferSize, defaultTotal)
	fits := total >= least && new(big.Int).Rem(big.NewInt(int64(total)), parts).Sign() == 0
	switch {
	case fits:
		return &total, nil
	case b.TotalBufferSize != nil:
		multiple := ""
		if parts.Cmp(big.NewInt(1)) > 0 {
			multiple = fmt.Sprintf(", and a multiple of %d", parts)
		}
		return nil, usage("--total_buffer_size: %d blocks of %d bytes need at least %d bytes%s; got %d", t.BatchSize,
			t.IOSize, least, multiple, total).
			WithHint("leave it out: then the plan sets it")
	}
	return &least, nil
}

func lcm(a, b int64) *big.Int {
	x, y := big.NewInt(a), big.NewInt(b)
	gcd := new(big.Int).GCD(nil, nil, x, y)
	return x.Mul(x, y.Quo(y, gcd))
}

// checkNVSHMEM refuses what nixlbench's worker for NVSHMEM cannot do.
func (b Bench) checkNVSHMEM() error {
	ok := cli.Given(b.InitiatorSegType, dram) == vram && cli.Given(b.TargetSegType, dram) == vram &&
		b.Scheme == "pairwise" && b.NumThreads == 1 && b.NumInitiatorDev == 1 && b.NumTargetDev == 1
	if b.WorkerType != "nvshmem" || ok {
		return nil
	}
	return usage("--worker_type nvshmem: it can do one thread, one device, the scheme pairwise, and VRAM on both sides only").
		WithHint("--source gpu --destination gpu")
}

// given lists the options that differ from their defaults, of all or only of those that the scenario has. always are
// there even so.
func (b Bench) given(onlyScenario bool, always ...string) (list []flag) {
	presets := DefaultBench().flags()
	for i, f := range b.flags() {
		if (f != presets[i] || slices.Contains(always, f.name)) && (f.scenario || !onlyScenario) {
			list = append(list, f)
		}
	}
	return list
}

// wordsOf writes options as a command line of nixlbench, which the scenario understands, too.
func wordsOf(list []flag) (words []string) {
	for _, f := range list {
		words = append(words, "--"+f.name)
		if f.value != true { // true is the flag alone
			words = append(words, fmt.Sprint(f.value))
		}
	}
	return words
}

// What the scenario takes at most.
const (
	scenarioBatch   = 1 << 24 // blocks at a time
	scenarioThreads = 1024    // of a rank
	scenarioFiles   = 1024    // of a thread
)

// beyondScenario returns why the scenario will refuse its command.
func (r routed) beyondScenario(batch int64) []string {
	var all []string
	for _, x := range []struct {
		what      string
		got, most int64
	}{
		{"moves at most %d blocks at a time, and these are %d", batch, scenarioBatch},
		{"runs at most %d threads, and --num_threads is %d", r.bench.NumThreads, scenarioThreads},
		{"uses at most %d files for each thread, and --num_files is %d", r.bench.NumFiles, scenarioFiles},
	} {
		if x.got > x.most {
			all = append(all, "perigee run kvbench "+fmt.Sprintf(x.what, x.most, x.got))
		}
	}
	small, large := min(r.bench.NumInitiatorDev, r.bench.NumTargetDev),
		max(r.bench.NumInitiatorDev, r.bench.NumTargetDev)
	if r.bench.Scheme == "tp" && !r.storage && large%small != 0 {
		all = append(all, fmt.Sprintf("perigee run kvbench wants the larger of --num_initiator_dev and --num_target_dev to be a multiple of the smaller, and they are %d and %d",
			r.bench.NumInitiatorDev, r.bench.NumTargetDev))
	}
	return all
}

// posixPool is how many requests nixlbench's POSIX plugin can have under way.
const posixPool = 65536

const idleDevices = "--num_initiator_dev, --num_target_dev without effect in perigee run kvbench but with the scheme tp: there every device is a rank (-n)"

// idle names the options that have no effect with this backend and scheme.
func (r routed) idle() []string {
	b, preset := r.bench, DefaultBench()
	var files, all []string
	for _, x := range []struct {
		flag  string
		given bool
	}{
		{"--filepath", b.Filepath != ""}, {"--num_files", b.NumFiles != preset.NumFiles},
		{"--posix_api_type", b.PosixAPIType != preset.PosixAPIType},
		{"--storage_enable_direct", b.StorageEnableDirect},
	} {
		if x.given && !r.storage {
			files = append(files, x.flag)
		}
	}
	if len(files) > 0 {
		all = append(all, strings.Join(files, ", ")+" without effect: --backend "+b.Backend+" reaches no files")
	}
	if r.storage && b.Scheme != preset.Scheme {
		all = append(all, "--scheme "+b.Scheme+" without effect in perigee run kvbench: with files each rank works alone")
	}
	if (b.NumInitiatorDev != 1 || b.NumTargetDev != 1) && (b.Scheme != "tp" || r.storage) {
		all = append(all, idleDevices)
	}
	return all
}

// beyondNixlbench returns why nixlbench cannot run its command.
func (r routed) beyondNixlbench(batch int64) []string {
	if r.bench.Backend == "POSIX" && batch > posixPool {
		return []string{fmt.Sprintf("nixlbench cannot run its command: its POSIX plugin has a pool of %d requests, and these are %d blocks at a time", posixPool, batch)}
	}
	return nil
}

// backendParam is the parameter of a backend that an option of nixlbench sets, or the variable, where it is a secret.
type backendParam struct{ backend, key, variable string }

var backendParams = map[string]backendParam{
	"gds_batch_pool_size":        {"GDS", "batch_pool_size", ""},
	"gds_batch_limit":            {"GDS", "batch_limit", ""},
	"gds_mt_num_threads":         {"GDS_MT", "thread_count", ""},
	"gpunetio_device_list":       {"GPUNETIO", "gpu_devices", ""},
	"gpunetio_oob_list":          {"GPUNETIO", "oob_interface", ""},
	"hf3fs_iopool_size":          {"HF3FS", "iopool_size", ""},
	"obj_access_key":             {"OBJ", "", "AWS_ACCESS_KEY_ID"},
	"obj_secret_key":             {"OBJ", "", "AWS_SECRET_ACCESS_KEY"},
	"obj_session_token":          {"OBJ", "", "AWS_SESSION_TOKEN"},
	"obj_bucket_name":            {"OBJ", "bucket", ""},
	"obj_scheme":                 {"OBJ", "scheme", ""},
	"obj_region":                 {"OBJ", "region", ""},
	"obj_use_virtual_addressing": {"OBJ", "use_virtual_addressing", ""},
	"obj_endpoint_override":      {"OBJ", "endpoint_override", ""},
	"obj_req_checksum":           {"OBJ", "req_checksum", ""},
}

// forBackend returns the parameters and the variables that nixlbench's options are to the backend. As nixlbench does,
// it gives the defaults, too.
func (b Bench) forBackend() (params []string, variables map[string]string) {
	variables = map[string]string{}
	for _, f := range b.flags() {
		p, value := backendParams[f.name], fmt.Sprint(f.value)
		switch {
		case p.backend != b.Backend || value == "":
		case p.variable != "":
			variables[p.variable] = value
		default:
			params = append(params, p.key+"="+value)
		}
	}
	return params, variables
}

// idleHere names the options of nixlbench that a run of perigee has no use for.
func (b Bench) idleHere(launcher string) []string {
	var list []string
	for _, f := range b.given(false) {
		p, isParam := backendParams[f.name]
		of := isParam && strings.EqualFold(p.backend, b.Backend)
		meets := f.name == "etcd_endpoints" && launcher == "etcd" // its address is of use there
		if !f.scenario && !of && !meets {
			list = append(list, "--"+f.name)
		}
	}
	return list
}

// scenario returns the options with which perigee run kvbench does the work of b.
// There the side that is a file says so and where it lies, ranks with files
// work alone, and every device is a rank.
func (r routed) scenario(b Bench) Bench {
	preset := DefaultBench()
	b.InitiatorSegType = &r.local
	if r.storage {
		b.TargetSegType = new("FILE")
		b.Filepath = cmp.Or(b.Filepath, ".")
		b.Scheme = preset.Scheme
	} else {
		b.Filepath, b.NumFiles, b.PosixAPIType, b.StorageEnableDirect = "", preset.NumFiles, preset.PosixAPIType, false
	}
	if b.Scheme != "tp" {
		b.NumInitiatorDev, b.NumTargetDev = preset.NumInitiatorDev, preset.NumTargetDev
	}
	if b.PosixAPIType == "POSIXAIO" {
		b.PosixAPIType = preset.PosixAPIType
	}
	return b
}

// forScenario lists the options of a scenario's run.
func (b Bench) forScenario() []flag {
	var always []string
	if b.NumInitiatorDev+b.NumTargetDev > 2 { // the scenario's default for one depends on the other
		always = []string{"num_initiator_dev", "num_target_dev"}
	}
	list := b.given(true, always...)
	params, _ := b.forBackend()
	for _, p := range params {
		list = append(list, flag{name: backendParamFlag, value: p, scenario: true})
	}
	return list
}

const backendParamFlag = "backend-param"

// ranks is how many ranks a scenario's run has unless the user says otherwise.
func (b Bench) ranks() int64 {
	switch {
	case cli.Given(b.TargetSegType, dram) == "FILE":
		return 1
	case b.Scheme == "tp":
		return b.NumInitiatorDev + b.NumTargetDev
	}
	return 2
}

// shell writes a command so that a shell reads the same words, each option on a
// separate line.
func shell(command string, words []string) string {
	var out strings.Builder
	out.WriteString(command)
	for _, w := range words {
		if strings.HasPrefix(w, "--") {
			out.WriteString(" \\\n    " + w)
		} else {
			out.WriteString(" " + cli.Quote(w))
		}
	}
	return out.String()
}

// PlanAll plans every shipped model with every shipped config that fits it, and
// returns the number of plans. It measures how long that takes.
func PlanAll() (int, error) {
	configs := map[string]Config{}
	for _, name := range ConfigNames() {
		c, err := LoadConfig(name)
		if err != nil {
			return 0, err
		}
		configs[name] = c
	}
	n := 0
	for _, name := range model.Names() {
		m, _ := model.Shipped(name) // it is one of them
		for config, c := range configs {
			if c.check(m) != nil {
				continue // more stages than the model has layers, say
			}
			p, err := newPlan(m, c, config, "", model.Options{}, "")
			if err == nil {
				err = p.command(DefaultBench())
			}
			if err != nil {
				return n, fmt.Errorf("%s, %s: %w", name, config, err)
			}
			n++
		}
	}
	return n, nil
}
