package runs

import (
	"fmt"
	"testing"

	"perigee/internal/kit/must"
)

// level is a run of a client's folder.
func level(folder string, concurrency, rate, e2el float64) *Record {
	r := New(fmt.Sprintf("%s/c%g.json", folder, concurrency))
	r.Label, r.Transfer = folder, false
	r.Concurrency, r.OutputRate = concurrency, rate
	r.Hosts = []Host{{GPUs: 8, TP: 8, DP: 1, PP: 1, EP: 1}}
	r.Set(E2EL, Mean, e2el)
	r.Set(TTFT, P90, e2el/10)
	return r
}

// The sentence names the configuration and the level, with SLOs and without.
func TestBest(t *testing.T) {
	var all []*Record
	for _, p := range [][3]float64{{1, 100, 1000}, {4, 380, 1050}, {16, 1200, 1300}, {64, 1500, 4000}, {256, 1520, 16000}} {
		all = append(all, level("a", p[0], p[1], p[2]))
	}
	for _, r := range all {
		r.Hosts[0].TP = 4
	}
	for _, p := range [][3]float64{{1, 60, 1500}, {4, 200, 1700}, {16, 600, 2500}, {64, 1600, 30000}} {
		all = append(all, level("b", p[0], p[1], p[2]))
	}
	slo := func(text string) []SLO {
		s, err := ParseSLO(text)
		must.Do(t, err)
		return []SLO{s}
	}
	for want, got := range map[string]string{
		"best knee: 1R TP4 at concurrency 64, 187.5 tok/s/GPU, mean E2EL 4 s; the highest rate is that of 1R TP8 at concurrency 64, 200 tok/s/GPU, mean E2EL 30 s": Best(all, nil),
		"best within P90_TTFT_ms<=500: 1R TP4 at concurrency 64, 187.5 tok/s/GPU":                                                                                  Best(all, slo("P90_TTFT_ms<=500")),
		"no run has P99_TTFT_ms, on which there is an SLO":                                                                                                         Best(all, slo("P99_TTFT_ms<=5")),
		"no run is within P90_TTFT_ms<=5":                                        Best(all, slo("P90_TTFT_ms<=5")),
		"highest rate of output tokens: 1R TP4 at concurrency 16, 150 tok/s/GPU": Best(all[:3], nil),
		"": Best(all[:1], nil),
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	all[4].OffFront = []string{"no request was answered"}
	all[8].OffFront, all[3].Hosts = []string{"it took no time"}, nil
	const want = "highest rate of output tokens: unknown engines at concurrency 64, 1500 tok/s; 2 of 9 runs left out, for one: " +
		"no request was answered"
	if got := Best(all, nil); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
