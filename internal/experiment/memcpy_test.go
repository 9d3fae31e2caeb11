package experiment

import (
	"testing"
	"time"
)

// The rates are possible ones of a machine, and all sizes together take little time.
func TestTimeCopies(t *testing.T) {
	began := time.Now()
	list := timeCopies()
	took := time.Since(began)
	if len(list) != len(copySizes) || took > 5*time.Second {
		t.Fatalf("%d sizes in %s", len(list), took)
	}
	for i, c := range list {
		if c.Bytes != copySizes[i] || c.Rate < 1e7 || c.Rate > 1e13 {
			t.Errorf("%+v", c)
		}
	}
}
