package lua

import (
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/must"
	"perigee/internal/traffic/traffictest"
	results "perigee/lua/modules/result"
	"perigee/lua/modules/transfer"
	"perigee/spmd"
)

// stub is what the files in meta say of one module or class.
type stub struct{ functions, fields []string }

var (
	stubClass    = regexp.MustCompile(`^---@class (\w+)`)
	stubField    = regexp.MustCompile(`^---@field (\w+)\??\s+\S+`)
	stubFunction = regexp.MustCompile(`^function (\w+)[.:](\w+)\((.*)\) end$`)
	stubGlobal   = regexp.MustCompile(`^function (\w+)(\()(.*)\) end$`)
	stubParam    = regexp.MustCompile(`^---@param (\w+)\??\s+\S+`)
)

// globals is the name under which functions of no module stand.
const globals = "_G"

// readStubs parses all files in meta, and complains about functions that are
// not described or whose arguments are not.
func readStubs(t *testing.T) map[string]*stub {
	t.Helper()
	files, err := filepath.Glob("meta/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stubs: %v", err)
	}
	stubs := map[string]*stub{}
	of := func(name string) *stub {
		if stubs[name] == nil {
			stubs[name] = &stub{}
		}
		return stubs[name]
	}
	for _, file := range files {
		data := must.Read(t, file)
		lines := strings.Split(string(data), "\n")
		if lines[0] != "---@meta" {
			t.Errorf("%s does not begin with ---@meta", file)
		}
		class, described := "", false
		var params []string
		for i, line := range lines {
			switch {
			case stubClass.MatchString(line):
				class = stubClass.FindStringSubmatch(line)[1]
				of(class)
			case stubField.MatchString(line):
				s := of(class)
				s.fields = append(s.fields, stubField.FindStringSubmatch(line)[1])
			case stubParam.MatchString(line):
				params = append(params, stubParam.FindStringSubmatch(line)[1])
			case strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "---@"):
				described = true
			case stubFunction.MatchString(line), stubGlobal.MatchString(line):
				m := stubFunction.FindStringSubmatch(line)
				if m == nil { // a function of no module
					m = stubGlobal.FindStringSubmatch(line)
					m[1], m[2] = globals, m[1]
				}
				s := of(m[1])
				s.functions = append(s.functions, m[2])
				if !described {
					t.Errorf("%s:%d: %s is not described", file, i+1, m[2])
				}
				if got := strings.Join(params, ", "); got != m[3] {
					t.Errorf("%s:%d: %s has the arguments (%s), described are (%s)", file, i+1, m[2], m[3], got)
				}
			case strings.HasPrefix(line, "function"):
				t.Errorf("%s:%d: cannot be read: %s", file, i+1, line)
			}
			if line == "" {
				class, described, params = "", false, nil
			}
		}
		// An editor reads them as Lua.
		L := glua.NewState()
		if _, err := L.Load(strings.NewReader(string(data)), file); err != nil {
			t.Error(err)
		}
		L.Close()
	}
	return stubs
}

// Stubs and functions are the same, both ways.
func TestStubs(t *testing.T) {
	stubs := readStubs(t)
	r := loadScript(t, "return { run = print } -- patterns")
	traffictest.Worlds(t, 1, func(w *spmd.World) error {
		r.Begin(testEnv(w, io.Discard))
		return nil
	})
	want := map[string]*stub{
		globals:       {functions: []string{"threshold"}},
		"Matrix":      {functions: keysOf(methodsOf(r, "perigee.matrix"))},
		"Plan":        {functions: keysOf(methodsOf(r, "perigee.plan"))},
		"Lanes":       {functions: keysOf(methodsOf(r, "perigee.lanes"))},
		"ProgressBar": {functions: keysOf(methodsOf(r, "perigee.progress"))},
		"Replay":      {functions: keysOf(methodsOf(r, "perigee.replay")), fields: []string{"bytes", "requests", "seconds", "transfers"}},
		"OptionSpec":  {fields: []string{"aliases", "arg", "choices", "default", "help", "hidden", "instead_of", "max", "min", "name", "original", "short"}},
	}
	if state(r).GetGlobal("threshold").Type() != glua.LTFunction {
		t.Error("threshold is no function")
	}
	modules := append(moduleNames(), "patterns")
	for _, module := range modules {
		s := &stub{}
		state(r).GetGlobal(module).(*glua.LTable).ForEach(func(k, v glua.LValue) {
			if v.Type() == glua.LTFunction {
				s.functions = append(s.functions, k.String())
			} else {
				s.fields = append(s.fields, k.String())
			}
		})
		want[module] = s
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		got := stubs[name]
		if got == nil {
			t.Errorf("no stub for %s", name)
			continue
		}
		if name == "Plan" {
			want[name].fields = got.fields // a test of the module transfer compares them
		}
		for _, s := range []*stub{got, want[name]} {
			slices.Sort(s.functions)
			slices.Sort(s.fields)
		}
		if d := cmp.Diff(want[name], got, cmp.AllowUnexported(stub{})); d != "" {
			t.Errorf("%s (-Go +stub):\n%s", name, d)
		}
	}
}

