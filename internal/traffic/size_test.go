package traffic

import (
	"math"
	"testing"
)

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1 kB", 1234567: "1.23 MB", 999499: "999 kB", 999500: "1 MB",
		12e9: "12 GB", math.MaxInt64: "9.22 EB",
	} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
