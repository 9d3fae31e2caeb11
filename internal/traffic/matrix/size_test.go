package matrix

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestSizesOfTheOriginal holds both directions against figures measured on the
// original generator and reader.
func TestSizesOfTheOriginal(t *testing.T) {
	data, err := os.ReadFile("testdata/sizes.json")
	if err != nil {
		t.Fatal(err)
	}
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
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.FormatSize) == 0 || len(golden.ParseSize) == 0 {
		t.Fatal("there are no golden sizes")
	}
	for _, c := range golden.FormatSize {
		if got := FormatSize(c.Bytes); got != c.Text {
			t.Errorf("FormatSize(%v): %s: want %s", c.Bytes, got, c.Text)
		}
		if got, err := ParseSize(c.Text); err != nil || got != c.ParsedBack {
			t.Errorf("ParseSize(%q): %d, %v: want %d", c.Text, got, err, c.ParsedBack)
		}
	}
	for _, c := range golden.ParseSize {
		if got, err := ParseSize(c.Text); err != nil || got != c.Bytes {
			t.Errorf("ParseSize(%q): %d, %v: want %d", c.Text, got, err, c.Bytes)
		}
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "007": 7, "9223372036854775807": math.MaxInt64, "9223372036854775807B": math.MaxInt64,
		"9007199254740993b": 9007199254740993, "8191M": 8191 << 20, "8589934591g": 8589934591 << 30,
		"0.9B": 0, "0.1K": 102, ".5k": 512, "5.k": 5120, "1e3K": 1024000, "1E-3M": 1048, "4.47035e+06G": 4800001762918400,
		"0.0000000000000000000000000000001G": 0, "1e-999G": 0,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q): %d, %v: want %d", in, got, err, want)
		}
	}
}

func TestParseSizeRefuses(t *testing.T) {
	const form = "wanted a whole number of bytes, or a number with a unit (B, K, M, G), got "
	for in, want := range map[string]string{
		"": form + `""`, "K": form + `"K"`, ".": form + `"."`, ".K": form + `".K"`, "eK": form + `"eK"`, "1.5": form + `"1.5"`, "1e3": form + `"1e3"`,
		"12Q": form + `"12Q"`, "1T": form + `"1T"`, "1KB": form + `"1KB"`, "1 K": form + `"1 K"`, " 1": form + `" 1"`, "+1": form + `"+1"`, "+1K": form + `"+1K"`,
		"0x10": form + `"0x10"`, "0x10K": form + `"0x10K"`, "1_000": form + `"1_000"`, "1_000K": form + `"1_000K"`, "inf": form + `"inf"`, "nanK": form + `"nanK"`,
		"1.2.3K": form + `"1.2.3K"`, "1e5e5K": form + `"1e5e5K"`, "٣": form + `"٣"`,
		"-1": `wanted 0 bytes or more, got "-1"`, "-1.5K": `wanted 0 bytes or more, got "-1.5K"`,
		"9223372036854775808": `wanted at most 9223372036854775807 bytes, got "9223372036854775808"`,
		"9007199254740992K":   `wanted at most 9223372036854775807 bytes, got "9007199254740992K"`,
		"8589934592.0G":       `wanted at most 9223372036854775807 bytes, got "8589934592.0G"`,
		"1e400K":              `wanted at most 9223372036854775807 bytes, got "1e400K"`,
	} {
		if got, err := ParseSize(in); err == nil || err.Error() != want {
			t.Errorf("ParseSize(%q): %d, %v: want %s", in, got, err, want)
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
		back, err := ParseSize(FormatSize(bytes))
		if err != nil {
			t.Fatal(err)
		}
		unit := math.Pow(1024, min(3, math.Floor(math.Log2(bytes)/10)))
		if off := math.Abs(float64(back) - bytes); off > 0.0051*unit+5.1e-6*bytes+1 {
			t.Fatalf("%s is off by %v bytes of %v", FormatSize(bytes), off, bytes)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"0", "5K", "1.5G", "1024B", "4.47035e+06G", "-1", "12Q", "1e", ".", "9223372036854775808", "nan", "0x1p3K"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		bytes, err := ParseSize(in)
		if err != nil {
			return
		}
		if bytes < 0 {
			t.Fatalf("%q gives %d", in, bytes)
		}
		if back, err := ParseSize(strconv.FormatInt(bytes, 10)); err != nil || back != bytes {
			t.Fatalf("%d reads back as %d, %v", bytes, back, err)
		}
	})
}
