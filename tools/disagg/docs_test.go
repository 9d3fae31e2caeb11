package disagg

import (
	"reflect"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/serving/config"
	"perigee/internal/serving/judge"
	"perigee/tools/disagg/report"
)

// docs/disagg.md names every key, gate and file.
func TestDocs(t *testing.T) {
	data := must.Read(t, "../../docs/disagg.md")
	text := string(data)
	wanted := []string{report.CSVName, report.SessionName, judge.CaseName, "jobs.jsonl", "jobs.txt", "junit.xml"}
	for _, k := range config.Keys() {
		wanted = append(wanted, "`"+k+"`")
	}
	gates := reflect.TypeFor[judge.Gates]()
	for i := range gates.NumField() {
		wanted = append(wanted, "--"+gates.Field(i).Tag.Get("name"))
	}
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("docs/disagg.md does not name %s", w)
		}
	}
}
