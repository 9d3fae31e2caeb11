package lua

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/lua/vm"
	"perigee/scenarios"
)

// fuzzed is how long a fuzzed script runs: enough for every seed, and little enough for many executions.
const fuzzed = 50 * time.Millisecond

// tame bounds the library functions that take long without running a step of the script, which no context
// interrupts: long texts, and patterns that try many ways to match.
func tame(r *Runtime) {
	lib := state(r).GetGlobal(glua.StringLibName).(*glua.LTable)
	bound := func(name string, tooMuch func(L *glua.LState) bool) {
		f := lib.RawGetString(name).(*glua.LFunction)
		lib.RawSetString(name, state(r).NewFunction(func(L *glua.LState) int {
			if tooMuch(L) {
				L.RaiseError("too much for the fuzzer")
			}
			n := L.GetTop()
			L.Push(f)
			L.Insert(f, 1)
			L.Pop(1)
			L.Call(n, glua.MultRet)
			return L.GetTop()
		}))
	}
	bound("rep", func(L *glua.LState) bool { return L.OptInt(2, 0) > 10000 })
	for _, name := range []string{"find", "match", "gmatch", "gsub"} {
		bound(name, func(L *glua.LState) bool {
			return len(L.OptString(1, "")) > 1000 || strings.Count(L.OptString(2, ""), "*")+strings.Count(L.OptString(2, ""), "+")+strings.Count(L.OptString(2, ""), "-") > 2
		})
	}
	generators := state(r).GetGlobal("matrix").(*glua.LTable)
	for _, name := range []string{"new", "all_to_all", "ring", "incast", "outcast", "permutation", "random"} {
		generators.RawSetString(name, glua.LNil)
	}
}

// token is a part of a script that the fuzzer exchanges. Comments are left out.
var token = regexp.MustCompile(`--[^\n]*|[A-Za-z_]\w*|[0-9]+(?:\.[0-9]+)?|'[^'\n]*'|"[^"\n]*"|\.\.\.?|[=~<>]=|\S`)

func tokens(source string) []string {
	return slices.DeleteFunc(token.FindAllString(source, -1), func(s string) bool { return strings.HasPrefix(s, "--") })
}

// values and words are what the fuzzer puts into scripts: what the functions that read a description distinguish.
var (
	values = tokens(`{} nil true false 0 1 5 0.5 1e9 (0/0) '' 'x' 'a b' 'own' 'lower' '-1' 'latency_ms.p99 < 4' 'bw{size=4}.max > 1'
		'64K' print`)
	words = append(tokens(`{ } ( ) [ ] , ; = .. # == ~= < - * / ^ function end return local then if else do while for in not and or repeat until
		options int number size string bool enum path output storage about ranks run metrics thresholds better choices min max arg
		short name default help type threshold math abort table patterns size_options fields config setmetatable error pcall x n opt`), values...)
)

// isValue matches the tokens that stand for a value.
var isValue = regexp.MustCompile(`^(?:['"0-9].*|nil|true|false|print|function)$`)

// edit changes a script token by token, so that most of what comes out is still a script: four bytes say what to do,
// where, and with which word.
func edit(source string, edits []byte) string {
	if len(edits) < 4 {
		return source
	}
	list := tokens(source)
	for ; len(edits) >= 4 && len(list) > 0; edits = edits[4:] {
		at := (int(edits[1])<<8 | int(edits[2])) % len(list)
		word := words[int(edits[3])%len(words)]
		switch edits[0] % 8 {
		default: // the next value becomes another
			for range list {
				if isValue.MatchString(list[at]) {
					break
				}
				at = (at + 1) % len(list)
			}
			list[at] = values[int(edits[3])%len(values)]
		case 0:
			list[at] = word
		case 1:
			list = slices.Insert(list, at, word)
		case 2:
			list = slices.Delete(list, at, at+1)
		case 3:
			end := min(at+int(edits[3]%16), len(list))
			list = slices.Insert(list, at, slices.Clone(list[at:end])...)
		}
	}
	return strings.Join(list, " ")
}

// kitchen has everything that a description may have, and little else: most changes to it concern what reads it.
const kitchen = `threshold('own', 'p99 < 4', { abort = 2 }) threshold('latency_ms', 'max > 1', { abort = true })
	return { about = 'a b', ranks = function(opt) return opt.n end, run = print,
		metrics = { { 'own', 'h', better = 'lower' }, { 'plain' } },
		thresholds = function(opt) return { 'own{size=4}.max < ' .. opt.n, 'latency_ms.p99 < 4' } end,
		options = { options.int { 'n', 5, 'h', min = 1, max = 9, short = 'x' }, options.number { 'a', 0.5, 'h', min = 0 },
			options.size { 's', '64K', 'h', min = 1 }, options.string { 'str', 'x', 'h' }, options.bool { 'b', false, 'h' },
			options.enum { 'e', 'a', 'h', choices = { 'a', 'b' } }, options.path { 'p', nil, 'h' }, options.output { 'o', 'x', 'h' },
			options.storage { name = 'st', default = 'x', help = 'h' }, options.int { 'arg', 1, 'h', arg = true } } }`

