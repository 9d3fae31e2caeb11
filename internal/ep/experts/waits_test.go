package experts

import (
	"math/rand/v2"
	"strings"
	"testing"

	"perigee/spmd"
)

// A wait that stands out is found among few ranks and among many, with its kind and its size, and nothing is said of
// waits that only scatter.
func TestVerdict(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{4, 5, 8, 64} {
		hosts := make([]string, n)
		for i := range hosts {
			hosts[i] = "h"
		}
		quiet := func() [][]float64 {
			rows := make([][]float64, n)
			for d := range rows {
				rows[d] = make([]float64, n)
				for s := range rows[d] {
					if s != d {
						rows[d][s] = 50 + 100*random.Float64()
					}
				}
			}
			return rows
		}
		for range 20 {
			for _, c := range []struct {
				name  string
				cause func(rows [][]float64, rank, other int)
				want  string
			}{
				{"nothing", func([][]float64, int, int) {}, ""},
				{"a source", func(rows [][]float64, rank, _ int) {
					for d := range rows {
						if d != rank {
							rows[d][rank] += 500
						}
					}
				}, "op: all wait for rank 2 (h): "},
				{"a source that was stopped, and waits meanwhile", func(rows [][]float64, rank, _ int) {
					for d := range rows {
						if d != rank {
							rows[d][rank], rows[rank][d] = rows[d][rank]+2200, rows[rank][d]+500
						}
					}
				}, "op: all wait for rank 2 (h): "},
				{"a destination", func(rows [][]float64, rank, _ int) {
					for s := range rows {
						if s != rank {
							rows[rank][s] += 500
						}
					}
				}, "op: rank 2 (h) waits for all: "},
				{"a pair", func(rows [][]float64, rank, other int) { rows[rank][other] += 5000 }, "op: rank 2 (h) waits for rank 1 (h): "},
				{"all", func(rows [][]float64, _, _ int) {
					for d := range rows {
						for s := range rows {
							if s != d {
								rows[d][s] += 5000
							}
						}
					}
				}, ""},
			} {
				rows := quiet()
				c.cause(rows, 2, 1)
				got, _ := verdict("op", rows, [][][]float64{rows, rows}, hosts, 1000)
				if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
					t.Errorf("%d ranks, %s: %q, want %q", n, c.name, got, c.want)
				}
			}
		}
	}
	alone := [][]float64{{0, 0, 90, 0}, {0, 0, 90, 0}, {0, 0, 0, 0}, {0, 0, 90, 0}}
	hosts := []string{"a", "b", "c", "d"}
	if got, _ := verdict("op", alone, [][][]float64{alone, alone}, hosts, 1000); got != "op: all wait for rank 2 (c): 90.0 us, and no others wait; "+eitherWay {
		t.Error(got)
	}
	if got, _ := verdict("op", alone, [][][]float64{alone, alone}, hosts, 1e5); got != "" {
		t.Errorf("waits of 0.02 %% of the time: %s", got)
	}
	apart := [][]float64{{0, 10, 60, 10}, {10, 0, 60, 10}, {10, 10, 0, 10}, {10, 10, 60, 0}}
	if got, _ := verdict("op", apart, [][][]float64{apart, apart}, hosts, 1000); got != "op: all wait for rank 2 (c): 60.0 us, 6.0 times as long as the others on average; "+eitherWay {
		t.Error(got)
	}
}

// Waits between hosts are longer than within. That is said, and what stands out among them is found all the same: a rank,
// a host, or one way between two hosts.
func TestVerdictOfHosts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{2, 3, 4, 8} {
		const each = 4
		hosts := make([]string, n*each)
		for i := range hosts {
			hosts[i] = string(rune('a' + i/each))
		}
		made := func(within, across float64, cause func(d, s int) float64) [][]float64 {
			rows := make([][]float64, len(hosts))
			for d := range rows {
				rows[d] = make([]float64, len(hosts))
				for s := range rows[d] {
					switch {
					case s == d:
					case hosts[s] == hosts[d]:
						rows[d][s] = within * (0.5 + random.Float64()) * cause(d, s)
					default:
						rows[d][s] = across * (0.5 + random.Float64()) * cause(d, s)
					}
				}
			}
			return rows
		}
		one := func(int, int) float64 { return 1 }
		for range 20 {
			for _, c := range []struct {
				name           string
				within, across float64
				cause          func(d, s int) float64
				want           string
				hosts          int // that it takes
			}{
				{"nothing", 100, 110, one, "", 2},
				{"twice as long between hosts", 100, 200, one, "", 2},
				{"ten times as long between hosts", 10, 100, one, "op: ranks wait for those on other hosts: ", 2},
				{"within hosts", 100, 10, one, "op: ranks wait for those on their own host: ", 2},
				{"a rank", 10, 100, func(_, s int) float64 {
					if s == 5 {
						return 20
					}
					return 1
				}, "op: all wait for rank 5 (b): ", 2},
				{"a host", 10, 100, func(_, s int) float64 {
					if hosts[s] == "b" {
						return 20
					}
					return 1
				}, "op: all wait for host b: ", 3},
				{"a host that waits", 100, 100, func(d, s int) float64 {
					if hosts[d] == "b" && hosts[s] != "b" {
						return 20
					}
					return 1
				}, "op: host b waits for all: ", 3},
				{"one way", 10, 100, func(d, s int) float64 {
					if hosts[d] == "a" && hosts[s] == "b" {
						return 20
					}
					return 1
				}, "op: host a waits for host b: ", 2},
			} {
				if n < c.hosts {
					continue
				}
				rows := made(c.within, c.across, c.cause)
				got, _ := verdict("op", rows, [][][]float64{rows, rows}, hosts, 1000)
				if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
					t.Errorf("%d hosts, %s: %q, want %q", n, c.name, got, c.want)
				}
			}
		}
	}
}

