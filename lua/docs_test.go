package lua

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

const docsFile = "../docs/lua.md"

// block is a block of code in the documentation with the comment before it.
var block = regexp.MustCompile("(?m)(?:^<!-- (\\w+): (.*) -->\n)?^```(\\w*)\n((?s:.*?))^```$")

// Every example in the documentation runs as it says. A block of Lua is a
// scenario (run) or the inside of the function run (body); other blocks are
// files that scenarios read.
func TestDocumentedExamples(t *testing.T) {
	data := must.Read(t, docsFile)
	t.Chdir(t.TempDir())
	ran := 0
	for _, m := range block.FindAllStringSubmatch(string(data), -1) {
		how, args, language, text := m[1], strings.Fields(m[2]), m[3], m[4]
		switch {
		case how == "file":
			must.Do(t, os.WriteFile(args[0], []byte(text), 0o644))
			continue
		case language == "lua" && how == "body":
			text = body(text)
		case language != "lua" || how != "run":
			t.Errorf("a block of %q does not say how it is run: %.60s", language, text)
			continue
		}
		ran++
		ranks, options := 0, map[string]any{}
		for _, arg := range args {
			key, value, _ := strings.Cut(arg, "=")
			if key != "n" {
				options[key] = value
				continue
			}
			n, err := strconv.Atoi(value)
			must.Do(t, err)
			ranks = n
		}
		checked, found := Check(&Library{}, "example.lua", text)
		checked.Close()
		for _, f := range found {
			t.Errorf("perigee check: %s in\n%s", f.Text, text)
		}
		r, err := Load("example.lua", text, os.Stderr)
		if err != nil {
			t.Errorf("%v in\n%s", err, text)
			continue
		}
		r.Permit(Access{Named: options})
		if n, err := r.Ranks(options); err != nil || n != 0 && n != ranks {
			t.Errorf("asks for %d ranks, not %d: %v in\n%s", n, ranks, err, text)
		}
		r.Close()
		p := playScript(t, ranks, text, options)
		if err := p.failed(); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
	if ran < 5 {
		t.Errorf("only %d examples were found", ran)
	}
}

// Every function of the stubs is in the documentation; fields are in the stubs alone.
func TestEverythingIsDocumented(t *testing.T) {
	data := must.Read(t, docsFile)
	objects := map[string]string{"Matrix": "m:", "Plan": "plan:", "Lanes": "lanes:", "Plane": "plane:", "Replay": "r:", "ProgressBar": "bar:", "ResultTable": "t:", globals: ""}
	for name, s := range readStubs(t) {
		prefix, isObject := objects[name]
		if !isObject {
			prefix = name + "."
		}
		for _, f := range s.functions {
			if !regexp.MustCompile("`" + regexp.QuoteMeta(prefix+f) + `\b`).Match(data) {
				t.Errorf("%s%s is not in %s", prefix, f, docsFile)
			}
		}
	}
}
