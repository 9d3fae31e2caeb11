package runs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
)

func TestNaturalIsAnOrder(t *testing.T) {
	word := rapid.StringOfN(rapid.SampledFrom([]rune("aR 0129")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		if Natural(a, b) != -Natural(b, a) || (Natural(a, b) == 0) != (a == b) {
			t.Fatalf("%q against %q is %d, the other way %d", a, b, Natural(a, b), Natural(b, a))
		}
		if Natural(a, b) <= 0 && Natural(b, c) <= 0 && Natural(a, c) > 0 {
			t.Fatalf("%q <= %q <= %q, but %[1]q > %[3]q", a, b, c)
		}
	})
	list := []string{"10R TP4", "2R TP16", "2R TP4", "2R TP04", "1P TP2, 3D TP2", ""}
	slices.SortFunc(list, Natural)
	must.Equal(t, []string{"", "1P TP2, 3D TP2", "2R TP04", "2R TP4", "2R TP16", "10R TP4"}, list)
}

func host(role Role, tp float64) Host {
	return Host{Role: role, GPU: "H100", TP: tp, DP: 1, PP: 1, EP: 1, GPUs: tp}
}

// The order in which a report lists its engines means nothing.
func TestNameDoesNotDependOnOrder(t *testing.T) {
	r := New("f")
	r.Hosts = []Host{host(Prefill, 1), host(Decode, 8), host(Prefill, 1), host(Decode, 4), host(Replica, 2), host(Decode, 4)}
	for range 20 {
		rand.Shuffle(len(r.Hosts), func(i, j int) { r.Hosts[i], r.Hosts[j] = r.Hosts[j], r.Hosts[i] })
		if got := r.Name(); got != "1R TP2, 2P TP1, 2D TP4 + 1D TP8" {
			t.Fatal(got)
		}
	}
}

// Sorting and grouping give the same whatever order runs come in, and lose none.
func TestGroupsDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *Record {
			r := New(rapid.StringMatching(`f[0-9]{6}`).Draw(t, "file"))
			r.Model = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "model")
			r.ISL = rapid.SampledFrom([]float64{100, 1000, math.NaN()}).Draw(t, "isl")
			r.Directory = rapid.SampledFrom([]string{"/x/1", "/x/2"}).Draw(t, "directory")
			r.Concurrency = rapid.SampledFrom([]float64{1, 8, math.Inf(1), math.NaN()}).Draw(t, "concurrency")
			r.Hosts = []Host{host(Role(rapid.IntRange(0, 2).Draw(t, "role")), float64(rapid.IntRange(1, 2).Draw(t, "tp")))}
			return r
		}), 0, 30).Draw(t, "runs")
		slices.SortFunc(all, func(a, b *Record) int { return Natural(a.File, b.File) })
		all = slices.CompactFunc(all, func(a, b *Record) bool { return a.File == b.File })
		groups := func() (list [][]string) {
			Sort(all)
			for _, sc := range Scenarios(all) {
				for _, byDirectory := range []bool{false, true} {
					for _, c := range Configurations(sc.Runs, byDirectory) {
						group := []string{sc.Key.String(), c.Title()}
						for _, r := range c.Runs {
							group = append(group, r.File)
						}
						list = append(list, group)
					}
				}
			}
			return list
		}
		want := groups()
		count := 0
		for _, g := range want {
			count += len(g) - 2
		}
		if count != 2*len(all) {
			t.Fatalf("%d runs in the groups of %d", count, len(all))
		}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		must.Equal(t, want, groups())
	})
}

func TestShortNames(t *testing.T) {
	for _, c := range []struct{ paths, want []string }{
		{[]string{"/data/me/sweep1", "/data/me/sweep2"}, []string{"sweep1", "sweep2"}},
		{[]string{"/a/x/run", "/a/y/run"}, []string{"x/run", "y/run"}},
		{[]string{"/a/run", "/a/b/run", "/a"}, []string{"a/run", "b/run", "a"}},
		{[]string{"/run", "/x/run"}, []string{"/run", "x/run"}},
		{[]string{"/a/x-run", "/a/run"}, []string{"x-run", "run"}},
		{[]string{"/"}, []string{""}},
	} {
		short := ShortNames(c.paths)
		for i, p := range c.paths {
			if short[p] != c.want[i] {
				t.Errorf("%v: %s became %q, want %q", c.paths, p, short[p], c.want[i])
			}
		}
	}
}

// The names of many folders are found without comparing each with each, which takes minutes.
func TestShortNamesOfMany(t *testing.T) {
	const n = 200_000
	var paths []string
	for i := range n {
		paths = append(paths, fmt.Sprintf("/data/%d/run", i))
	}
	short := ShortNames(paths)
	if got := short["/data/777/run"]; len(short) != n || got != "777/run" {
		t.Errorf("%d names, one is %q", len(short), got)
	}
}

// Every column of the original is there, under its name and in its order.
func TestOriginalColumns(t *testing.T) {
	want := []string{
		"Name", "Directory", "Model", "GPU", "DP", "TP", "PP", "EP", "Replicas", "P_DP", "P_TP", "P_PP", "P_EP", "P_Replicas", "D_DP", "D_TP", "D_PP", "D_EP", "D_Replicas",
		"Concurrency", "ISL", "OSL", "Backend", "Duration", "Completed", "Request_Throughput", "Output_Token_Throughput", "Total_Token_Throughput",
		"Mean_TTFT_ms", "Mean_TPOT_ms", "Mean_ITL_ms", "Mean_E2EL_ms", "Is_PD", "Num_GPUs", "Thpt_per_GPU", "Thpt_per_User", "Thpt_per_User_TPOT",
	}
	var got []string
	for _, c := range Originals() {
		got = append(got, c.Name)
	}
	must.Equal(t, want, got)
	seen := map[string]bool{}
	for _, c := range Columns() {
		if seen[c.Name] || c.Help == "" {
			t.Errorf("%s is there twice or has no help", c.Name)
		}
		seen[c.Name] = true
	}
}
