package version

import "testing"

func TestSame(t *testing.T) {
	of := func(commit string, changed bool) Build {
		return Build{Version: "0.1.0", Commit: commit, Changed: changed}
	}
	other := of("", false)
	other.Version = "0.2.0"
	for _, c := range []struct {
		a, b Build
		want bool
	}{
		{of("b7024f22", false), of("b7024f22", false), true},
		{of("b7024f22", false), of("1ca311da", false), false},
		{of("b7024f22", false), of("b7024f2202a1d35f", false), true}, // make and go build
		{of("v0.1.0-3-gb7024f22", false), of("b7024f22", false), true},
		{of("b7024f22", false), of("b7024f22-dirty", false), false},
		{of("b7024f22", true), of("b7024f22-dirty", false), true},
		{of("unknown", false), of("b7024f22", false), false},
		{of("unknown", false), of("", false), true},
		{of("", false), of("", false), true},
		{of("", false), other, false},
	} {
		other := c.b
		other.Go, other.CGO = "go1.27", true // nor does what it was built with count
		if c.a.Same(other) != c.want || other.Same(c.a) != c.want {
			t.Errorf("%s and %s: want %t", c.a, c.b, c.want)
		}
	}
}

func TestString(t *testing.T) {
	for want, b := range map[string]Build{"0.1.0": {Version: "0.1.0"}, "0.1.0 ab-dirty": {Version: "0.1.0", Commit: "ab", Changed: true}} {
		if b.String() != want {
			t.Errorf("%s, want %s", b, want)
		}
	}
}
