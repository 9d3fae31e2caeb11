package lua

import (
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/lua/option"
)

const optionsScript = `return {
	about = "x",
	options = {
		options.path { "config", nil, "the file", arg = true },
		options.int { "n", 5, "a number", min = 1, max = 9 },
		options.number { "x", 0.5 },
		options.size { "size", "64K" },
		options.string { "text" },
		options.bool { "on", true },
		options.bool { "off" },
		options.enum { "mem-type", nil, "memory", choices = { "dram", "vram" } },
		options.output { "json-output-path" },
		options.int { name = "named", default = 3, help = "with names" },
	},
	run = print,
}`

func loadScript(t testing.TB, source string) *Runtime {
	t.Helper()
	r, err := Load("o.lua", source, io.Discard)
	must.Do(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// parseOptions reads a command line as the command does.
func parseOptions(s Scenario, out io.Writer, args ...string) (values map[string]any, err error) {
	values, _, err = parseNamed(s, out, args...)
	return values, err
}

func parseNamed(s Scenario, out io.Writer, args ...string) (values, named map[string]any, err error) {
	grammar := s.Grammar()
	k, err := kong.New(grammar, kong.Name("test"), kong.Writers(out, out), kong.Exit(func(int) {}))
	if err != nil {
		return nil, nil, err
	}
	if _, err := k.Parse(args); err != nil {
		return nil, nil, err
	}
	return s.Values(grammar)
}

func TestOptions(t *testing.T) {
	r := loadScript(t, optionsScript)
	defaults := func(more ...any) map[string]any {
		m := map[string]any{"config": "c.yaml", "n": int64(5), "x": 0.5, "size": int64(65536), "on": true, "named": int64(3)}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	for args, want := range map[string]map[string]any{
		"c.yaml":                 defaults(),
		"c.yaml --n 9":           defaults("n", int64(9)),
		"--size=1.5K c.yaml":     defaults("size", int64(1536)),
		"c.yaml --x 2":           defaults("x", 2.0),
		"c.yaml --text ":         defaults("text", ""),
		"c.yaml --no-on --off":   defaults("on", false, "off", true),
		"c.yaml --mem-type=VRAM": defaults("mem_type", "vram"),
		"c.yaml --json-output-path o.json --named 7": defaults("json_output_path", "o.json", "named", int64(7)),
	} {
		got, err := parseOptions(r.Scenario, io.Discard, strings.Split(args, " ")...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", args, d)
		}
	}
	_, named, err := parseNamed(r.Scenario, io.Discard, "c.yaml", "--n", "5", "--size=65536")
	if want := map[string]any{"config": "c.yaml", "n": int64(5), "size": int64(65536)}; err != nil || !maps.Equal(want, named) {
		t.Errorf("what equals its default is given all the same: got %v, %v", named, err)
	}
	for args, want := range map[string]string{
		"c.yaml --n 0":                    "--n: wanted a whole number from 1 to 9, got 0",
		"c.yaml --n 10":                   "--n: wanted a whole number from 1 to 9, got 10",
		"c.yaml --n 1.5":                  "--n: wanted a whole number from 1 to 9, got \"1.5\"",
		"c.yaml --named 9007199254740993": "--named: wanted a number below 2^53, got 9007199254740993: Lua cannot hold all larger ones exactly",
		"c.yaml --size 8388608G":          "--size: wanted a number below 2^53, got 9007199254740992: Lua cannot hold all larger ones exactly",
		"c.yaml --n x":                    "--n: wanted a whole number from 1 to 9, got \"x\"",
		"c.yaml --x NaN":                  "--x: wanted a number, got NaN",
		"c.yaml --x Inf":                  "--x: wanted a number, got Inf",
		"c.yaml --size 12Q":               `--size: wanted a size in bytes, such as 4096, 64K or 1.5G, got "12Q"`,
		"c.yaml --mem-type=hbm":           "--mem-type: wanted one of dram, vram, got \"hbm\"",
		"c.yaml --json-output-path=":      "--json-output-path: wanted a name, got nothing",
	} {
		_, err := parseOptions(r.Scenario, io.Discard, strings.Split(args, " ")...)
		if err == nil || err.Error() != want || fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
	for flag, path := range r.Outputs(map[string]any{"json_output_path": "a.json", "config": "b"}) {
		if flag != "--json-output-path" || path != "a.json" {
			t.Errorf("output %s of %s", path, flag)
		}
	}
}

// A duration is seconds; given instead of another option it takes its place, default and all.
func TestDuration(t *testing.T) {
	r := loadScript(t, `return { run = print, options = {
		options.duration { "duration", nil, "how long", instead_of = "iters" }, options.int { "iters", 3 }, options.duration { "gap", "1m30s" },
	} }`)
	for args, want := range map[string]map[string]any{
		"":                        {"iters": int64(3), "gap": 90.0},
		"--iters 5 --gap 500ms":   {"iters": int64(5), "gap": 0.5},
		"--duration 2m --gap 10s": {"duration": 120.0, "gap": 10.0},
	} {
		got, err := parseOptions(r.Scenario, io.Discard, strings.Fields(args)...)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%q: %v (-want +got):\n%s", args, err, d)
		}
		if again, err := r.Restore(got, false); err != nil || !maps.Equal(again, got) {
			t.Errorf("%q restored: %v, %v", args, again, err)
		}
	}
	const want = "--duration: wanted a time above 0 with its unit, such as 500ms, 30s or 2m"
	for args, want := range map[string]string{
		"--duration 30":           want + `, got "30"`,
		"--duration 0s":           want + `, got "0s"`,
		"--duration=-1s":          want + `, got "-1s"`,
		"--duration soon":         want + `, got "soon"`,
		"--duration 1s --iters 3": "--duration and --iters: one is instead of the other",
	} {
		_, err := parseOptions(r.Scenario, io.Discard, strings.Fields(args)...)
		if err == nil || err.Error() != want || fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
	var out strings.Builder
	if _, err := parseOptions(r.Scenario, &out, "--help"); err != nil || !strings.Contains(out.String(), "[1m30s]") {
		t.Errorf("%v, %s", err, out.String())
	}
}

// Help shows what was declared, whatever characters it has.
func TestOptionsHelp(t *testing.T) {
	r := loadScript(t, `return { run = print, options = {
		options.size { "size", "3M", "costs $5 or ${HOME}, \"quoted\" \\ back\nslash `+"`tick`"+` größer" },
		options.enum { "mode", "b", "which", choices = { "a", "b" } },
	} }`)
	var out strings.Builder
	if _, err := parseOptions(r.Scenario, &out, "--help"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`costs $5 or ${HOME}, "quoted" \ back slash`, "größer [3M]", "which (a, b) [b]", "--size=SIZE"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// A declaration that Load accepts can always be made into a command line.
func TestAnyOptionsMakeACommandLine(t *testing.T) {
	text := rapid.StringMatching(`[ -~\n]{0,12}`)
	choice := rapid.StringMatching(`([ -,.-~\n][ -~\n]{0,11})?`) // one that begins with a hyphen is refused
	rapid.Check(t, func(rt *rapid.T) {
		var list []string
		for i := range rapid.IntRange(1, 4).Draw(rt, "options") {
			kind := rapid.SampledFrom(option.Types).Draw(rt, "type")
			extra := ""
			if kind == "enum" {
				extra = fmt.Sprintf(", choices = { %q, %q }", choice.Draw(rt, "choice"), choice.Draw(rt, "choice"))
			}
			list = append(list, fmt.Sprintf("options.%s { %q, nil, %q%s }", kind, fmt.Sprintf("o%d", i), text.Draw(rt, "help"), extra))
		}
		source := "return { run = print, options = {" + strings.ReplaceAll(strings.Join(list, ","), `\n`, `\n`) + "} }"
		r, err := Load("o.lua", source, io.Discard)
		if err != nil {
			rt.Fatalf("%s: %v", source, err)
		}
		defer r.Close()
		if _, err := parseOptions(r.Scenario, io.Discard); err != nil {
			rt.Fatalf("%s: %v", source, err)
		}
	})
}

// A switch with choices is on, off, or one of them.
func TestSwitchWithChoices(t *testing.T) {
	r := loadScript(t, `return { run = print, options = {
		options.bool { "verify", false, "checks", choices = { "every" } }, options.enum { "mode", "b", "which", choices = { "a", "b" } },
	} }`)
	for args, want := range map[string]any{
		"": false, "--verify": true, "--no-verify": false, "--verify=every": "every", "--verify=EVERY": "every", "--verify=true": true,
		"--verify=0": false, "--verify --mode a": true,
	} {
		got, err := parseOptions(r.Scenario, io.Discard, strings.Fields(args)...)
		if err != nil || got["verify"] != want {
			t.Errorf("%q: got %v and %v, want %v", args, got["verify"], err, want)
		}
		if again, err := r.Restore(map[string]any{"verify": want}, false); err != nil || again["verify"] != want {
			t.Errorf("restored: got %v and %v, want %v", again["verify"], err, want)
		}
	}
	const want = "--verify: wanted true or false or every, got the text \"some\""
	if _, err := parseOptions(r.Scenario, io.Discard, "--verify=some"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Help and the command line show the options before anything runs.
func TestTooManyOptions(t *testing.T) {
	_, err := Load("b.lua", `local o = {} for i = 1, 1001 do o[i] = options.int { "o" .. i, 1, "" } end return { options = o, run = print }`, io.Discard)
	must.Fail(t, err, fault.Script, "options: wanted at most 1000, got 1001")
	_, err = Load("b.lua", `local o = {} for i = 1, 1001 do o[i] = { "o" .. i } end return { metrics = o, run = print }`, io.Discard)
	must.Fail(t, err, fault.Script, "metrics: wanted at most 1000, got 1001")
}
