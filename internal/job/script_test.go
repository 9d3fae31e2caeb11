package job

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/fault"
)

// A script reaches the other ranks and the result as it is, or not at all.
func TestScriptIsText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lua")
	for text, want := range map[string]string{
		"-- größer\n\x1b\treturn {}": "",
		"":                           "",
		"-- caf\xe9":                 `x.lua:1: this line is not UTF-8 text: "-- caf\xe9"`,
		"return {\r\n\r\n  about = 'caf\xe9',\r\n}": `x.lua:3: this line is not UTF-8 text: "about = 'caf\xe9',"`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := readScript(path)
		if want == "" && (err != nil || s.Source != text) || want != "" && (fault.KindOf(err) != fault.Input || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%q: got %q, %v, want %s", text, s.Source, err, want)
		}
	}
}
