package lua

import (
	"io"
	"strings"
	"testing"

	glua "github.com/yuin/gopher-lua"
)

// The module patterns is there for every script that can reach it, and nothing is compiled for one that cannot.
func TestPatternsAreOpenedWhereUsed(t *testing.T) {
	for source, want := range map[string]bool{
		"return { run = function() end }":                                   false,
		"assert(patterns.size_options) return { run = print }":              true,
		`assert(_G["pa" .. "tterns"]) return { run = print }`:               true,
		`assert(getfenv(1)["pa" .. "tterns"]) return { run = print }`:       true,
		`assert(loadstring("return pa\116terns")()) return { run = print }`: true,
		`assert(require("pa" .. "tterns")) return { run = print }`:          true,
	} {
		r, err := Load("t.lua", source, io.Discard)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got := state(r).GetGlobal("patterns").Type() == glua.LTTable; got != want {
			t.Errorf("%s: patterns there: %v, want %v", source, got, want)
		}
		r.Close()
	}
	_, err := Load("t.lua", "petterns.size_options()", io.Discard)
	if err == nil || !strings.Contains(err.Error(), "patterns") {
		t.Errorf("a name that is misspelt: got %v, want a word about patterns", err)
	}
}
