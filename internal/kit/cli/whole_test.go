package cli

import (
	"testing"
	"time"

	"perigee/internal/kit/must"
)

// A leading 0 does not make a number octal.
func TestDecimal(t *testing.T) {
	var c struct {
		N     *int
		Seed  uint64
		Bytes int64
		Wait  time.Duration
		Sizes []int `arg:"" optional:""`
	}
	k, err := Parser(&c)
	must.Do(t, err)
	if _, err := k.Parse([]string{"--n=010", "--seed=0x1F", "--bytes", "08", "--wait=1s", "007", "100"}); err != nil {
		t.Fatal(err)
	}
	if *c.N != 10 || c.Seed != 31 || c.Bytes != 8 || c.Wait != time.Second || c.Sizes[0] != 7 || c.Sizes[1] != 100 {
		t.Errorf("%d %+v", *c.N, c)
	}
	for arg, want := range map[string]string{
		"--n=1_0":        `--n: wanted a whole number, got "1_0"`,
		"--n=1e3":        `--n: wanted a whole number, got "1e3"`,
		"--seed=-1":      `--seed: wanted a whole number, got "-1"`,
		"--n=9e99":       `--n: wanted a whole number, got "9e99"`,
		"--bytes=0x":     `--bytes: wanted a whole number, got "0x"`,
		"--bytes":        "--bytes: the value is missing",
		"--bytes=\u0663": "--bytes: wanted a whole number, got \"\u0663\"",
	} {
		if _, err := k.Parse([]string{arg}); err == nil || Plain(err).Error() != want {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
