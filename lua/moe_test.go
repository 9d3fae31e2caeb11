package lua

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
)

// A scenario's options of a routing are those of moe.Options, with their types, bounds and defaults.
func TestExpertOptions(t *testing.T) {
	r := loadScript(t, `return { about = "x", options = { options.int { "iters", 3 }, unpack(moe.options()) }, run = print }`)
	var got []string
	for _, o := range r.Options[1:] {
		text := o.Name + " " + o.Type
		if o.Default != nil {
			text += fmt.Sprint(" ", o.Default)
		}
		if o.Min != nil {
			text += fmt.Sprint(" from ", *o.Min)
		}
		if o.Help == "" || strings.HasSuffix(o.Help, ".") {
			t.Errorf("help of %s: %q", o.Name, o.Help)
		}
		got = append(got, text)
	}
	const want = "hot number; hot-experts int from 1; exponent number; sigma number; imbalance number; loads path; " +
		"layer int from 0; matrix path; spread number; masked int 0 from 0; placement enum contiguous; " +
		"redundant int from 0; groups int from 1; nodes int from 1"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestCheckExpertOptions(t *testing.T) {
	for opt, want := range map[string]string{
		`{ routing = "khot", hot = 0.5, hot_experts = 4, masked = 3, placement = "contiguous" }`: "",
		`{ routing = "zipf", hot = 0.5 }`:                                         "--hot has no effect without --routing khot",
		`{ routing = "uniform", nodes = 2 }`:                                      "--nodes has no effect without --placement eplb",
		`{ routing = "loads" }`:                                                   "--routing loads needs --loads FILE",
		`{ routing = "loads", loads = "f", layer = 1 }`:                           "",
		`{ masked = "x", loads = 3, matrix = {} }`:                                "",
		`{ hot = 0/0, layer = "x", placement = 1/0 }`:                             "--hot has no effect",
		`{ routing = "uniform", placement = "eplb", loads = "f", redundant = 2 }`: "",
	} {
		_, err := Load("o.lua", "moe.check_options("+opt+") return { about = '', run = print }", &strings.Builder{})
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", opt, err, want)
		case err != nil && fault.KindOf(err) != fault.Usage:
			t.Errorf("%s: %v of the kind %v", opt, err, fault.KindOf(err))
		}
	}
}

func TestBufferSize(t *testing.T) {
	r, err := Load("b.lua", `assert(moe.buffer_size(128, 7168, 8, 288) == 2146964096)
		for _, n in ipairs { 2 ^ 53, 2 ^ 40 } do
			local ok, problem = pcall(moe.buffer_size, n, n, n, n)
			assert(not ok and tostring(problem):find("take 2^53 bytes or more", 1, true), tostring(problem))
		end
		return { run = print }`, io.Discard)
	must.Do(t, err)
	r.Close()
}

