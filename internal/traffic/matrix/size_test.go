package matrix

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
	"perigee/internal/kit/size"
)

// TestSizesOfTheOriginal holds both directions against figures measured on the
// original generator and reader.
func TestSizesOfTheOriginal(t *testing.T) {
	data := must.Read(t, "testdata/sizes.json")
	var golden struct {
		FormatSize []struct {
			Bytes      float64
			Text       string
			ParsedBack int64 `json:"parsed_back"`
		} `json:"format_size"`
		ParseSize []struct {
			Text  string
			Bytes int64
		} `json:"parse_size"`
	}
	must.Do(t, json.Unmarshal(data, &golden))
	if len(golden.FormatSize) == 0 || len(golden.ParseSize) == 0 {
		t.Fatal("there are no golden sizes")
	}
	for _, c := range golden.FormatSize {
		if got := FormatSize(c.Bytes); got != c.Text {
			t.Errorf("FormatSize(%v): %s: want %s", c.Bytes, got, c.Text)
		}
		if got, err := size.Parse(c.Text); err != nil || got != c.ParsedBack {
			t.Errorf("size.Parse(%q): %d, %v: want %d", c.Text, got, err, c.ParsedBack)
		}
	}
	for _, c := range golden.ParseSize {
		if got, err := size.Parse(c.Text); err != nil || got != c.Bytes {
			t.Errorf("size.Parse(%q): %d, %v: want %d", c.Text, got, err, c.Bytes)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for bytes, want := range map[float64]string{
		4: "4B", 512000: "500K", 1024000: "1000K", 1025391984: "977.89M", 2472615936: "2.3G", 144000000000000: "134110G",
		4.8e15: "4.47035e+06G", 1048575: "1024K", 1023.999: "1024B", 1 << 30: "1G",
	} {
		if got := FormatSize(bytes); got != want {
			t.Errorf("FormatSize(%v): %s: want %s", bytes, got, want)
		}
	}
}

// What FormatSize writes reads back to nearly the same number of bytes: it is
// rounded to two decimals of the unit and then to six digits.
func TestFormatSizeReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Float64Range(1, 1<<60).Draw(t, "bytes")
		back, err := size.Parse(FormatSize(bytes))
		must.Do(t, err)
		unit := math.Pow(1024, min(3, math.Floor(math.Log2(bytes)/10)))
		if off := math.Abs(float64(back) - bytes); off > 0.0051*unit+5.1e-6*bytes+1 {
			t.Fatalf("%s is off by %v bytes of %v", FormatSize(bytes), off, bytes)
		}
	})
}
