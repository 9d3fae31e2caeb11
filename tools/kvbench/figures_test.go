package kvbench

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/must"
	"perigee/internal/model"
)

// goldenCase is a case that the original was run with.
type goldenCase struct {
	Model  map[string]any `json:"model"`
	Config map[string]any `json:"effective_config"`
	Token  int64          `json:"kv_bytes_per_token_all_gpus"`
	ISL    int64          `json:"kv_bytes_for_isl"`
	IO1    int64          `json:"io_size_page1"`
	IO     int64          `json:"io_size"`
	Batch  int64          `json:"batch_size"`
	Bytes  int64          `json:"batch_x_io"`
}

func goldenCases(t *testing.T) []goldenCase {
	t.Helper()
	data := must.Read(t, "testdata/kvbench_figures.json")
	var doc struct{ Cases []goldenCase }
	must.Do(t, json.Unmarshal(data, &doc))
	return doc.Cases
}

// document turns a part of a golden case into what a file would hold.
func document(t *testing.T, name string, data any) *conf.Value {
	t.Helper()
	text, err := json.Marshal(data)
	must.Do(t, err)
	v, err := conf.Parse(name+".json", text)
	must.Do(t, err)
	return v
}

// TestGolden compares with the original in all cases. Seven of them we refuse on
// purpose, but their figures must come out, too.
func TestGolden(t *testing.T) {
	cases := goldenCases(t)
	if len(cases) != 40 {
		t.Fatalf("%d cases, wanted 40", len(cases))
	}
	refused := 0
	for i, g := range cases {
		a, err := model.Parse(document(t, "model", g.Model))
		must.Do(t, err)
		system := g.Config["system"].(map[string]any)
		if system["access_pattern"] == "bogus" {
			if _, err := ParseConfig(document(t, "config", g.Config)); err == nil {
				t.Errorf("case %d: the access pattern bogus is accepted", i)
			}
			refused++
			system["access_pattern"] = accessLayer
		}
		c, err := ParseConfig(document(t, "config", g.Config))
		must.Do(t, err)
		if c.check(a) != nil {
			refused++
		}
		k, ok := hasKVBench(a, c)
		if !ok {
			t.Fatalf("case %d: KVBench has formulas for it", i)
		}
		f, err := kvbenchFigures(a, k, c)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		want := PlanFigures{TokenBytes: g.Token, ISLBytes: g.ISL, Bytes: g.Bytes, Transfers: []Transfer{{"", g.IO, g.IO1, g.Batch}}}
		if diff := cmp.Diff(want, f); diff != "" {
			t.Errorf("case %d, %v %v (-want +got):\n%s", i, g.Model, g.Config, diff)
		}
	}
	if refused != 7 {
		t.Errorf("%d cases are refused", refused)
	}
}

func shipped(t testing.TB, name string) *model.Model {
	t.Helper()
	a, ok := model.Shipped(name)
	if !ok {
		t.Fatalf("no model %s", name)
	}
	return a
}

// figures computes both accountings; of models that KVBench does not know the exact one.
func figures(m *model.Model, c Config) (kvbench *PlanFigures, exact PlanFigures, why []string, err error) {
	p, err := newPlan(m, c, "test", "", model.Options{}, "")
	if err != nil {
		return nil, PlanFigures{}, nil, err
	}
	return p.KVBench, p.Exact, p.Differences, nil
}

