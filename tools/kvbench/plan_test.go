package kvbench

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/model"
)

// flagNames are the options of nixlbench in the order in which the original
// writes them.
var flagNames = strings.Fields(`benchmark_group backend check_consistency device_list enable_pt progress_threads etcd_endpoints storage_enable_direct
	filepath enable_vmm gds_batch_pool_size gds_batch_limit initiator_seg_type max_batch_size max_block_size mode num_files num_initiator_dev num_iter
	num_target_dev num_threads op_type posix_api_type runtime_type scheme start_batch_size start_block_size target_seg_type total_buffer_size warmup_iter
	worker_type gds_mt_num_threads gpunetio_device_list gpunetio_oob_list hf3fs_iopool_size obj_access_key obj_secret_key obj_session_token
	obj_bucket_name obj_scheme obj_region obj_use_virtual_addressing obj_endpoint_override obj_req_checksum large_blk_iter_ftr recreate_xfer
	pipeline_depth prepared_xfer reregister_mem use_hugepages randomize_location_mode randomize_location_mode_seed`)

func TestFlags(t *testing.T) {
	var names []string
	for _, f := range DefaultBench().flags() {
		names = append(names, f.name)
	}
	must.Equal(t, flagNames, names)
	if w := wordsOf(DefaultBench().given(false)); w != nil {
		t.Errorf("the defaults need the words %q", w)
	}
}

// TestDocumentedOptions tries every option of the original's manual in both
// spellings.
func TestDocumentedOptions(t *testing.T) {
	given := map[string]string{
		"pp": "2", "tp": "2", "isl": "7", "osl": "7", "num_requests": "2", "page_size": "4", "access_pattern": "block", "format": "json",
		"source": "gpu", "destination": "gpu", "backend": "UCX_MO", "worker_type": "nixl", "initiator_seg_type": "VRAM", "target_seg_type": "VRAM",
		"scheme": "tp", "mode": "MG", "op_type": "READ", "check_consistency": "", "total_buffer_size": "8589934592", "start_block_size": "1",
		"max_block_size": "1", "start_batch_size": "1", "max_batch_size": "1", "num_iter": "5", "warmup_iter": "0", "num_threads": "2",
		"num_initiator_dev": "2", "num_target_dev": "2", "enable_pt": "", "device_list": "mlx5_0", "runtime_type": "ETCD", "etcd-endpoints": "http://a:1",
		"storage_enable_direct": "", "gds_filepath": "/a b", "enable_vmm": "", "model_configs": "block-tp1-pp1",
	}
	var line, other []string
	for name, value := range given {
		line = append(line, "--"+name)
		other = append(other, "--"+strings.ReplaceAll(name, "_", "-"))
		if value != "" {
			line, other = append(line, value), append(other, value)
		}
	}
	base := []string{"plan", "--model", "qwen3-8b", "--model_config", "layer-tp1-pp1"}
	a, _, err := runLine(t, append(base, line...)...)
	must.Do(t, err)
	b, _, err := runLine(t, append(base, other...)...)
	must.Do(t, err)
	if a != b {
		t.Errorf("one spelling gives\n%s\nthe other\n%s", a, b)
	}
	const words = "nixlbench --backend UCX_MO --check_consistency --device_list mlx5_0 --enable_pt --etcd_endpoints http://a:1 --storage_enable_direct " +
		"--filepath '/a b' --enable_vmm --initiator_seg_type VRAM --max_batch_size 14 --max_block_size 73728 --mode MG --num_initiator_dev 2 --num_iter 5 " +
		"--num_target_dev 2 --num_threads 2 --op_type READ --scheme tp --start_batch_size 14 --start_block_size 73728 --target_seg_type VRAM --warmup_iter 0"
	if !strings.Contains(a, words+`"`) {
		t.Errorf("no\n%s\nin\n%s", words, a)
	}
	if n := strings.Count(a, `"config_file"`); n != 2 {
		t.Errorf("%d plans, wanted 2", n)
	}
}

