package compare

import (
	"testing"

	"perigee/internal/result"
)

// Runs of several hosts are not repeated on one.
func TestAdvice(t *testing.T) {
	c := Cmd{Old: "a b.json", New: "c.json"}
	on := func(hosts int) *result.Document {
		return &result.Document{World: result.World{Hosts: make([]result.Host, hosts)}}
	}
	for _, d := range []struct {
		old, new int
		want     string
	}{
		{1, 1, "perigee rerun 'a b.json' c.json --times 5"},
		{1, 2, "under the launcher of the runs, on as many hosts, 5 times each: perigee rerun 'a b.json' --result before/N.json.zst and perigee rerun c.json --result after/N.json.zst (N: 1 to 5), and in the end perigee compare before after"},
	} {
		if got := c.advice(5, []*result.Document{on(d.old), on(d.new)}); got != d.want {
			t.Errorf("%d and %d hosts: %s", d.old, d.new, got)
		}
	}
}
