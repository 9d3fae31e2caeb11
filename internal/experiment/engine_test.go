package experiment

import (
	"fmt"
	"slices"
	"testing"

	"perigee/internal/fault"
)

func TestOneChoice(t *testing.T) {
	host := func(r int) string { return fmt.Sprint("node", r/2) }
	for _, same := range [][]string{{"auto"}, {"shm", "shm", "shm"}} {
		if err := oneChoice("engines", same, host); err != nil {
			t.Errorf("%v: %v", same, err)
		}
	}
	for _, test := range []struct {
		choices []string
		want    string
	}{
		{[]string{"auto", "shm", "auto"}, "ranks ask for different engines: auto (rank 0 on node0, rank 2 on node1); shm (rank 1 on node0)"},
		{slices.Concat(slices.Repeat([]string{"nixl"}, 6), []string{"auto"}),
			"ranks ask for different engines: nixl (rank 0 on node0, rank 1 on node0, rank 2 on node1, rank 3 on node1, 2 more); auto (rank 6 on node3)"},
	} {
		err := oneChoice("engines", test.choices, host)
		if err == nil || err.Error() != test.want || fault.KindOf(err) != fault.Usage || fault.HintOf(err) == "" {
			t.Errorf("%v: got %v, want %s", test.choices, err, test.want)
		}
	}
}
