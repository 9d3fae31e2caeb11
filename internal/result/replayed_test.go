package result_test

import (
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
)

// A result whose columns of requests do not go together is refused, and says which.
func TestReplayColumns(t *testing.T) {
	for want, change := range map[string]func(*result.Replay){
		"replay: requests: 20 rows of index, but 19 of done_ns": func(r *result.Replay) { r.Requests.Done = r.Requests.Done[:19] },
		"replay: requests: 19 rows of index, but 20 of prefill": func(r *result.Replay) { r.Requests.Index = r.Requests.Index[:19] },
		"replay: isolated[1]: there is no request 20":           func(r *result.Replay) { r.Isolated[1].Request = 20 },
		"": func(*result.Replay) {},
	} {
		d, path := resulttest.Replayed(20), filepath.Join(t.TempDir(), "r.json")
		change(d.Replay)
		must.Do(t, d.Write(path))
		_, err := result.Read(path)
		if want == "" && err != nil || want != "" && (fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), want)) {
			t.Errorf("wanted %q, got %v", want, err)
		}
	}
	resulttest.Check(t, write(t, resulttest.Replayed(20)))
}

func write(t *testing.T, d *result.Document) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.json")
	must.Do(t, d.Write(path))
	return path
}
