package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
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
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		s, err := readScript(path)
		if want == "" && (err != nil || s.Source != text) || want != "" && (fault.KindOf(err) != fault.Input || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%q: got %q, %v, want %s", text, s.Source, err, want)
		}
	}
}

func TestTimeoutIsSane(t *testing.T) {
	for timeout, ok := range map[time.Duration]bool{0: true, -1: false, 1: false, time.Millisecond: true, time.Hour: true} {
		if err := (Flags{Timeout: Duration(timeout)}).Check(); (err == nil) != ok || !ok && fault.KindOf(err) != fault.Usage {
			t.Errorf("--timeout %v: %v", timeout, err)
		}
	}
}