func TestRoute(t *testing.T) {
	for _, tt := range []struct {
		line                  string // the options
		op, initiator, target string // for nixlbench
		local, there          string // for perigee
		warns                 string
	}{
		{"", "WRITE", "DRAM", "DRAM", "DRAM", "DRAM", ""},
		{"--backend ucx --source gpu", "WRITE", "VRAM", "DRAM", "VRAM", "DRAM", ""},
		{"--source memory --destination gpu --op_type READ", "READ", "DRAM", "VRAM", "DRAM", "VRAM", ""},
		{"--initiator_seg_type VRAM", "WRITE", "VRAM", "DRAM", "VRAM", "DRAM", ""},
		{"--initiator_seg_type VRAM --source memory", "WRITE", "DRAM", "DRAM", "DRAM", "DRAM", "--initiator_seg_type VRAM has no effect"},
		{"--backend mooncake --destination gpu", "WRITE", "DRAM", "VRAM", "DRAM", "VRAM", ""},
		{"--backend UCX_MO", "WRITE", "DRAM", "DRAM", "DRAM", "DRAM", "no backend UCX_MO"},
		{"--backend GDS", "READ", "DRAM", "VRAM", "DRAM", "FILE", ""},
		{"--backend gds --source file --destination gpu", "READ", "DRAM", "VRAM", "VRAM", "FILE", "add --initiator_seg_type VRAM"},
		{"--backend GDS --source gpu", "WRITE", "DRAM", "VRAM", "VRAM", "FILE", "add --initiator_seg_type VRAM"},
		{"--backend GDS --source gpu --initiator_seg_type VRAM", "WRITE", "VRAM", "VRAM", "VRAM", "FILE", ""},
		{"--backend GDS --source gpu --initiator_seg_type DRAM", "WRITE", "DRAM", "VRAM", "DRAM", "FILE", "--source gpu has no effect: --initiator_seg_type DRAM says what memory is used"},
		{"--backend GDS --destination gpu --initiator_seg_type DRAM", "READ", "DRAM", "VRAM", "DRAM", "FILE", "--destination gpu has no effect: --initiator_seg_type DRAM"},
		{"--backend POSIX --source memory --destination gpu", "WRITE", "DRAM", "DRAM", "DRAM", "FILE", "--destination gpu has no effect: with --source memory the bytes go to a file"},
		{"--backend POSIX --source memory --destination file", "WRITE", "DRAM", "DRAM", "DRAM", "FILE", ""},
		{"--backend GDS --source gpu --op_type READ", "WRITE", "DRAM", "VRAM", "VRAM", "FILE", "--op_type READ has no effect"},
		{"--backend GDS --source memory", "WRITE", "DRAM", "DRAM", "DRAM", "FILE", ""},
		{"--backend GDS_MT --source gpu --initiator_seg_type VRAM", "WRITE", "VRAM", "VRAM", "VRAM", "FILE", ""},
		{"--backend POSIX", "READ", "DRAM", "DRAM", "DRAM", "FILE", ""},
		{"--backend hf3fs --source memory", "WRITE", "DRAM", "DRAM", "DRAM", "FILE", ""},
		{"--backend OBJ", "READ", "DRAM", "DRAM", "DRAM", "FILE", ""},
		{"--backend OBJ --destination gpu", "READ", "VRAM", "DRAM", "VRAM", "FILE", ""},
		{"--backend OBJ --source gpu --destination file", "WRITE", "VRAM", "DRAM", "VRAM", "FILE", ""},
	} {
		var cmd struct{ Bench }
		parser, err := cli.Parser(&cmd)
		must.Do(t, err)
		if _, err := parser.Parse(strings.Fields(tt.line)); err != nil {
			t.Fatal(err)
		}
		r, err := route(cmd.Bench)
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
			continue
		}
		scenario := r.scenario(r.bench)
		local, there := cli.Given(scenario.InitiatorSegType, dram), cli.Given(scenario.TargetSegType, dram)
		got := []string{cli.Given(r.bench.OpType, opWrite), cli.Given(r.bench.InitiatorSegType, dram), cli.Given(r.bench.TargetSegType, dram), local, there}
		if diff := cmp.Diff([]string{tt.op, tt.initiator, tt.target, tt.local, tt.there}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.line, diff)
		}
		if text := fmt.Sprint(r.warnings); !strings.Contains(text, tt.warns) || tt.warns == "" && len(r.warnings) > 0 {
			t.Errorf("%s: warnings %s, wanted %q", tt.line, text, tt.warns)
		}
	}
}

