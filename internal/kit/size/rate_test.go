package size

import (
	"strings"
	"testing"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{
		"200Gbit": 25e9, "200 Gb/s": 25e9, "200Gbps": 25e9, "200Gbit/s": 25e9, "25GB/s": 25e9, "25 GB/s": 25e9,
		"200mbit": 25e6, "1.6Tbit": 200e9, "800kbit": 1e5, "8bit": 1, "3GiB/s": 3 << 30, "1e9B/s": 1e9, "0.5Gbit": 62.5e6,
		"40 Gbits": 5e9, "8000Tbit": 1e15,
	} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"1e300Gbit", "8001Tbit", "8001T b/s", "2000TB/s", "1000.1TB/s"} {
		if got, err := ParseRate(text); err == nil || got != 0 {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	const most = `wanted a rate of a link, at most 1e15 bytes per second, got "1e300Gbit"`
	if _, err := ParseRate("1e300Gbit"); err == nil || err.Error() != most {
		t.Errorf("got %v, want %s", err, most)
	}
	for _, text := range []string{
		"", "200", "200G", "25GB", "fast", "0Gbit", "0B/s", "-1Gbit", "-1GB/s", "1e400bit", "NaNbit", "infbit", "0x1bit",
		"200Gbit!", "bit", "B/s", "1Qbit", "200  Gbit",
	} {
		if got, err := ParseRate(text); err == nil || !strings.Contains(err.Error(), "wanted a rate such as 200Gbit or 25GB/s, got ") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