// The sizes of experts are those of a model, or those that are given, or else the defaults, as numbers or texts.
func TestSizesOfExperts(t *testing.T) {
	p := mustPlay(t, 2, body(`
		local texts, numbers = { hidden = "4096", experts_per_rank = "8", topk = "2", shared_experts = 0 }, { hidden = 1, experts_per_rank = 2, topk = 3 }
		local function check(opt, defaults, ...)
			local got = patterns.experts(opt, 4, defaults)
			for i, name in ipairs { "hidden", "experts_per_rank", "topk", "shared_experts", "tokens" } do
				local want = select(i, ...)
				assert(got[name] == want, string.format("%s is %s, want %s", name, tostring(got[name]), tostring(want)))
			end
		end
		check({ tokens = 5 }, texts, "4096", "8", "2", 0, 5)
		check({ hidden = "256, 512", shared_experts = 3 }, texts, "256, 512", "8", "2", 3, nil)
		check({ topk = 1, tokens = 5 }, numbers, 1, 2, 1, nil, 5)
		check({ model = "deepseek-ai/DeepSeek-V3", tokens = 5 }, texts, "7168", "64", "8", 1, 5)
		check({ model = "QWEN3-30b-a3b" }, texts, "2048", "32", "8", 0, nil)
		check({ model = "deepseek-v3" }, numbers, 7168, 64, 8, nil, nil)`))
	for _, want := range []string{
		"model deepseek-ai/DeepSeek-V3: hidden 7168, 256 experts, 64 on each of 4 ranks, topk 8, 1 shared\n",
		"model QWEN3-30b-a3b: hidden 2048, 128 experts, 32 on each of 4 ranks, topk 8\n",
		"64 on each of 4 ranks, topk 8; shared experts move no bytes here: the model has 1\n",
	} {
		if !strings.Contains(p.out[0], want) {
			t.Errorf("%q is not in %s", want, p.out[0])
		}
	}
	for call, want := range map[string]string{
		`{ model = "deepseek-v3" }, 3`:                       "--model deepseek-v3: 256 experts cannot be spread evenly over 3 ranks",
		`{ model = "deepseek-v3", experts_per_rank = 1 }, 4`: "--experts-per-rank: --model deepseek-v3 says that",
		`{ model = "llama3.1-8b" }, 4`:                       "the model llama3.1-8b: its file does not say how many experts",
		`{ model = "deepseek-v33" }, 4`:                      `there is no model "deepseek-v33"`,
	} {
		err := playWith(t, 1, body("patterns.experts("+call+", { hidden = 1, experts_per_rank = 2, topk = 3 })"), nil, func(*Env) {}).failed()
		if fault.KindOf(err) != fault.Usage || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// A plan is text or the file of one. Rank 0 gets each phase when it is over, and an error of its function ends the job.
func TestPlanFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.json")
	must.Do(t, os.WriteFile(path, []byte("[[0, 1], [0]]"), 0o600))
	const elastic = `moe.elastic { plan = plan, iterations = 2, warmup = 0, each = each, plane = { tokens = 4, hidden = 256, topk = 2, routing = { family = "distinct" } } }`
	p := mustPlay(t, 2, body(fmt.Sprintf(`
		assert(moe.plan("grow") == "grow" and moe.plan("0-1; 0") == "0-1; 0")
		local plan = moe.plan(%q)
		assert(plan == "0,1; 0" and moe.plan_ranks(plan) == 2, plan)
		local function each(phase, number)
			print("phase", number, #phase.present, phase.by_rank[1].gb_per_s > 0, phase.by_rank[2].gb_per_s > 0)
		end
		`, path)+elastic))
	if want := "phase\t1\t2\ttrue\ttrue\nphase\t2\t1\ttrue\tfalse\n"; !strings.HasSuffix(p.out[0], want) || strings.Contains(p.out[1], "phase") {
		t.Errorf("%q, want %q at the end of the first alone", p.out, want)
	}
	for code, want := range map[string]string{
		`moe.plan("x")`:             "phase 1 of the plan: wanted a rank",
		`moe.plan("/nowhere.json")`: "there is no such file",
		`local plan, each = "0-1; 0", function(phase) error("no more") end ` + elastic: "no more",
		`local plan, each = "0-1; 0", 5 ` + elastic:                                    "each: wanted a function, got 5",
	} {
		if err := playWith(t, 2, body(code), nil, func(*Env) {}).failed(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", code, err, want)
		}
	}
}

// A data plane that is closed has no memory: to use it is an error of the script, and touches none.
func TestClosedPlane(t *testing.T) {
	const open = `local plane = moe.open { tokens = 4, hidden = 256, topk = 2, routing = { family = "distinct" } }
		local plan = transfer.prepare { matrix = matrix.ring { bytes = 64 }, mem = "dram" }
		plane:close() plane:close()
		`
	for _, use := range []string{
		`plane:measure { mode = "dispatch", iterations = 2 }`, `plane:verify()`, `plane:verify { state = "dispatch" }`,
		`plane:beside { plan = plan, mode = "dispatch", iterations = 2, runs = 2 }`,
	} {
		err := playWith(t, 2, body(open+use), nil, func(*Env) {}).failed()
		if fault.KindOf(err) != fault.Script || !strings.Contains(fmt.Sprint(err), "the data plane is closed") {
			t.Errorf("%s: %v", use, err)
		}
	}
}

// Ranks that ask for different things would wait for messages that no rank sends, or measure what no rank meant.
func TestPlaneNotAlike(t *testing.T) {
	const open = `local one = world.rank == 1
		local spec = { tokens = 4, hidden = 256, topk = 2, routing = { family = "distinct" } }
		local plane = moe.open(spec)
		local plan = transfer.prepare { matrix = matrix.ring { bytes = 64 }, mem = "dram" }
		`
	for call, want := range map[string]string{
		`plane:measure { mode = "dispatch", iterations = one and 3 or 2 }`:         "dispatch, 2 iterations, 10 of warm-up, entry steady; rank 1 asks for plane 0, mode dispatch, 3 iterations",
		`plane:measure { mode = one and "dispatch" or "combine", iterations = 2 }`: "mode combine, 2 iterations, 10 of warm-up, entry steady; rank 1 asks for plane 0, mode dispatch",
		`plane:verify { arrived = one }`:                                           "arrived false",
		`plane:beside { plan = plan, iterations = 2, runs = one and 3 or 2 }`:      "2 runs; rank 1 asks for",
		`local other = transfer.prepare { matrix = matrix.ring { bytes = 64 }, mem = "dram" } plane:beside { plan = one and other or plan, iterations = 2, runs = 2 }`: "plan 0, ",
		`local more = moe.open(spec); (one and more or plane):verify()`:                                             "plane 0, sabotage",
		`moe.open { tokens = 4, hidden = 256, topk = 2, routing = { family = "distinct", seed = one and 5 or 6 } }`: "seed 6",
		`moe.control { rounds = one and 2 or 1, plane = spec }`:                                                     "1 rounds",
		`moe.elastic { plan = "0-1; 0", iterations = one and 3 or 2, plane = spec }`:                                "2 iterations",
		`moe.elastic { plan = one and "0-1; 0" or "0-1; 1", iterations = 2, plane = spec }`:                         `"0-1; 1"`,
	} {
		err := playWith(t, 2, body(open+call), nil, func(*Env) {}).failed()
		if fault.KindOf(err) != fault.Script || !strings.Contains(fmt.Sprint(err), ": rank 0 asks for ") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// The times of iterations become samples, but for the first.
func TestPlaneSamples(t *testing.T) {
	const open = `local plane = moe.open { tokens = 4, hidden = 256, topk = 2, routing = { family = "distinct" } }
		`
	script := func(calls string) string {
		return strings.Replace(body(open+calls), "return {", `return { metrics = { { "us" } },`, 1)
	}
	p := playScript(t, 2, script(`plane:measure { iterations = 4, metric = "us", labels = { a = 1 } }
		plane:measure { iterations = 9, record = false }
		plane:measure { iterations = 3, metric = "us", labels = { a = 3 } }`), nil)
	must.Do(t, p.failed())
	if m := p.doc.Metrics[0]; !slices.Equal(m.Labels, []int{0, 0, 0, 1, 1}) || m.LabelSets[1]["a"] != "3" {
		t.Errorf("%+v", m)
	}
	for call, want := range map[string]string{
		`plane:measure { metric = "other" }`:                   "plane:measure: the scenario declares no metric \"other\"",
		`plane:measure { metric = "us", labels = { a = {} } }`: "plane:measure: the label a is a table",
		`plane:measure { labels = { a = 1 } }`:                 "plane:measure: labels have no effect without a metric",
		`plane:measure { metric = "us", record = false }`:      "plane:measure: metric has no effect with record = false",
	} {
		if err := playScript(t, 1, script(call), nil).failed(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Dispatch and combine move between GPU memories, checked, and the notes and the result say what was measured.
func TestPlanesInGPUMemory(t *testing.T) {
	const script = `local spec = { tokens = 8, hidden = 256, topk = 2, mem = "vram", routing = { family = "distinct" } }
		for _ = 1, 2 do
			local plane = moe.open(spec)
			plane:verify()
			plane:measure { iterations = 2, warmup = 0 }
			plane:verify { state = "e2e" }
			plane:close()
		end
		moe.control { rounds = 1, plane = spec }
		moe.elastic { plan = "0-1; 1", iterations = 2, warmup = 0, plane = spec }`
	engine := traffictest.NewGPU()
	p := playWith(t, 2, body(script), nil, func(env *Env) {
		env.Open = func() (nixl.Engine, string, error) { return engine, "", nil }
		env.GPUs = func() ([]string, error) { return []string{fmt.Sprint("GPU-", env.World.Rank())}, nil }
	})
	must.Do(t, p.failed())
	if engine.Copied() == 0 {
		t.Error("nothing was in GPU memory")
	}
	if notes := strings.Join(p.doc.Notes, "\n"); strings.Count(notes, "posted by the host; no GPU kernels: ") != 1 ||
		!strings.Contains(notes, "each message written by itself") || !strings.Contains(notes, "registered in GPU memory") {
		t.Errorf("the notes are\n%s", notes)
	}
	for _, name := range []string{"ep", "ep_control", "ep_elastic"} {
		if mem := p.doc.Values[name].([]any)[0].(map[string]any)["mem"]; mem != "vram" {
			t.Errorf("%s: mem is %v", name, mem)
		}
	}
}

// Without a GPU for every rank, or with an engine that has no GPU memory, nothing is prepared.
func TestPlanesWithoutGPU(t *testing.T) {
	for _, call := range []string{
		`moe.open(spec)`, `moe.control { plane = spec }`, `moe.elastic { iterations = 2, plan = "0-1", plane = spec }`,
	} {
		script := body(`local spec = { tokens = 8, hidden = 256, topk = 2, mem = "cuda", routing = { family = "distinct" } } ` + call)
		engine := traffictest.NewGPU()
		p := playWith(t, 2, script, nil, func(env *Env) {
			env.Open = func() (nixl.Engine, string, error) { return engine, "", nil }
			env.GPUs = func() ([]string, error) { return []string{"GPU-0"}[env.World.Rank():], nil }
		})
		host := "?"
		if p.doc != nil {
			host = p.doc.World.Hosts[1].Name
		}
		want := fmt.Sprintf("memory type vram: rank 1 on %s has no GPU", host)
		if err := p.errs[1]; fault.KindOf(err) != fault.Resource || !strings.Contains(fmt.Sprint(err), want) || engine.Copied() != 0 {
			t.Errorf("%s: got %v, want %q, and nothing in GPU memory", call, err, want)
		}
		err := playWith(t, 2, script, nil, func(*Env) {}).failed()
		if fault.KindOf(err) != fault.Resource || !strings.Contains(fmt.Sprint(err), "the shm engine serves host memory only") {
			t.Errorf("%s with shm: %v", call, err)
		}
	}
	err := playScript(t, 1, body(`moe.open { mem = "disk" }`), nil).failed()
	if fault.KindOf(err) != fault.Usage || !strings.Contains(fmt.Sprint(err), `unknown memory type "disk"`) {
		t.Errorf("got %v", err)
	}
}

// Host memory is what is taken where nothing is said, also where there are GPUs, and says nothing of them.
func TestPlanesInHostMemory(t *testing.T) {
	var notes []string
	for _, mem := range []string{"", `mem = "dram",`} {
		engine := traffictest.NewGPU()
		p := playWith(t, 2, body(`local plane = moe.open { tokens = 8, hidden = 256, topk = 2, `+mem+` routing = { family = "distinct" } }
			plane:verify() plane:measure { iterations = 3 } plane:verify { state = "e2e" }`), nil, func(env *Env) {
			env.Open = func() (nixl.Engine, string, error) { return engine, "", nil }
			env.GPUs = func() ([]string, error) { return []string{"GPU-0"}, nil }
		})
		must.Do(t, p.failed())
		ep := p.doc.Values["ep"].([]any)[0].(map[string]any)
		shares := ep["shares"].(map[string]any)
		for _, name := range []string{"quantise", "stage", "own", "pack", "reduce"} {
			if v, _ := shares[name].(float64); v <= 0 {
				t.Errorf("%s is no part of an iteration: %v", name, shares)
			}
		}
		if _, has := ep["mem"]; has || ep["staged"] != true || engine.Copied() != 0 {
			t.Errorf("%v; %d copies of GPU memory", ep, engine.Copied())
		}
		notes = append(notes, strings.Join(p.doc.Notes, "\n"))
	}
	if notes[0] != notes[1] || strings.Contains(notes[0], "GPU") {
		t.Errorf("notes: %q", notes)
	}
}
