package disagg

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"perigee/tools/disagg/config"
	"perigee/tools/disagg/record"
	"perigee/tools/disagg/verdict"
)

// docs/disagg.md names every key, gate and file.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/disagg.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	wanted := []string{record.CSVName, record.SessionName, verdictFile, "jobs.jsonl", "jobs.txt", "junit.xml"}
	for _, k := range config.Keys() {
		wanted = append(wanted, "`"+k+"`")
	}
	gates := reflect.TypeFor[verdict.Gates]()
	for i := range gates.NumField() {
		wanted = append(wanted, "--"+gates.Field(i).Tag.Get("name"))
	}
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("docs/disagg.md does not name %s", w)
		}
	}
}
