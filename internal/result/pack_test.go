package result_test

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"perigee/internal/fault"
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

// A long text takes more where it is shown than where it is kept: a file must be as large as that takes. One that perigee
// writes is.
func TestLongTexts(t *testing.T) {
	d := result.New([]string{"perigee"}, result.Scenario{Options: map[string]any{}}, 0, result.World{Size: 1})
	d.Status = result.Complete
	d.Notes = []string{strings.Repeat("x", 40<<20)}
	dir := t.TempDir()
	plain := filepath.Join(dir, "r.json")
	if err := d.Write(plain); err != nil {
		t.Fatal(err)
	}
	for _, ending := range []string{".gz", ".zst"} {
		path := plain + ending
		if err := d.Write(path); err != nil {
			t.Fatal(err)
		}
		if got, err := result.Read(path); err != nil || got.Notes[0] != d.Notes[0] {
			t.Errorf("%s: %v", ending, err)
		}
	}
	text, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	const filled = 290_000 // by a frame without text
	file := append(binary.LittleEndian.AppendUint32([]byte{0x50, 0x2a, 0x4d, 0x18}, filled), make([]byte, filled)...)
	path := filepath.Join(dir, "bomb.zst")
	if err := os.WriteFile(path, z.EncodeAll(text, file), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := result.Read(path); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "it takes far more than its file") {
		t.Errorf("got %v", err)
	}
}
