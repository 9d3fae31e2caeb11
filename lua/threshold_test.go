package lua

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/matrix"
)

func TestThresholds(t *testing.T) {
	r := loadScript(t, `
		threshold("latency_ms", "p99 < 40")
		threshold('own{phase="x"}', "max <= 1e3", { abort = true })
		threshold("own", "mean > 2 abort after 7")
		threshold("own", "mean > 2 abort", { abort = 3 })
		threshold("own", "mean > 2 abort", { abort = false })
		return { metrics = { { "own", "my own", better = "higher" }, { "plain" } }, run = print }`)
	var got []string
	for _, th := range r.Thresholds {
		got = append(got, th.From+" "+th.String())
	}
	want := []string{
		"o.lua:2 latency_ms.p99 < 40", `o.lua:3 own{phase="x"}.max <= 1000 abort`, "o.lua:4 own.mean > 2 abort after 7",
		"o.lua:5 own.mean > 2 abort after 3", "o.lua:6 own.mean > 2",
	}
	must.Equal(t, want, got)
	must.Equal(t, []result.MetricDef{{Name: "own", Help: "my own", Better: "higher"}, {Name: "plain"}}, r.Metrics)
}

func TestThresholdsAreRefused(t *testing.T) {
	for script, want := range map[string]string{
		`threshold("latency_ms", "p99 40")`:                                   `test.lua:1: threshold "latency_ms.p99 40": wanted <, <=`,
		`threshold("latency_ms")`:                                             "test.lua:1: ",
		`for _ = 1, 1001 do threshold("latency_ms", "p99 < 1") end`:           "test.lua:1: threshold: want at most 1000 thresholds, got more",
		`threshold("latncy_ms", "max < 1")`:                                   `test.lua:1: there is no metric "latncy_ms"; did you mean "latency_ms"?`,
		`threshold("own", "max < 1", { abort = "yes" })`:                      "test.lua:1: threshold: abort: wanted",
		`threshold("own", "max < 1", { abort = 0 })`:                          "test.lua:1: threshold: abort: wanted",
		`threshold("own", "max < 1", { aboard = true })`:                      `unknown field "aboard"`,
		`return { run = print, metrics = { "own" } }`:                         "metrics: element 1: wanted",
		`return { run = print, metrics = { { "o w n" } } }`:                   "metrics: element 1: the name is",
		`return { run = print, metrics = { { 7 } } }`:                         "metrics: element 1: the name is",
		`return { run = print, metrics = { { "a" }, { "a" } } }`:              "metrics: a is there twice",
		`return { run = print, metrics = { { "slowdown" } } }`:                "slowdown is the name of a metric of every run",
		`return { run = print, metrics = { { "a", "", better = "big" } } }`:   `better is "big", want lower or higher`,
		`return { run = print, metrics = { { "a", "", bitter = "lower" } } }`: `unknown field "bitter"`,
		`return { run = print, metrics = 5 }`:                                 "metrics",
	} {
		if !strings.Contains(script, "return") {
			script += ` return { run = print, metrics = { { "own" } } }`
		}
		r, err := Load("test.lua", script, io.Discard)
		if err == nil {
			r.Close()
		}
		must.Fail(t, err, fault.Script, want)
	}
	p := playScript(t, 1, body(`threshold("latency_ms", "max < 1")`), nil)
	if err := p.failed(); err == nil || !strings.Contains(err.Error(), "top level") {
		t.Errorf("in run: %v", err)
	}
}

const sampling = `return { metrics = { { "own" } }, run = function()
	for i = 1, 4 do result.sample("own", i / 2) end
end }`

func TestSamples(t *testing.T) {
	p := mustPlay(t, 2, sampling)
	must.Equal(t, []float64{0.5, 1, 1.5, 2}, p.doc.Metrics[0].Values)
	for statement, want := range map[string]string{
		`result.sample("other", 1)`: `declares no metric "other"`,
		`result.sample("own", 0/0)`: "want a finite number",
		`result.sample("own", 1/0)`: "want a finite number",
		`result.sample("own", "x")`: "number expected",
		`result.sample("own")`:      "number expected",
	} {
		p := playScript(t, 2, `return { metrics = { { "own" } }, run = function() `+statement+` end }`, nil)
		if err := p.failed(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", statement, err, want)
		}
	}
}

// What looks at the samples can end the job, even where the script catches errors.
func TestSampledEndsTheJob(t *testing.T) {
	for _, statement := range []string{
		`pcall(result.sample, "own", 1) world.barrier()`,
		`local plan = transfer.prepare { matrix = matrix.ring { bytes = 1 } } plan:run() pcall(transfer.collect, { plan }) world.barrier()`,
	} {
		source := `threshold("own", "max < 1", { abort = true }) threshold("latency_ms", "max < 0", { abort = true })
			return { metrics = { { "own" } }, run = function() ` + statement + ` end }`
		for _, err := range playScript(t, 2, source, nil).errs {
			must.Fail(t, err, fault.Threshold, "the threshold ")
		}
	}
}

