package report

import (
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// --pool makes one report of several results; of one it has no effect, which is an error.
func TestPoolOption(t *testing.T) {
	if _, _, err := report(t, Cmd{Results: []string{"a.json"}, Pool: true, Format: "text"}); fault.KindOf(err) != fault.Usage {
		t.Errorf("one result: %v", err)
	}
	var paths []string
	dir := t.TempDir()
	for _, name := range []string{"a.json", "b.json"} {
		d := synthetic{ranks: 4, hosts: 2, patterns: 2, senders: 2, peers: 2, isolated: 3, iterations: 3}.document()
		d.Job = &result.Invocation{ID: name}
		path := filepath.Join(dir, name)
		must.Do(t, d.Write(path))
		paths = append(paths, path)
	}
	for _, format := range []string{"text", "html", "json"} {
		out, _, err := report(t, Cmd{Results: paths, Pool: true, Format: format, Full: format == "text", Output: "-"})
		if err != nil || !strings.Contains(out, "a.json and 1 more, pooled") || !strings.Contains(out, "2 results are pooled: the timeline") {
			t.Errorf("%s: %v\n%.1000s", format, err, out)
		}
	}
}
