package experiment

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fault"
	"perigee/internal/result"
	"perigee/spmd"
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

// Values of variables travel only where ranks have different ones.
func TestKeepVariables(t *testing.T) {
	for _, c := range []struct {
		name string
		own  [3]map[string]string
		want *result.Environment
	}{
		{"alike", [3]map[string]string{{"UCX_TLS": "rc"}, {"UCX_TLS": "rc"}, {"UCX_TLS": "rc"}},
			&result.Environment{Variables: map[string]string{"UCX_TLS": "rc"}, ByRank: map[string][]result.ValueAt{}}},
		{"one differs", [3]map[string]string{{"UCX_IB_SL": "1"}, {"UCX_IB_SL": "1"}, {"UCX_IB_SL": "3"}},
			&result.Environment{Variables: map[string]string{}, ByRank: map[string][]result.ValueAt{
				"UCX_IB_SL": {{Value: "1", Ranks: []int{0, 1}}, {Value: "3", Ranks: []int{2}}}}}},
	} {
		worlds, _ := spmd.NewInMemory(3)
		var digests []string
		for _, own := range c.own {
			digests = append(digests, digestOf(own))
		}
		var ranks sync.WaitGroup
		var doc *result.Document
		for r, w := range worlds {
			e := Begin(Config{World: w})
			if r == 0 {
				doc = e.Doc
			}
			ranks.Go(func() {
				if err := e.keepVariables(c.own[r], digests); err != nil {
					t.Errorf("%s: rank %d: %v", c.name, r, err)
				}
			})
		}
		ranks.Wait()
		if diff := cmp.Diff(c.want, doc.Environment); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		sent := int64(0)
		for _, w := range worlds {
			sent += w.Wire().Messages
		}
		if differ := len(c.want.ByRank) > 0; differ != (sent > 0) {
			t.Errorf("%s: %d messages", c.name, sent)
		}
	}
}
