package crowd

import "testing"

// Short says what is less than a CPU for each rank.
func TestShort(t *testing.T) {
	two := &Machine{Hosts: []string{"a", "b"}, Ranks: 4, CPUs: 2}
	many := &Machine{Hosts: []string{"a", "b", "c", "d", "e", "f"}, Ranks: 9, CPUs: 1}
	for _, c := range []struct {
		host Host
		text string
		want float64
	}{
		{Host{Name: "a", Ranks: 2, CPUs: 2}, "", 1},
		{Host{Name: "a", Ranks: 2}, "", 1}, // of an earlier version
		{Host{Name: "a", Ranks: 2, CPUs: 1}, "a has 1 CPU for 2 ranks", 0.5},
		{Host{Name: "a", Ranks: 2, CPUs: 2, Quota: 0.5}, "a has a CPU quota of 0.5 for 2 ranks", 0.25},
		{Host{Name: "a", Ranks: 2, CPUs: 2, Machine: two}, "a and b are one machine, with 2 CPUs for 4 ranks", 0.5},
		{Host{Name: "a", Ranks: 1, CPUs: 1, Machine: many},
			"a, b, c, d and 2 more hosts are one machine, with 1 CPU for 9 ranks", 1. / 9},
	} {
		if text, share := c.host.Short(); text != c.text || share != c.want {
			t.Errorf("%+v: %q, %v; want %q, %v", c.host, text, share, c.text, c.want)
		}
	}
}