// TestExact counts by hand what one GPU moves.
func TestExact(t *testing.T) {
	base := Config{TP: 1, PP: 1, ModelQuant: "fp8", KVQuant: "fp8", Requests: 1, ISL: 1000, PageSize: 16, Access: accessBlock}
	with := func(change func(*Config)) Config {
		c := base
		change(&c)
		return c
	}
	for _, tt := range []struct {
		what  string
		model string
		c     Config
		want  []Transfer
	}{
		{"the first example of the original's manual", "deepseek-r1",
			with(func(c *Config) { c.PP, c.ISL, c.PageSize, c.Requests = 16, 10000, 256, 10 }), []Transfer{{"", 4 * 576 * 256, 4 * 576, 10 * 40}}},
		{"its second", "deepseek-r1",
			with(func(c *Config) { c.PP, c.ISL, c.PageSize, c.Requests, c.Access = 16, 10000, 256, 10, accessLayer }), []Transfer{{"", 576 * 256, 576, 10 * 40 * 4}}},
		{"latents on every tp rank", "deepseek-r1", with(func(c *Config) { c.TP, c.PP = 8, 61 }), []Transfer{{"", 576 * 16, 576, 63}}},
		{"fp16 cache, fp8 weights", "llama3.1-8b", with(func(c *Config) { c.KVQuant = "fp16" }), []Transfer{{"", 131072 * 16, 131072, 63}}},
		{"a whole head each", "qwen3-235b-a22b", with(func(c *Config) { c.TP, c.PP, c.Access = 8, 94, accessLayer }), []Transfer{{"", 256 * 16, 256, 63}}},
		{"8 heads on 3 ranks", "llama3.1-8b", with(func(c *Config) { c.TP, c.PP, c.Access = 3, 32, accessLayer }), []Transfer{{"", 3 * 256 * 16, 3 * 256, 63}}},
		{"94 layers on 16 stages", "qwen3-235b-a22b", with(func(c *Config) { c.PP = 16 }), []Transfer{{"", 6 * 1024 * 16, 6 * 1024, 63}}},
		// Tokens 872 to 999 lie in pages 54 to 62.
		{"as many windows as not", "gpt-oss-20b", base, []Transfer{{"", 12 * 1024 * 16, 12 * 1024, 63 + 9}}},
		{"windows, layer by layer", "gpt-oss-20b", with(func(c *Config) { c.Access = accessLayer }), []Transfer{{"", 1024 * 16, 1024, 12*63 + 12*9}}},
		{"a stage of one layer: the one that keeps all", "gpt-oss-20b", with(func(c *Config) { c.PP = 24 }), []Transfer{{"", 1024 * 16, 1024, 63}}},
		{"shorter than the window", "gpt-oss-20b", with(func(c *Config) { c.ISL = 128 }), []Transfer{{"", 24 * 1024 * 16, 24 * 1024, 8}}},
		{"one token longer", "gpt-oss-20b", with(func(c *Config) { c.ISL, c.PageSize = 129, 1 }), []Transfer{{"", 12 * 1024, 12 * 1024, 129 + 128}}},
		// Layers 5, 11, ..., 59 keep all; token 8976 of 10000 is the first that the others keep.
		{"unlike numbers", "gemma3-27b", with(func(c *Config) { c.ISL = 10000 }), []Transfer{
			{"the 10 layers that keep all tokens", 10 * 4096 * 16, 10 * 4096, 625},
			{"the 52 layers that keep the last 1024 tokens", 52 * 4096 * 16, 52 * 4096, 64},
		}},
		// 12 layers keep 1 KV head of 256 for keys and values on each rank; 36 a state of 24576 values in 16 bit and
		// 524288 in 32.
		{"states", "qwen3-next-80b-a3b", with(func(c *Config) { c.TP = 2 }), []Transfer{
			{"the 12 layers that keep all tokens", 12 * 512 * 16, 12 * 512, 63},
			{"the 36 layers that keep a state (gdn)", 36 * (12288*2 + 262144*4), 36 * (12288*2 + 262144*4), 1},
		}},
		{"an index key beside a latent vector, in one block", "deepseek-v3.2", base, []Transfer{
			{"", 61 * (576 + 132) * 16, 61 * (576 + 132), 63}}},
		{"layer by layer", "deepseek-v3.2", with(func(c *Config) { c.Access = accessLayer }), []Transfer{
			{"the 61 layers that keep a latent vector", 576 * 16, 576, 61 * 63},
			{"the 61 layers that keep an index key", 132 * 16, 132, 61 * 63}}},
		{"a precision with scales", "qwen3-8b", with(func(c *Config) { c.KVQuant = "nvfp4" }), []Transfer{
			{"", 36 * 8 * 144 * 16, 36 * 8 * 144, 63}}},
		{"only windows", "mistral-7b-v0.1", with(func(c *Config) { c.ISL = 8192 }), []Transfer{{"", 65536 * 16, 65536, 256}}},
	} {
		_, f, _, err := figures(shipped(t, tt.model), tt.c)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(tt.want, f.Transfers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.what, diff)
		}
	}
}