// What tables that go to and from scripts hold is what the stubs say.
func TestStubsOfTables(t *testing.T) {
	stubs := readStubs(t)
	p := mustPlay(t, 2, body(`
		local plan = transfer.prepare { matrix = matrix.ring { bytes = 1 } }
		world.phase("isolated")
		world.barrier()
		plan:fill(1)
		plan:run()
		local collected = transfer.collect { plan }
		local function keys(t) local list = {} for k in pairs(t) do list[#list + 1] = k end table.sort(list) return list end
		if collected then
			result.set("Collected", keys(collected[1]))
			result.set("Run", keys(collected[1].runs[1]))
		end
		local lanes = transfer.lanes { peers = { [0] = { 0 } }, block = 1 }
		local measured = lanes:measure { block = 1 }
		if measured then
			result.set("Measured", keys(measured))
			result.set("Durations", keys(measured.latency))
		end`))
	for _, name := range []string{"Collected", "Run", "Measured", "Durations"} {
		var got []string
		for _, k := range p.doc.Values[name].([]any) {
			got = append(got, k.(string))
		}
		slices.Sort(stubs[name].fields)
		if d := cmp.Diff(stubs[name].fields, got); d != "" {
			t.Errorf("%s (-stub +Lua):\n%s", name, d)
		}
	}
	// So are the fields that functions take, and what is known of them without a run.
	for name, known := range map[string][]string{"TransferSpec": transfer.Takes["prepare"],
		"ExchangeMessage": transfer.Takes["exchange"], "LanesSpec": transfer.Takes["lanes"]} {
		if slices.Sort(stubs[name].fields); !slices.Equal(known, stubs[name].fields) {
			t.Errorf("%s: known are %q, the stub has %q", name, known, stubs[name].fields)
		}
	}
	for call, known := range map[string][]string{
		`result.table { unknown = 1 }`:                                   results.TableTakes,
		`result.table { columns = { { "a", unknown = 1 } }, rows = {} }`: append([]string{"1", "2"}, results.ColumnTakes...),
	} {
		want := "it takes " + strings.Join(known, ", ")
		if err := playScript(t, 1, body(call), nil).failed(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want it to end in: %s", call, err, want)
		}
	}
	for name, call := range map[string]string{
		"TransferSpec":    `transfer.prepare { matrix = matrix.new(1), unknown = 1 }`,
		"ExchangeMessage": `transfer.prepare { exchange = { { from = 0, to = 0, bytes = 1, unknown = 1 } } }`,
		"LanesSpec":       `transfer.lanes { unknown = 1 }`,
		"ReplaySpec":      `replay.open { unknown = 1 }`,
		"LanesCase":       `transfer.lanes { peers = { [0] = { 0 } }, block = 1 }:measure { unknown = 1 }`,
	} {
		p = playScript(t, 1, body(call), nil)
		slices.Sort(stubs[name].fields)
		if want := "it takes " + strings.Join(stubs[name].fields, ", "); p.failed() == nil || !strings.HasSuffix(p.failed().Error(), want) {
			t.Errorf("%s: got %v, want it to end in: %s", name, p.failed(), want)
		}
	}
}
