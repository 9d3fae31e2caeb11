package lua

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// project makes a folder of files, and makes it the current one.
func project(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o777))
		must.Do(t, os.WriteFile(name, []byte(text), 0o666))
	}
}

// ran loads a script, runs it without a world, and returns the error of either.
func ran(l *Library, source string) error {
	r, err := LoadWith(l, "s.lua", source, io.Discard)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Run(nil)
}

// A script requires files beside it and in other folders, each once, also by a name that it computes at its top level.
// What was found is all that another rank needs.
func TestRequire(t *testing.T) {
	project(t, map[string]string{
		"lib/common.lua": "count = (count or 0) + 1\nlocal units = require 'units'\nreturn { us = units.us, name = ... }",
		"libs/units.lua": "return { us = function(s) return s * 1e6 end }",
		"computed.lua":   "computed = true",
		"branch.lua":     "return 'branch'",
		"optional.lua":   "return 'optional'",
		"twice.lua":      "return 1",
		"libs/twice.lua": "return 2",
		"unused.lua":     "error('it is not required')",
	})
	const source = `
		local common = require "lib.common"
		assert(common == require("lib.common") and count == 1 and common.us(2) == 2e6 and common.name == "lib.common")
		assert(require("comp" .. "uted") == true and computed)
		assert(require "transfer" == transfer and require "string" == string and require "patterns" == patterns)
		return { run = function()
			assert(require "branch" == "branch" and require "twice" == 1 and select(2, pcall(require, "optional")) == "optional")
			assert(not pcall(require, "gone"))
			assert(computed and require "computed" == true)
		end }`
	l := Library{Folders: []string{".", "libs"}}
	must.Do(t, ran(&l, source))
	files := map[string]string{}
	for _, m := range l.Modules {
		files[m.Name] = m.File
	}
	want := map[string]string{"lib.common": "lib/common.lua", "units": "libs/units.lua", "computed": "computed.lua",
		"branch": "branch.lua", "optional": "optional.lua", "twice": "twice.lua"}
	if !l.Closed || len(files) != len(want) {
		t.Errorf("closed %t, modules %v", l.Closed, files)
	}
	for name, file := range want {
		if files[name] != file {
			t.Errorf("%s is %q, want %q", name, files[name], file)
		}
	}
	t.Chdir(t.TempDir())
	if err := ran(&l, source); err != nil {
		t.Errorf("without the files: %v", err)
	}
}

// What cannot be required is an error at the line that requires it.
func TestRequireErrors(t *testing.T) {
	project(t, map[string]string{
		"a.lua": "require 'b'", "b.lua": "require 'c'", "c.lua": "\nrequire 'b'",
		"syntax.lua": "\nlocal x = = 1", "bytes.lua": "-- \xff", "late.lua": "return 1", "matrix.lua": "return 1",
		"fails.lua": "local M = {}\nfunction M.f(x)\nreturn x.y.z\nend\nreturn M", "folder.lua/x": "",
		"member.lua": "return { f = function() return transfer.prepair {} end }",
	})
	in := func(run string) string { return "return { run = function()\n" + run + "\nend }" }
	for source, want := range map[string]string{
		"require 'a'":                       "c.lua:2: modules require each other: b -> c -> b\nc.lua:2: in the top level\nb.lua:1: in the top level\na.lua:1: in the top level",
		"require 's.x'":                     "s.lua:1: there is no module s.x: looked for s/x.lua, libs/s/x.lua",
		"require 'late.lua'":                "s.lua:1: there is no module late.lua: looked for late/lua.lua, libs/late/lua.lua",
		"require '../x'":                    `s.lua:1: require "../x": wanted the name of a module, with dots between folders and file`,
		"require '/etc/x'":                  `s.lua:1: require "/etc/x": wanted the name of a module`,
		"require '..x'":                     `s.lua:1: require "..x": wanted the name of a module`,
		"require ''":                        `s.lua:1: require "": wanted the name of a module`,
		"require {}":                        "s.lua:1: bad argument #1 to require (string expected, got table)",
		"require 'syntax'":                  "s.lua:1: syntax.lua:2: near '=': syntax error",
		"require 'bytes'":                   "s.lua:1: module bytes: bytes.lua:1: this line is not UTF-8 text",
		"require 'folder'":                  "s.lua:1: module folder: read folder.lua: is a directory",
		"require 'matrix'":                  "matrix.lua: the module matrix is built in, and this file would never run",
		in("require('la' .. 'te')"):         "s.lua:2: module late has not come with the script",
		in("require 'fails'.f({})"):         "fails.lua:3: attempt to index a non-table object(nil) with key 'z'\nfails.lua:3: in f\ns.lua:2: in run",
		in("require('fails').f({ y = 1 })"): "fails.lua:3: attempt to index a non-table object(number) with key 'z'",
		in("return (require 'member'.f())"): `member.lua:1: there is no transfer.prepair; did you mean "prepare"?`,
	} {
		err := ran(&Library{Folders: []string{".", "libs"}}, source)
		if fault.KindOf(err) != fault.Script || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\ngot  %q\nwant %q", source, err, want)
		}
	}
}
