package inspect

import (
	"strings"
	"testing"
)

func TestShowWorkload(t *testing.T) {
	d := document(t)
	d.Title, d.Workload = "mine", "a model, 1 request"
	d.Patterns[0].Metadata = map[string]any{"request": 7.0, "requests": 1.0, "isl": 2384.0, "kv_bytes": 781189120.0}
	out := squeeze(mustCall(t, "show", write(t, d, "r.json")))
	for _, want := range []string{"title: mine\nworkload: a model, 1 request\nstatus: ", " 0 request 7 2384 781 MB work 3 ", " 1 q - - work 1 "} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}
