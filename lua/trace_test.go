package lua

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// ownLine is a place in the part of perigee that is Lua.
var ownLine = regexp.MustCompile(`\[patterns\]:\d+:`)

// Below an error of a script stand the innermost three functions in which it arose, unless its place says as much.
func TestTraceback(t *testing.T) {
	for source, want := range map[string]string{
		"local function a(x)\nreturn x.y.z\nend\nlocal function b(x)\nlocal r = a(x)\nreturn r\nend\nreturn { run = function()\nb({})\nend }": "t.lua:2: attempt to index a non-table object(nil) with key 'z'\nt.lua:2: in a\nt.lua:5: in b\nt.lua:9: in run",
		"local function a(n)\nif n > 0 then a(n - 1) else error('no') end\nend\nreturn { run = function() a(5) end }":                         "t.lua:2: no\nt.lua:2: in a\nt.lua:2: in a\nt.lua:2: in a",
		"return { run = function()\ntable.sort({ {}, {} }, function(a, b)\nreturn a.x < b.x\nend)\nend }":                                     "t.lua:3: attempt to compare nil with nil\nt.lua:3: in <t.lua:2>\nt.lua:2: in run",
		"local m = {}\nfunction m.prepare()\ntransfer.engine()\nend\nreturn { run = function()\nm.prepare()\nend }":                           "t.lua:3: there is no world yet: only the function run has one\nt.lua:3: in prepare\nt.lua:6: in run",
		"return { run = function()\npatterns.prepare(5)\nend }":                                                                               "[patterns]: bad argument #1 to ipairs (table expected, got number)\nt.lua:2: in run",
		"return { run = function()\nlocal function f() error({}) end\nf()\nend }":                                                             "t.lua:2: error was called with a table\nt.lua:2: in f\nt.lua:3: in run",
		"return { run = function() error('no') end }":                                                                                         "t.lua:1: no",
		"return { run = function()\nlocal ok, text = pcall(function() error('no') end)\nerror(text, 0)\nend }":                                "t.lua:2: no\nt.lua:3: in run",
	} {
		r, err := Load("t.lua", source, io.Discard)
		must.Do(t, err)
		if got := ownLine.ReplaceAllString(fmt.Sprint(r.Run(nil)), "[patterns]:"); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	want := "t.lua:1: no\nt.lua:1: in f\nt.lua:1: in the top level"
	if _, err := Load("t.lua", "local function f() error('no') end f()", io.Discard); err == nil || err.Error() != want {
		t.Errorf("got  %q\nwant %q", err, want)
	}
	// What ends the job, whether or not the script catches it, has them, too.
	p := playScript(t, 2, "return { run = function()\nlocal function f() transfer.prepare { matix = 1 } end\npcall(f)\nend }", nil)
	if err := p.errs[0]; err == nil || !strings.HasSuffix(err.Error(), "\ntest.lua:2: in <test.lua:2>\ntest.lua:3: in run") {
		t.Errorf("got %q", err)
	}
}