// What only one half of the iterations shows is chance, and no name is given.
func TestVerdictOfHalves(t *testing.T) {
	quiet := func() [][]float64 {
		return [][]float64{{0, 60, 50, 60}, {50, 0, 60, 50}, {60, 50, 0, 60}, {50, 60, 50, 0}}
	}
	late := func(rank int, us float64) [][]float64 {
		rows := quiet()
		for d := range rows {
			if d != rank {
				rows[d][rank] += us
			}
		}
		return rows
	}
	hosts := []string{"h", "h", "h", "h"}
	for _, c := range []struct {
		name        string
		first, last [][]float64
		want        string
	}{
		{"once", late(2, 2000), quiet(), ""},
		{"another one each time", late(2, 2000), late(1, 500), ""},
		{"again", late(2, 2000), late(2, 300), "all wait for rank 2 (h)"},
		{"again, by less than alone would do", late(2, 2000), late(2, 60), "all wait for rank 2 (h)"},
		{"hardly again", late(2, 2000), late(2, 20), ""},
	} {
		rows := quiet()
		for d := range rows {
			for s := range rows[d] {
				rows[d][s] = (c.first[d][s] + c.last[d][s]) / 2
			}
		}
		text, named := verdict("op", rows, [][][]float64{c.first, c.last}, hosts, 1000)
		if named != c.want || (text == "") != (c.want == "") {
			t.Errorf("%s: %q, %q; want %q", c.name, text, named, c.want)
		}
	}
}

// What steady iterations show but fresh ones did not is said to be doubtful.
func TestVerdictOfSteadyIterations(t *testing.T) {
	measured := func(p *Plane, entry Entry, named string) string {
		f := &PlaneFigures{Verdict: "dispatch: " + named, Named: named}
		p.doubt(Dispatch, entry, f)
		if doubted := strings.Contains(f.Verdict, "it may be chance"); doubted != (named != f.Named) {
			t.Errorf("%q became %q", named, f.Verdict)
		}
		return f.Named
	}
	for _, c := range []struct{ fresh, steady, want string }{{"a", "a", "a"}, {"a", "b", ""}, {"", "b", ""}, {"a", "", ""}} {
		p := &Plane{}
		if got := measured(p, Steady, c.steady); got != c.steady {
			t.Errorf("without fresh iterations: %q, want %q", got, c.steady)
		}
		if got := measured(p, Fresh, c.fresh); got != c.fresh {
			t.Errorf("fresh: %q, want %q", got, c.fresh)
		}
		if got := measured(p, Steady, c.steady); got != c.want {
			t.Errorf("steady, %q after %q: %q, want %q", c.steady, c.fresh, got, c.want)
		}
	}
}

// Steady iterations that take far longer than fresh ones have a reason where ranks wait for a CPU, and only there.
func TestSlowerSteadyIterations(t *testing.T) {
	crowded := []spmd.Host{{Name: "a", CPUs: 8, Ranks: []int{0}}, {Name: "b", CPUs: 2, Ranks: []int{1, 2, 3, 4}}}
	for _, c := range []struct {
		fresh, steady float64 // 0 for none
		hosts         []spmd.Host
		want          string
	}{
		{14.5, 34.6, crowded, "; steady iterations took 2.4 times as long as fresh ones: b has 2 CPUs for 4 ranks, and ranks that poll"},
		{14.5, 34.6, crowded[:1], ""}, {14.5, 18, crowded, ""}, {34.6, 14.5, crowded, ""}, {0, 34.6, crowded, ""},
	} {
		p, of := &Plane{}, func(us float64) *PlaneFigures { return &PlaneFigures{Latency: Summary{Avg: us}} }
		if first := of(c.fresh); c.fresh > 0 {
			p.slower(EndToEnd, Fresh, first, c.hosts)
			p.slower(Combine, Fresh, of(1), c.hosts)
			if first.Verdict != "" {
				t.Error(first.Verdict)
			}
		}
		f := of(c.steady)
		p.slower(EndToEnd, Steady, f, c.hosts)
		if !strings.HasPrefix(f.Verdict, c.want) || c.want == "" && f.Verdict != "" {
			t.Errorf("%+v: %q", c, f.Verdict)
		}
	}
}
