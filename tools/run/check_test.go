package run

import (
	"os"
	"strings"
	"testing"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/scenarios"
)

// Nothing is wrong with the shipped scenarios, nor doubtful.
func TestCheckOfShippedScenarios(t *testing.T) {
	for _, name := range scenarios.Names() {
		var out strings.Builder
		err := (&Check{Scenarios: []string{name}}).Run(cli.Streams{Out: &out})
		if err != nil || !strings.HasSuffix(out.String(), "; no faults\n") || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: %v, %s", name, err, out.String())
		}
	}
}

// Faults are listed by file and line and have the exit code of wrong files; what was asked wrongly has another one.
func TestCheckCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"good.lua":   "local c = require 'c' return { options = { options.int { 'runs', 1 } }, ranks = function() return c end, run = print }",
		"engine.lua": "return { options = { options.int { 'engine', 1 } }, run = function() itres() end }",
		"own.lua":    "return { options = { options.string { 'lib', '' }, options.string { 'backend', '' } }, run = print }",
		"libs/c.lua": "return 2",
	} {
		must.Do(t, os.MkdirAll("libs", 0o777))
		must.Do(t, os.WriteFile(name, []byte(text), 0o666))
	}
	for _, c := range []struct {
		names, lib, want, message string
		kind                      fault.Kind
	}{
		{names: "good.lua own.lua", lib: "libs", want: "good.lua: 1 option, 2 hooks, 1 module; no faults\nown.lua: 2 options, 1 hook; no faults\n"},
		{names: "good.lua", want: "good.lua:1: there is no module c: looked for c.lua\n  hint: require \"lib.common\" loads lib/common.lua from the script's folder, or from one of --lib DIR\n", message: "1 fault in good.lua", kind: fault.Input},
		{names: "own.lua engine.lua", message: "2 faults in own.lua, engine.lua", kind: fault.Input, want: "own.lua: 2 options, 1 hook; no faults\nengine.lua:1: there is no variable itres\n" +
			"engine.lua: options: --engine is an option of every job: give that of the scenario another name\n"},
		{names: "good.lua", lib: "lib", message: "--lib lib: there is no such folder", kind: fault.Usage},
		{names: "gone.lua", message: "scenario: open gone.lua: no such file or directory", kind: fault.Input},
		{names: "good", message: `there is no scenario "good"; did you mean "good.lua"?`, kind: fault.Usage},
	} {
		var out strings.Builder
		command := Check{Scenarios: strings.Fields(c.names), Lib: strings.Fields(c.lib)}
		err := command.Run(cli.Streams{Out: &out})
		if out.String() != c.want || (err == nil) != (c.kind == 0) || err != nil && (fault.KindOf(err) != c.kind || err.Error() != c.message) {
			t.Errorf("%s --lib %s: %v, %s", c.names, c.lib, err, out.String())
		}
	}
}
