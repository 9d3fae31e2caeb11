package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

func TestResults(t *testing.T) {
	for _, c := range []struct{ name, file, text, args, want string }{
		{name: "nothing"},
		{name: "other JSON", file: "o.json", text: `{"a":1}`, args: "--result r.json"},
		{name: "other JSON as the result", file: "r.json", text: `{"a":1}`, args: "--result r.json", want: "r.json does not go with the schema"},
		{name: "the same with =", file: "r.json", text: `{"a":1}`, args: "--result=r.json", want: "r.json does not go with the schema"},
		{name: "in a folder", file: "sub/r.json", text: `{"a":1}`, args: "--result sub/r.json", want: "r.json does not go with the schema"},
		{name: "a wrong result that was not asked for", file: "x.json", text: `{"schema":"perigee.result/1"}`, want: "x.json does not go with the schema"},
		{name: "no JSON", file: "r.json.gz", text: "{", args: "--result r.json.gz", want: "r.json.gz does not go with the schema"},
	} {
		dir := t.TempDir()
		must.Do(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
		write := func() {
			if c.file == "" {
				return
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o644))
		}
		before := LookForResults(dir, strings.Fields(c.args))
		write()
		err := before.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if err := LookForResults(dir, strings.Fields(c.args)).Check(); err != nil {
			t.Errorf("%s: what was there before: %v", c.name, err)
		}
	}
}