// TestRoundsWhole is a case in which floating-point numbers give a block too
// many.
func TestRoundsWhole(t *testing.T) {
	c := Config{TP: 1, PP: 3, ModelQuant: "fp8", KVQuant: "fp8", Requests: 7, ISL: 12345, PageSize: 1, Access: accessBlock}
	f, _, _, err := figures(shipped(t, "deepseek-r1"), c)
	if err != nil || f.Transfers[0].BatchSize != 251015 {
		t.Errorf("%+v, %v; wanted 251015 blocks", f, err)
	}
}

// drawConfig makes a config that some system can have.
func drawConfig(t *rapid.T, a *model.Model) Config {
	number := func(name string, least, most int64) int64 { return rapid.Int64Range(least, most).Draw(t, name) }
	return Config{
		TP: number("tp", 1, a.Heads), PP: number("pp", 1, a.Layers),
		ModelQuant: rapid.SampledFrom(quantNames).Draw(t, "model quant"), KVQuant: rapid.SampledFrom(quantNames).Draw(t, "kv quant"),
		Requests: number("requests", 1, 1000), ISL: number("isl", 1, 200000), PageSize: number("page", 1, 1024),
		Access: rapid.SampledFrom([]string{accessBlock, accessLayer}).Draw(t, "access"),
	}
}

// TestBytes holds what is moved against the model's KV cache.
func TestBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(model.Names()).Draw(t, "model")
		a, _ := model.Shipped(name)
		c := drawConfig(t, a)
		kvbench, exact, why, err := figures(a, c)
		if err != nil {
			return // less than a byte for each rank, or more than 63 bits
		}
		if kvbench != nil { // it moves the cache of all requests, rounded up to a block
			total, io := kvbench.ISLBytes*c.Requests, kvbench.Transfers[0].IOSize
			if kvbench.Bytes < total || kvbench.Bytes-total >= io || kvbench.Bytes != io*kvbench.Transfers[0].BatchSize {
				t.Errorf("kvbench: %d bytes in blocks of %d for a cache of %d", kvbench.Bytes, io, total)
			}
			if len(why) == 0 && !cmp.Equal(*kvbench, exact) {
				t.Errorf("the accountings differ without a reason:\n%+v\n%+v", kvbench, exact)
			}
		}
		// exact moves on all GPUs together at least the whole cache, and on one no more than whole pages of its largest
		// stage, as its model's rank holds it.
		var sum int64
		for _, x := range exact.Transfers {
			sum += x.IOSize * x.BatchSize
		}
		need := (exact.ISLBytes + exact.StateBytes) * c.Requests
		if sum != exact.Bytes || times128(sum, c.TP*c.PP) < float64(need)*(1-1e-9) {
			t.Errorf("exact: %d bytes on each of %d GPUs for a cache of %d", sum, c.TP*c.PP, need)
		}
		rank := a.Rank(c.TP)
		var most int64
		for _, g := range rank.Groups {
			full := g.Keep
			full.Last = 0
			o := model.Options{}
			if o.DType, err = a.ParseDType(c.KVQuant); err != nil {
				t.Fatal(err)
			}
			entry, err := full.EntryBytes(o.DType)
			must.Do(t, err)
			pages := ceil64(c.ISL, c.PageSize) * c.PageSize
			most += (max(entry, 0)*pages + g.StateBytes(4)) * int64(len(g.Layers)) * c.Requests
		}
		if sum > most {
			t.Errorf("exact: %d bytes on a GPU, which can have %d", sum, most)
		}
	})
}

func times128(a, b int64) float64 { return float64(a) * float64(b) }

// Where no reason holds the accountings are equal; such configs are rare among
// random ones.
func TestEqualAccountings(t *testing.T) {
	for _, name := range model.Names() {
		a := shipped(t, name)
		for _, access := range []string{accessBlock, accessLayer} {
			for _, quant := range quantNames {
				c := Config{TP: 1, PP: 1, ModelQuant: quant, KVQuant: quant, Requests: 3, ISL: 1024, PageSize: 64, Access: access}
				kvbench, exact, why, err := figures(a, c)
				must.Do(t, err)
				if kvbench != nil && (len(why) == 0) != cmp.Equal(*kvbench, exact) {
					t.Errorf("%s, %s: %v\n%+v\n%+v", name, access, why, kvbench, exact)
				}
			}
		}
	}
}
