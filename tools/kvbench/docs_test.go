package kvbench

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/must"
)

// block is a block of code in the documentation with the comment before it.
var block = regexp.MustCompile("(?m)(?:^<!-- file: (.*) -->\n)?^```(\\w*)\n((?s:.*?))^```$")

// Every example in the documentation gives what stands below it. Files that it
// shows are there; commands that start ranks are run by e2e and only
// understood here.
func TestDocumentation(t *testing.T) {
	testDocument(t, "../../docs/kvbench.md", 4)
}

// The same of the page about models.
func TestModelsDocumentation(t *testing.T) {
	testDocument(t, "../../docs/models.md", 2)
}

func testDocument(t *testing.T, path string, least int) {
	data := must.Read(t, path)
	t.Chdir(t.TempDir())
	ran := 0
	for _, m := range block.FindAllStringSubmatch(string(data), -1) {
		file, language, text := m[1], m[2], m[3]
		switch {
		case file != "":
			must.Do(t, os.WriteFile(file, []byte(text), 0o644))
		case language == "console":
			for _, example := range strings.Split(text, "$ perigee kvbench ")[1:] {
				line, want, _ := strings.Cut(example, "\n")
				ran++
				if got := mustRun(t, line); got != want {
					t.Errorf("%s (-documented +got):\n%s", line, cmp.Diff(want, got))
				}
			}
		case language == "sh":
			for line := range strings.Lines(text) {
				understand(t, strings.TrimSpace(line))
			}
		case language == "text": // a picture
		default:
			t.Errorf("a block of %q does not say what it is: %.60s", language, text)
		}
	}
	if ran < least {
		t.Errorf("only %d examples were found", ran)
	}
}

// understand parses a command line without running it.
func understand(t *testing.T, line string) {
	t.Helper()
	words, ok := strings.CutPrefix(line, "perigee kvbench ")
	var cmd Cmd
	parser, err := cli.Parser(&cmd)
	must.Do(t, err)
	if _, err := parser.Parse(strings.Fields(strings.ReplaceAll(words, "'", ""))); err != nil || !ok {
		t.Errorf("%s: %v", line, err)
	}
}

// Every command, option of a config and family is in the documentation.
func TestEverythingIsDocumented(t *testing.T) {
	data := must.Read(t, "../../docs/kvbench.md")
	text := string(data)
	var want []string
	for _, section := range configSchema {
		want = append(want, section.Name+":")
		for _, key := range section.Fields {
			want = append(want, key.Name+":")
		}
	}
	want = append(want, backendNames()...)
	want = append(want, "`plan`", "`profile`", "`kvcache`", "`iosize`", "`models`", "`parity`", "`llama`", "`mla`", "`gqa`", "`gpt-oss`", "`gemma`")
	for _, words := range want {
		if !strings.Contains(text, words) {
			t.Errorf("%s is not in the documentation", words)
		}
	}
}