// A run that repeats another finds its files in the result of that one.
func TestRepeatReadsNoFiles(t *testing.T) {
	const source = `return { run = function()
		local c = config.load("gone.yaml")
		local m = matrix.load(c.file)
		result.set("total", m:total() + c.more)
	end }`
	p := playScript(t, 1, source, nil)
	if fault.KindOf(p.failed()) != fault.Input {
		t.Fatalf("without the files: %v", p.failed())
	}
	old := testDocument(t)
	p = playWith(t, 2, source, nil, func(env *Env) {
		if env.Doc != nil {
			env.Repeat = old
		}
	})
	if p.failed() != nil || p.doc.Values["total"] != int64(47) {
		t.Errorf("got %v, %v", p.doc.Values, p.failed())
	}
	// It holds them in turn.
	must.Equal(t, old.Inputs, p.doc.Inputs)
	old.Inputs[0].Text = "file: other.txt"
	p = playWith(t, 1, source, nil, func(env *Env) { env.Repeat = old })
	must.Fail(t, p.failed(), fault.Input, "SHA-256")
}

// A result that another user has made does not say which files may be written.
func TestRepeatDoesNotOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precious")
	source := `return {
		options = { options.storage { "path" } },
		run = function(opt)
			transfer.lanes { peers = { [0] = { 0 } }, block = 4096, remote_mem = "file", path = opt.path, overwrite = true }:close()
		end,
	}`
	for _, c := range []struct {
		repeat, allowed bool
		want            string
	}{{false, false, ""}, {true, true, ""}, {true, false, "the run that is repeated may write over " + path}} {
		p := playAs(t, 1, source, Access{AllowIO: c.allowed, Named: map[string]any{"path": path}}, func(env *Env) {
			if c.repeat {
				env.Repeat = testDocument(t)
			}
		})
		if err := p.failed(); c.want == "" && err != nil || c.want != "" && (fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func testDocument(t *testing.T) *result.Document {
	t.Helper()
	d := result.New(nil, result.Scenario{}, 0, result.World{Size: 1})
	d.AddText("gone.yaml", []byte("file: away/m.txt\nmore: 5\n"))
	m, err := matrix.FromRows([][]int64{{0, 42}, {0, 0}})
	must.Do(t, err)
	d.AddMatrixFile("away/m.txt", "m.txt", m)
	return d
}

func TestRestoreOptions(t *testing.T) {
	r := loadScript(t, `return { run = print, options = {
		options.int { "n", 1, "" }, options.size { "size", "4K", "" }, options.number { "x", 2, "" }, options.bool { "on", false, "" },
		options.output { "out", nil, "" }, options.path { "config", nil, "", arg = true }, options.enum { "op", nil, "", choices = { "A", "B" } },
	} }`)
	want := map[string]any{"n": int64(3), "size": int64(8192), "x": 2.5, "on": true, "config": "c.yaml"}
	for _, outputs := range []bool{false, true} {
		if outputs {
			want["out"] = "precious"
		}
		got, err := r.Restore(map[string]any{"n": 3.0, "size": 8192.0, "x": 2.5, "on": true, "out": "precious", "config": "c.yaml"}, outputs)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v: %s", err, diff)
		}
	}
	for _, bad := range []map[string]any{{"n": 3.5}, {"n": "3"}, {"other": 1.0}, {"op": "C"}, {"on": 1.0}, {"size": -1.0}, {"config": nil}} {
		if got, err := r.Restore(bad, false); fault.KindOf(err) != fault.Input {
			t.Errorf("%v: got %v, %v", bad, got, err)
		}
	}
}

// Labels of samples stand in the result, and thresholds select by them.
func TestLabels(t *testing.T) {
	p := playScript(t, 2, `return {
		metrics = { { "bw" } },
		options = { options.number { "least", 2 } },
		thresholds = function(opt) return { "bw{size=4K}.max > " .. opt.least, 'bw{dir="up"}.count == 1', "bw{size=8}.min > 0" } end,
		run = function()
			result.sample("bw", 1)
			for i = 1, 2 do
				result.sample("bw", 2 * i, { size = 4096, dir = i == 1 and "up" or "down", last = i == 2 })
			end
			result.sample("bw", 7, { dir = "down", last = true, size = 2 ^ 12 })
		end }`, nil)
	must.Do(t, p.failed())
	m := p.doc.Metrics[0]
	want := []result.Labels{{"size": "4096", "dir": "up", "last": "false"}, {"size": "4096", "dir": "down", "last": "true"}}
	must.Equal(t, want, m.LabelSets)
	must.Equal(t, []int{-1, 0, 1, 1}, m.Labels)
	r := loadScript(t, `return { metrics = { { "bw" } }, options = { options.number { "least", 2 } }, run = print,
		thresholds = function(opt) return { "bw{size=4K}.max > " .. opt.least, 'bw{dir="up"}.count == 1', "bw{size=8}.min > 0",
			'bw{way="up"}.count == 0', 'bw{dir="left"}.count == 0', 'bw{way="up" || phase="x"}.count < 1' } end }`)
	limits, err := r.Limits(map[string]any{"least": 6.5})
	if err != nil || len(limits) != 6 {
		t.Fatal(limits, err)
	}
	var got []string
	for _, l := range limits {
		got = append(got, l.From+" "+l.Judge(p.doc).String())
	}
	const others = `, only with {dir="up", last="false", size=4096}, {dir="down", last="true", size=4096}`
	if d := cmp.Diff([]string{
		"o.lua: thresholds[1] bw{size=4096}.max > 6.5: it is 7 over 3 samples", `o.lua: thresholds[2] bw{dir="up"}.count == 1: it is 1 over 1 sample`,
		"o.lua: thresholds[3] bw{size=8}.min > 0: there are no samples with these labels" + others,
		`o.lua: thresholds[4] bw{way="up"}.count == 0: there are no samples with the label way` + others,
		`o.lua: thresholds[5] bw{dir="left"}.count == 0: it is 0 over 0 samples`,
		`o.lua: thresholds[6] bw{way="up" || phase="x"}.count < 1: there are no samples with the label way` + others,
	}, got); d != "" {
		t.Error(d)
	}
}

// Names that results do not take are refused before anything is measured under them.
func TestLongNamesAreRefused(t *testing.T) {
	for statement, want := range map[string]string{
		`world.phase(long)`: "world.phase has 513 bytes, want at most 512",
		`result.table { columns = { { "a" }, { long } }, rows = {} }`:                "result.table: the name of column 2 has 513 bytes",
		`result.progress(1, long)`:                                                   "result.progress: the label has 513 bytes, want at most 512",
		`transfer.prepare { name = long, matrix = matrix.all_to_all { bytes = 8 } }`: "transfer.prepare: name has 513 bytes",
	} {
		p := playScript(t, 1, `local long = string.rep("x", 513) return { run = function() `+statement+` end }`, nil)
		must.Fail(t, p.failed(), fault.Script, want)
	}
	_, err := Load("o.lua", "return { run = print, metrics = { { string.rep('x', 513) } } }", io.Discard)
	must.Fail(t, err, fault.Script, "want at most 512 letters")
}

func TestLabelsAreRefused(t *testing.T) {
	for statement, want := range map[string]string{
		`result.sample("own", 1, 2)`:                                                   "table expected, got number",
		`result.sample("own", 1, { 5 })`:                                               `the label "1": want at most 512 letters`,
		`result.sample("own", 1, { rank = 2 })`:                                        "the label rank: the name is taken",
		`result.sample("own", 1, { a = {} })`:                                          "the label a is a table, want a string, a number or a boolean",
		`result.sample("own", 1, { a = '"' })`:                                         "of UTF-8 without quotes and control characters",
		`result.sample("own", 1, { [string.rep("a", 513)] = 1 })`:                      "want at most 512 letters",
		`local t = {} for i = 1, 65 do t["k" .. i] = 1 end result.sample("own", 1, t)`: "a sample has 65 labels, want at most 64",
		`for i = 1, 1025 do result.sample("own", 1, { a = i }) end`:                    "the sample {a=1025} has the 1025th different labels, want at most 1024",
		`for i = 1, 255 do result.sample("own", 1, { ["k" .. i] = i }) end result.sample("own", 1, { a = 1, b = 1 })`: "metric own: the sample {a=1, b=1}: labels have more than 256 different keys",
	} {
		p := playScript(t, 1, `return { metrics = { { "own" } }, run = function() `+statement+` end }`, nil)
		must.Fail(t, p.failed(), fault.Script, want)
	}
	for script, want := range map[string]string{
		`thresholds = 5`:                                          "thresholds: wanted a list or a function, got 5",
		`thresholds = function() return 5 end`:                    "o.lua: thresholds is 5, want a list of texts",
		`thresholds = { bw = "latency_ms.p99 < 1" }`:              "o.lua: thresholds has the key bw, want a list of texts",
		`thresholds = { [0] = "latency_ms.p99 < 1" }`:             "o.lua: thresholds has the key 0, want a list of texts",
		`thresholds = { 5 }`:                                      `o.lua: thresholds[1] is 5, want a text such as "latency_ms.p99 < 40"`,
		`thresholds = { "latency_ms.p99 < 1", "latncy.p99 < 1" }`: `o.lua: thresholds[2]: threshold "latncy.p99 < 1": there is no metric "latncy"`,
		`thresholds = function() error("no") end`:                 "no",
		`thresholds = function() local t = {} for i = 1, 1001 do t[i] = "latency_ms.p99 < 1" end return t end`: "o.lua: thresholds has 1001 texts, want at most 1000",
	} {
		r, err := Load("o.lua", "return { run = print, "+script+" }", io.Discard)
		if err == nil {
			_, err = r.Limits(nil)
			r.Close()
		}
		must.Fail(t, err, fault.Script, want)
	}
}
