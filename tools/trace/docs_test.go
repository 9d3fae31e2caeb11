package trace

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// Every command of docs/trace.md says first what stands below it, folded there.
func TestDocs(t *testing.T) {
	text, trace := must.Read(t, "../../docs/trace.md"), must.Read(t, "../../docs/minute.jsonl")
	t.Chdir(t.TempDir())
	must.Do(t, os.WriteFile("minute.jsonl", trace, 0o600))
	examples := regexp.MustCompile("(?s)\n\\$ perigee trace show (.*?)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) == 0 {
		t.Fatal("no examples")
	}
	for _, m := range examples {
		got, err := show(t, strings.Fields(strings.ReplaceAll(m[1], "'", ""))...)
		want := strings.Join(strings.Fields(strings.TrimSuffix(m[2], "...\n")), " ")
		if err != nil || !strings.HasPrefix(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("%s prints\n%.1000s\n%v", m[1], got, err)
		}
	}
}
