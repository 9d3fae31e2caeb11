package result_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"perigee/internal/result"
)

// However often a run measures the same, what it writes can be read.
func TestEqualSamples(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 14 MB of JSON")
	}
	const samples = 800_000 // 14 MB of JSON, of which 2 kB would be left
	d := result.New([]string{"perigee"}, result.Scenario{Options: map[string]any{}}, 0, result.World{Size: 1})
	d.Status = result.Complete
	d.Metrics = []result.Metric{{
		MetricDef: result.MetricDef{Name: "own"}, Values: slices.Repeat([]float64{1.5}, samples),
		TimesNS: slices.Repeat([]int64{1_000_000_000}, samples),
	}}
	d.Tables = []result.Table{{Columns: []string{"a"}, Rows: slices.Repeat([][]any{{0}}, samples/8)}}
	dir := t.TempDir()
	for _, name := range []string{"r.json.gz", "r.json.zst"} {
		path := filepath.Join(dir, name)
		if err := d.Write(path); err != nil {
			t.Fatal(err)
		}
		got, err := result.Read(path)
		if err != nil || !slices.Equal(got.Metrics[0].Values, d.Metrics[0].Values) || len(got.Tables[0].Rows) != samples/8 {
			t.Fatalf("%s: %v", name, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > 2<<20 {
			t.Errorf("%s: %v, of %d bytes", name, err, info.Size())
		}
	}
	// Other programs read past the filling.
	f, err := os.Open(filepath.Join(dir, "r.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || !json.Valid(text) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