// TestAccepted holds random plans against the rules by which nixlbench refuses
// a command line.
func TestAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := DefaultBench()
		b.NumThreads = rapid.Int64Range(1, 9).Draw(t, "threads")
		b.NumInitiatorDev = rapid.Int64Range(1, 9).Draw(t, "initiator devices")
		b.NumTargetDev = rapid.Int64Range(1, 9).Draw(t, "target devices")
		b.Backend = rapid.SampledFrom(backendNames()).Draw(t, "backend")
		a, _ := model.Shipped(rapid.SampledFrom(model.Names()).Draw(t, "model"))
		p, err := newPlan(a, drawConfig(t, a), "c", rapid.SampledFrom([]string{"", accountingExact}).Draw(t, "accounting"), model.Options{}, "")
		if err != nil {
			return // TestBytes looks at those
		}
		must.Do(t, p.command(b))
		for _, cmd := range p.Commands {
			values := map[string]any{}
			for _, f := range cmd.Bench.flags() {
				values[f.name] = f.value
			}
			number := func(name string) int64 { return values[name].(int64) }
			total := number("total_buffer_size")
			bytes := new(big.Int).Mul(big.NewInt(number("max_block_size")), big.NewInt(number("max_batch_size")))
			for _, parts := range []int64{b.NumThreads, b.NumInitiatorDev, b.NumTargetDev} {
				if bytes.Cmp(big.NewInt(total/parts)) > 0 {
					t.Errorf("%v bytes do not fit a %d-th of the buffer of %d", bytes, parts, total)
				}
			}
			if total%(b.NumThreads*b.NumInitiatorDev) != 0 || total%(b.NumThreads*b.NumTargetDev) != 0 {
				t.Errorf("the buffer of %d does not divide among threads and devices", total)
			}
			for _, name := range []string{"initiator_seg_type", "target_seg_type"} {
				if values[name] != dram && values[name] != vram {
					t.Errorf("--%s %v", name, values[name])
				}
			}
			if number("start_block_size") != number("max_block_size") || number("start_batch_size") != number("max_batch_size") {
				t.Errorf("%v", values)
			}
		}
	})
}

func TestBinarySize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0.0 B", 576: "576.0 B", 73728: "72.0 KB", 1179648: "1.12 MB", 2359296: "2.25 MB", 1048575: "1024.0 KB", 1 << 30: "1.0 GB",
		1<<40 + 1<<39: "1.5 TB", 5 << 50: "5120.0 TB",
	} {
		if got := binarySize(n); got != want {
			t.Errorf("%d: %s, wanted %s", n, got, want)
		}
	}
}

func TestShell(t *testing.T) {
	got := shell("x", []string{"--a", "it's $5", "--flag", "--b", "/p-1.2/q:3"})
	if want := "x \\\n    --a 'it'\\''s $5' \\\n    --flag \\\n    --b /p-1.2/q:3"; got != want {
		t.Errorf("got %s\nwanted %s", got, want)
	}
}

func TestResultName(t *testing.T) {
	for _, tt := range []struct {
		file    string
		several bool
		want    string
	}{
		{"a/r.json.zst", false, "a/r.json.zst"}, {"a/r.json.zst", true, "a/r-x.json.zst"}, {"r.json", true, "r-x.json"}, {"/a.json/r.json.gz", true, "/a.json/r-x.json.gz"},
	} {
		if got := resultName(tt.file, "x", tt.several); got != tt.want {
			t.Errorf("%s: %s, wanted %s", tt.file, got, tt.want)
		}
	}
}

// Configs of one name in several folders do not overwrite each other's results.
func TestUntaken(t *testing.T) {
	taken := map[string]bool{}
	var got []string
	for _, label := range []string{"x", "y", "x", "x.2", "x"} {
		got = append(got, untaken(label, taken))
	}
	must.Equal(t, []string{"x", "y", "x.2", "x.2.2", "x.3"}, got)
}

