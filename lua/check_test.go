package lua

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Check finds names that nothing has, wherever they stand, and nothing else.
func TestCheck(t *testing.T) {
	project(t, map[string]string{
		"good.lua":   "shared = 1\nreturn { f = function() return shared, transfer.collect {} end }",
		"bad.lua":    "return { f = function()\nreturn transfr.collect {}\nend }",
		"syntax.lua": "\nlocal x = = 1",
		"unread.lua": "return tre",
	})
	in := func(run string) string { return "return { run = function(opt)\n" + run + "\nend }" }
	const note = "warning: %s is a global, which all files share; with local before it, it is this file's"
	for source, want := range map[string][]string{
		"local iters = 1 " + in("print(itres)"):                          {`s.lua:2: there is no variable itres; did you mean "iters"?`},
		in("transfr.collect {}"):                                         {`s.lua:2: there is no variable transfr; did you mean "transfer"?`},
		in("return transfer.prepair {}"):                                 {`s.lua:2: there is no transfer.prepair; did you mean "prepare"?`},
		in("print(world.sise, world.size)"):                              {`s.lua:2: there is no world.sise; did you mean "size"?`},
		in("local s = string.fromat"):                                    {`s.lua:2: there is no string.fromat; did you mean "format"?`},
		in("world:barier()"):                                             {`s.lua:2: there is no world.barier; did you mean "barrier"?`},
		"transfer.prepair {}":                                            {`s.lua:1: there is no transfer.prepair; did you mean "prepare"?`},
		"return {\nrun = print, rnaks = 2 }":                             {`s.lua: the scenario has an unknown field "rnaks"; it takes about, metrics, options, ranks, run, thresholds; did you mean "ranks"?` + "\n  hint: a scenario returns a table with about, options, ranks and run; see docs/lua.md"},
		"return { run = print, thresholds = { 'latency_ms.p99 << 4' } }": {`s.lua: thresholds[1]: threshold "latency_ms.p99 << 4": wanted`},
		"return { run = print, options = { options.int { 'a', 1 }, options.int { 'a', 1 } } }": {"s.lua: options: a is there twice"},
		"x = 1\nx = 2 " + in("return x, bench"):                                                {"s.lua:1: " + fmt.Sprintf(note, "x"), "s.lua:3: there is no variable bench"},
		"require 'bad' return {\nrun = 5 }":                                                    {"bad.lua:2: there is no variable transfr; did you mean \"transfer\"?", "s.lua: the scenario: run: wanted a function, got 5\n  hint: a scenario returns a table with about, options, ranks and run; see docs/lua.md"},
		in("require 'syntax'"):                                                                 {"syntax.lua:2: near '=': syntax error"},
		"require 'syntax' return {}":                                                           {"syntax.lua:2: near '=': syntax error"},
		"require 'gone' " + in(""):                                                             {"s.lua:1: there is no module gone: looked for gone.lua\n  hint: require \"lib.common\" loads lib/common.lua from the script's folder, or from one of --lib DIR"},
		"local x = (1":                                                                         {"s.lua: at EOF: syntax error"},
		"require 'good' " + in("return shared"):                                                {"good.lua:1: " + fmt.Sprintf(note, "shared")},
		// Options, lists, and what there is in a world only.
		"return { options = { options.int { 'size', 3 }, options.int { 'mem-type' } }, run = function(opt)\n" +
			"local f = function() return opt.mem_typ end return opt.size, opt.mem_type, opt.backend,\nopt.sice or 3\nend }": {
			`s.lua:2: the scenario has no option mem_typ; did you mean "mem_type"?`, `s.lua:3: the scenario has no option sice; did you mean "size"?`},
		in("opt.mine = 1 return opt.mine"):                                                                                  {},
		in("opt = opt or {} return opt.mine"):                                                                               {},
		"return { run = print, metrics = { my_x = { unit = 'GB/s' } } }":                                                    {"s.lua: metrics has the key my_x, want a list\n"},
		"return { run = print, options = { n = options.int { 'n', 3 } } }":                                                  {"s.lua: options has the key n, want a list\n"},
		"return { run = print, metrics = {\n{ 'a', unit = 1 } } }":                                                          {"s.lua: metrics: element 1: metric has an unknown field \"unit\""},
		"return { run = print, ranks = function()\nreturn world.size end }":                                                 {"s.lua:2: there is no world yet: only the function run has world.size"},
		"return { run = print, thresholds = function(opt)\nreturn { opt.limt } end, options = { options.string 'limit' } }": {"s.lua"},
		"print(world.size)": {"s.lua:1: there is no world yet: only the function run has world.size"},
		"return { run = print, ranks = function() return world and world.size or 4 end }": {},
		// Calls whose arguments stand in the text.
		in("local m = matrix.ring {} transfer.prepare { matrix = m, start = print(1) and 1,\nnam = 1 }"):               {`s.lua:2: transfer.prepare has an unknown field "nam"; it takes exchange, lane,`},
		in("transfer.prepare { exchange = { { from = 0, too = 1 } }, name = 'x' }"):                                    {`s.lua:2: transfer.prepare: element 1 of exchange has an unknown field "too"`},
		in("transfer.prepare_all { { matrix = 1 }, { matrx = 1 } }"):                                                   {`s.lua:2: transfer.prepare has an unknown field "matrx"`},
		in("transfer.lanes { peers = {}, blok = 1 }"):                                                                  {`s.lua:2: transfer.lanes has an unknown field "blok"`},
		in("result.table { title = 'x', colums = {} }"):                                                                {`s.lua:2: result.table has an unknown field "colums"`},
		in("result.table { title = 'x', rows = { { x = 1 } }, columns = { { 'a' }, { 'h', '%d', slent = true } } }"):   {`s.lua:2: result.table: column 2 has an unknown field "slent"; it takes silent; did you mean "silent"?`},
		in("result.sample('my', 1)"):                                                                                   {`s.lua:2: result.sample: the scenario declares no metric "my"`},
		"return { metrics = { { 'my' } }, run = function() result.sample('my', 1) result.sample(tostring(1), 2) end }": {},
		in("return os.time()"):    {"s.lua:2: there is no variable os; scripts have no os: clock.now()"},
		in("return io.open('x')"): {"s.lua:2: there is no variable io; scripts have no io: config.load"},
		// What is only asked for, what some file sets, what is local, and what the top level makes.
		in("local u = table.unpack or unpack if bench or not jit or debug == nil then return type(bit), type(transfer.mine) end"):          nil,
		in("function transfer.mine() end transfer.other = 1 function transfer:third() end transfer.mine() transfer:third(transfer.other)"): nil,
		in("local transfer = {} return transfer.prepair"):                                  nil,
		"setmetatable(_G, { __index = function() return 1 end }) " + in("return anything"): {"s.lua:1: warning: unknown variables are not looked for: _G may make any"},
	} {
		r, found := Check(&Library{Folders: []string{"."}}, "s.lua", source)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		var got []string
		for _, f := range found {
			got = append(got, f.Text)
		}
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s:\ngot  %q\nwant %q", source, got, want)
		}
	}
}