// Whatever a script's text is, loading it ends soon, with a description that makes a command line or with an error
// that says what is wrong with the script. Nothing is skipped.
func FuzzLoad(f *testing.F) {
	_, shipped, _ := scenarios.Source("ct_perftest")
	for _, source := range []string{
		shipped,
		kitchen,
		"return { run = print }",
		"return { about = 'x', options = { options.int { 'n', 5, 'help', min = 1, short = 'x' } }, ranks = 2, run = print }",
		"return { options = { options.enum { 'e', 'a', 'h', choices = { 'a', 'b' } }, options.path { 'p', arg = true } }, run = print }",
		"threshold('own', 'p99 < 4', { abort = 2 }) return { metrics = { { 'own', 'h', better = 'lower' } }, run = print }",
		"return { metrics = { { 'bw' } }, thresholds = function(o) return { 'bw{size=4}.max < ' .. o.n } end, options = { options.number { 'n', 2 } }, run = print }",
		"return { thresholds = { 'latency_ms.p99 < 1' }, ranks = function(o) return #o end, run = print }",
		"x = = 1", "return", "return {", "while true do end", "error({})",
		"local f = function(f) return f(f) end f(f)", "local t = {} for i = 1, 1e9 do t[i] = {} end",
		"coroutine.wrap(function() while true do coroutine.yield() end end)()", "return setmetatable({}, { __index = function(t, k) return t[k] end })",
		"local co co = coroutine.wrap(function() co() end) co()", "return (loadstring('return ' .. ('('):rep(900)))", "local x = " + strings.Repeat("{", 900) + strings.Repeat("}", 900),
		"return { run = print, options = { options.size { 'size', '64K', 'h', max = 1e9 }, options.bool { 'b', false } } }",
		"return { run = print, options = { options.enum { 'mode', 'a', 'h', choices = { 'a', '$(touch${IFS}x)', '`x`', '\x1b]0;x\a' } } } }",
		strings.Repeat("#", 2000), "return " + strings.Repeat("not ", 2000) + "1", strings.Repeat("{", 2000), strings.Repeat("local function f() ", 300),
		"local function f(n) return coroutine.wrap(function() return f(n + 1) end)() end f(0)", "return { run = print, ranks = 9223372036854775807 }",
		"return { run = print, ranks = function() return config.load('/etc/hostname') end }", "matrix.load('/etc/hostname')",
		"pcall(function() while true do end end) return { run = print }", "print(('%d'):format(3)) return { about = ('x'):rep(9), run = print }",
	} {
		f.Add(source, []byte{})
		f.Add(source, []byte{7, 0, 5, 3, 7, 0, 90, 9})
	}
	f.Fuzz(func(t *testing.T, source string, edits []byte) {
		loads(t, edit(source, edits))
		if len(edits) >= 4 {
			loads(t, edit(kitchen, edits))
		}
	})
}

// loads loads a script and makes use of what it says of itself.
func loads(t *testing.T, source string) {
	r := New(io.Discard)
	defer r.Close()
	tame(r)
	ctx, cancel := context.WithTimeout(t.Context(), fuzzed)
	defer cancel()
	state(r).SetContext(ctx)
	began := time.Now()
	_, _ = vm.UsesOf("f.lua", source)
	err := r.load(&Library{Closed: true}, "f.lua", source)
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("it took %v", took)
	}
	if err == nil {
		err = describes(r)
	}
	if kind := fault.KindOf(err); err != nil && kind != fault.Script && kind != fault.Usage {
		t.Errorf("%v of kind %v:\n%s", err, kind, source)
	}
}

// The module patterns opens also where a script's time is over: on a loaded machine that takes longer than the script.
func TestPatternsOpenInNoTime(t *testing.T) {
	r := New(io.Discard)
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	state(r).SetContext(ctx)
	err := r.load(&Library{Closed: true}, "f.lua", "return { run = patterns.prepare }")
	if err == nil || err.Error() != "f.lua:1: context canceled" {
		t.Errorf("got %v, want that the time of the script is over", err)
	}
}

// describes makes use of what a script says of itself, as the launcher does.
func describes(r *Runtime) error {
	grammar := r.Grammar()
	k, err := cli.Parser(grammar, kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
	if err != nil {
		return fault.New(fault.Script, "options: %w", err)
	}
	if _, err := k.Parse([]string{"--help"}); err != nil && fault.KindOf(err) == fault.Internal {
		var parse *kong.ParseError
		if !errors.As(err, &parse) {
			return err
		}
	}
	var args []string
	for _, o := range r.Options {
		if o.Arg {
			args = append(args, "1")
		}
	}
	if _, err := k.Parse(args); err != nil {
		return nil // an argument without a default behind one that has one, for instance
	}
	options, _, err := r.Values(grammar)
	if err != nil {
		return err
	}
	again, err := r.Restore(options, true)
	if err != nil {
		return fault.New(fault.Internal, "the options %v are not read again: %w", options, err)
	}
	_, err = r.Limits(again)
	return err
}
