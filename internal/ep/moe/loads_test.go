package moe

import (
	"strings"
	"testing"

	"perigee/internal/kit/fault"
)

// A line, and all lines together, are bounded while they are read.
func TestLoadsAreBounded(t *testing.T) {
	long := strings.Repeat("1 ", MaxExperts)
	for text, want := range map[string]string{
		strings.Repeat("1 ", MaxExperts+1):       "x:1: wanted at most 1048576 loads, got more",
		strings.Repeat("1,", MaxExperts+1) + "1": "x:1: wanted at most 1048576 loads, got more",
		strings.Repeat(long+"\n", 17):            "x:17: wanted at most 16777216 loads in all layers, got more",
		strings.Repeat("1\n", maxLayers) + "1\n": "x:4097: wanted at most 4096 layers, got more",
		"1 2,, 3":                                "x:1: load 3: wanted a number, got none before or after a comma",
	} {
		if _, err := ReadLoads("x", strings.NewReader(text)); fault.KindOf(err) != fault.Input || err.Error() != want {
			t.Errorf("%.20q: got %v, want %s", text, err, want)
		}
	}
	if layers, err := ReadLoads("x", strings.NewReader(strings.Repeat(long+"\n", 16))); err != nil || len(layers) != 16 {
		t.Errorf("%d layers, %v", len(layers), err)
	}
}
