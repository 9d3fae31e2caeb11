package size

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// bitUnits end rates in bits per second, the longest of equal endings first.
var bitUnits = []string{"bit/s", "bits", "bit", "bps", "b/s"}

// ParseRate reads a rate in bytes per second: "200Gbit", "200 Gb/s" and "200Gbps", whose letters k, M, G and T are
// powers of 1000, or "25GB/s" and "3 GiB/s", whose units are those of [Parse]. A small b is a bit, a large one a byte.
// A rate above 1 PB/s is that of no link, and an error.
func ParseRate(s string) (bytesPerSecond float64, err error) {
	rate, err := parseRate(s)
	if rate > mostRate {
		return 0, fmt.Errorf("wanted a rate of a link, at most 1e15 bytes per second, got %s", quote(s))
	}
	return rate, err
}

// mostRate is above that of any link.
const mostRate = 1e15

func parseRate(s string) (bytesPerSecond float64, err error) {
	wrong := fmt.Errorf("wanted a rate such as 200Gbit or 25GB/s, got %s", quote(s))
	if bytes, ok := strings.CutSuffix(s, "B/s"); ok {
		n, err := Parse(bytes + "B")
		if err != nil || n <= 0 {
			return 0, wrong
		}
		return float64(n), nil
	}
	for _, unit := range bitUnits {
		number, ok := strings.CutSuffix(s, unit)
		if !ok {
			continue
		}
		factor := 1.0
		for i := range prefixes[:4] {
			if rest, found := cutLetter(number, prefixes[i]|0x20); found {
				number, factor = rest, math.Pow(1000, float64(i+1))
				break
			}
		}
		number = strings.TrimSuffix(number, " ")
		v, err := strconv.ParseFloat(number, 64)
		if v *= factor / 8; err != nil || !isDecimal(number) || !(v > 0) || math.IsInf(v, 0) {
			return 0, wrong
		}
		return v, nil
	}
	return 0, wrong
}
