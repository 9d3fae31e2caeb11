package job

import (
	"slices"
	"testing"

	"perigee/spmd"
)

func TestCrowded(t *testing.T) {
	host := func(name string, cpus, ranks int) spmd.Host {
		return spmd.Host{Name: name, CPUs: cpus, Ranks: make([]int, ranks)}
	}
	for _, tt := range []struct {
		hosts []spmd.Host
		want  []string
	}{
		{[]spmd.Host{host("a", 64, 8), host("b", 8, 8)}, nil},
		{[]spmd.Host{host("a", 1, 2)}, []string{"a has 1 CPU for 2 ranks: their waits for a CPU are in the figures"}},
		{
			[]spmd.Host{host("a", 2, 3), host("b", 4, 16), host("c", 8, 8), host("d", 4, 5)},
			[]string{"b has 4 CPUs for 16 ranks: their waits for a CPU are in the figures; so in 2 hosts more"},
		},
	} {
		if got := crowded(tt.hosts); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.hosts, got, tt.want)
		}
	}
}