// The scale that is offered leaves room, and not much more than needed.
func TestFitting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		available := rapid.Int64Range(1, 1<<50).Draw(t, "available")
		wanted := rapid.Int64Range(available+1, 1<<62).Draw(t, "wanted")
		f := fitting(available, big.NewInt(wanted))
		if share := f * float64(wanted) / float64(available); share > 0.9000001 || share < 0.8 {
			t.Errorf("%v of %d fills %v of %d", f, wanted, share, available)
		}
	})
}

func FuzzConfig(f *testing.F) {
	var documents []string
	for _, name := range ConfigNames() {
		_, text, _ := configSource(name)
		f.Add(text)
		documents = append(documents, string(text))
	}
	for _, s := range []string{"strategy:\n", "system: {hardware: \"=HYPERLINK(2)\\e[31m\", backend: '@SUM(1)'}\n", "runtime: {isl: '7'}\n", "runtime: {isl: 1e300}\n", "system: {access_pattern: }\n", "strategy: {tp_size: 1048576, pp_size: 61}\n", "[]"} {
		f.Add([]byte(s))
	}
	a := shipped(f, "gpt-oss-20b")
	fuzztest.RunDocuments(f, documents, func(t *testing.T, text []byte) {
		v, err := conf.Parse("c.yaml", text)
		if err != nil {
			return // conf tests its own errors
		}
		c, err := ParseConfig(v)
		if err != nil {
			if fault.KindOf(err) != fault.Input {
				t.Errorf("error %q of kind %v", err, fault.KindOf(err))
			}
			return
		}
		p, err := newPlan(a, c, "c.yaml", accountingKVBench, model.Options{}, "")
		if err == nil {
			err = p.command(DefaultBench())
		}
		if err != nil {
			if kind := fault.KindOf(err); kind != fault.Input && kind != fault.Usage {
				t.Errorf("error %q of kind %v", err, kind)
			}
			return
		}
		if x := p.KVBench.Transfers[0]; x.IOSize < 1 || x.BatchSize < 1 || p.Exact.Bytes < 1 {
			t.Errorf("%+v gives %+v", c, p)
		}
	})
}

// TestFitted looks at the buffers that a run has, and at the limit of a rank's.
func TestFitted(t *testing.T) {
	for _, tt := range []struct {
		line    string
		buffers int64
		total   string
	}{
		{"", 2, "10737418240"},
		{"-n 6", 6, "10737418240"},
		{"-n 5 --scheme manytoone", 8, "42949672960"},
		{"-n 4 --scheme onetomany --num_threads 2", 6, "64424509440"},
		{"--scheme tp --num_initiator_dev 2 --num_target_dev 4", 8, "21474836480"},
		{"-n 4 --scheme tp", 4, "10737418240"},
		{"--source gpu", 1, "10737418240"},
		{"--source gpu --destination gpu", 0, "10737418240"},
		{"--backend POSIX", 1, "10737418240"},
		{"--backend POSIX -n 3", 3, "10737418240"},
		{"--backend GDS --source gpu -n 3", 0, "10737418240"},
		{"--scale 0.5 -n 5 --scheme manytoone", 8, "21474836480"},
		{"--scale 1e-9", 2, "8589934592"},
	} {
		var cmd Cmd
		parser, err := cli.Parser(&cmd)
		must.Do(t, err)
		if _, err := parser.Parse(append([]string{"profile", "--model", "m", "--model_config", "c"}, strings.Fields(tt.line)...)); err != nil {
			t.Fatal(err)
		}
		// 10 GiB in 10240 blocks.
		size := PlanFigures{Transfers: []Transfer{{IOSize: 1 << 20, BatchSize: 10240}}}
		p := &BlockPlan{KVBench: &size, Accounting: accountingKVBench}
		must.Do(t, p.command(cmd.Profile.Bench))
		got, err := cmd.Profile.fitted(p.Commands[0])
		must.Do(t, err)
		if n := cmd.Profile.ends(got.Scenario).inMemory(); n != tt.buffers {
			t.Errorf("%s: %d buffers in host memory, wanted %d", tt.line, n, tt.buffers)
		}
		if b := got.Scenario; fmt.Sprint(*b.TotalBufferSize) != tt.total || *b.StartBatchSize != *b.MaxBatchSize {
			t.Errorf("%s: %+v, wanted a limit of %s", tt.line, b, tt.total)
		}
	}
}
