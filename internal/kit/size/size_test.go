package size

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/fuzztest"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "007": 7, "9223372036854775807": math.MaxInt64, "9223372036854775807B": math.MaxInt64,
		"9007199254740993b": 9007199254740993, "8191M": 8191 << 20, "8589934591g": 8589934591 << 30,
		"0.9B": 0, "0.1K": 102, ".5k": 512, "5.k": 5120, "1e3K": 1024000, "1E-3M": 1048, "4.47035e+06G": 4800001762918400,
		"0.0000000000000000000000000000001G": 0, "1e-999G": 0,
		"64M": 64 << 20, "64MiB": 64 << 20, "64mib": 64 << 20, "64 MiB": 64 << 20, "64MB": 64e6, "64mb": 64e6, "1.5GB": 1.5e9, "1.5GiB": 3 << 29,
		"1KB": 1000, "1kB": 1000, "1 K": 1024, "2T": 2 << 40, "2TiB": 2 << 40, "2TB": 2e12, "3P": 3 << 50, "3 PB": 3e15,
		"1e6": 1e6, "1.0e+06": 1e6, "1048576.0": 1048576, "1E3": 1000, "0.0": 0, "1e18": 1e18,
	} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("Parse(%q): %d, %v: want %d", in, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const form = "wanted a number of bytes such as 4096, 64K, 64MiB or 1e6, got "
	const most = "wanted at most 9223372036854775807 bytes, got "
	for in, want := range map[string]string{
		"": form + `""`, "K": form + `"K"`, ".": form + `"."`, ".K": form + `".K"`, "eK": form + `"eK"`, "MiB": form + `"MiB"`, "iB": form + `"iB"`,
		"5iB": form + `"5iB"`, "5Mi": form + `"5Mi"`, "12Q": form + `"12Q"`, "1E": form + `"1E"`, "1  K": form + `"1  K"`, "1 ": form + `"1 "`, " 1": form + `" 1"`,
		"1KK": form + `"1KK"`, "1MiBB": form + `"1MiBB"`, "1Kb/s": form + `"1Kb/s"`,
		"+1": form + `"+1"`, "+1K": form + `"+1K"`, "0x10": form + `"0x10"`, "0x10K": form + `"0x10K"`, "1_000": form + `"1_000"`, "1_000K": form + `"1_000K"`,
		"inf": form + `"inf"`, "nanK": form + `"nanK"`, "1.2.3K": form + `"1.2.3K"`, "1e5e5K": form + `"1e5e5K"`, "٣": form + `"٣"`,
		"1.5": `wanted a whole number of bytes, got "1.5"`, "1e-3": `wanted a whole number of bytes, got "1e-3"`,
		"-1": `wanted 0 bytes or more, got "-1"`, "-1.5K": `wanted 0 bytes or more, got "-1.5K"`,
		"9223372036854775808": most + `"9223372036854775808"`, "9007199254740992K": most + `"9007199254740992K"`, "8589934592.0G": most + `"8589934592.0G"`,
		"1e400K": most + `"1e400K"`, "8192P": most + `"8192P"`, "9224PB": most + `"9224PB"`, "1e19": most + `"1e19"`,
	} {
		if got, err := Parse(in); err == nil || err.Error() != want {
			t.Errorf("Parse(%q): %d, %v: want %s", in, got, err, want)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		bytes                    int64
		decimal, binary, rounded string
	}{
		{0, "0 B", "0 B", "0 B"}, {999, "999 B", "999 B", "999 B"}, {1000, "1.00 kB", "1000 B", "1000 B"},
		{1024, "1.02 kB", "1 KiB", "1.00 KiB"}, {1179648, "1.18 MB", "1152 KiB", "1.12 MiB"},
		{64 << 20, "67.1 MB", "64 MiB", "64.0 MiB"}, {999499, "999 kB", "999499 B", "976 KiB"}, {999500, "1.00 MB", "999500 B", "976 KiB"},
		{1<<20 - 1, "1.05 MB", "1048575 B", "1.00 MiB"}, {1000 << 10, "1.02 MB", "1000 KiB", "1000 KiB"},
		{math.MaxInt64, "9.22 EB", "9223372036854775807 B", "8.00 EiB"},
	} {
		if got := [3]string{Decimal(c.bytes), Binary(c.bytes), BinaryRounded(c.bytes)}; got != [3]string{c.decimal, c.binary, c.rounded} {
			t.Errorf("%d: got %q, want %q", c.bytes, got, []string{c.decimal, c.binary, c.rounded})
		}
	}
	if got := Decimal(2.5e30); got != "2500000000000 EB" {
		t.Errorf("got %s", got)
	}
}

// Binary is exact, and what the others round stays within half of the last digit.
func TestParseReadsFormats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<59).Draw(t, "bytes")
		if back, err := Parse(Binary(n)); err != nil || back != n {
			t.Fatalf("%s reads back as %d, %v", Binary(n), back, err)
		}
		for _, text := range []string{Decimal(n), BinaryRounded(n)} {
			back, err := Parse(text)
			if text[len(text)-2] == 'E' || text[len(text)-3] == 'E' {
				continue // exabytes are not read: E is an exponent
			}
			if err != nil || math.Abs(float64(back-n)) > 0.0051*float64(n)+1 {
				t.Fatalf("%d: %s reads back as %d, %v", n, text, back, err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0", "5K", "1.5G", "1024B", "4.47035e+06G", "-1", "12Q", "1e", ".", "9223372036854775808", "nan", "0x1p3K", "64 MiB", "1iB", "1e6"} {
		f.Add(seed)
	}
	fuzztest.Run(f, []string{"1", "5", "0", "9", ".", "e", "+", "-", "K", "M", "G", "T", "P", "i", "B", "b", " ", "k"}, func(t *testing.T, in string) {
		bytes, err := Parse(in)
		if err != nil {
			return
		}
		if bytes < 0 {
			t.Fatalf("%q gives %d", in, bytes)
		}
		if want := byDefinition(t, in); math.Abs(want-float64(bytes)) > want*1e-15+1 {
			t.Fatalf("%q gives %d, want %.0f", in, bytes, want)
		}
		if back, err := Parse(strconv.FormatInt(bytes, 10)); err != nil || back != bytes {
			t.Fatalf("%d reads back as %d, %v", bytes, back, err)
		}
	})
}

// byDefinition is the number of bytes of a text without mistakes, as a float64 can hold it.
func byDefinition(t *testing.T, text string) float64 {
	m := regexp.MustCompile(`^([0-9.]+(?:[eE][+-]?[0-9]+)?) ?([kKmMgGtTpP]?)([iI]?)([bB]?)$`).FindStringSubmatch(text)
	if m == nil || m[3] != "" && (m[2] == "" || m[4] == "") {
		t.Fatalf("%q is taken", text)
	}
	number, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(text, err)
	}
	base := 1024.0
	if m[2] != "" && m[3] == "" && m[4] != "" {
		base = 1000
	}
	power := map[string]float64{"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}[strings.ToUpper(m[2])]
	return math.Floor(number * math.Pow(base, power))
}
