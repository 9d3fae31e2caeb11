package moe_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/matrix"
)

func drawShape(t *rapid.T) moe.Shape {
	s := moe.Shape{Ranks: rapid.IntRange(1, 6).Draw(t, "ranks"), Tokens: rapid.IntRange(1, 20).Draw(t, "tokens"), Hidden: 128}
	s.Experts = s.Ranks * rapid.IntRange(1, 5).Draw(t, "experts per rank")
	s.TopK = rapid.IntRange(1, s.Experts).Draw(t, "topk")
	return s
}

func drawRouting(t *rapid.T, s moe.Shape) moe.Routing {
	r := moe.Routing{
		Family: rapid.SampledFrom(moe.Families()).Draw(t, "family"), Seed: rapid.Uint64().Draw(t, "seed"),
		Hot: rapid.Float64Range(0, 1).Draw(t, "hot"), HotExperts: rapid.IntRange(s.TopK, s.Experts).Draw(t, "hot experts"),
		Exponent: rapid.Float64Range(0, 4).Draw(t, "exponent"), Sigma: rapid.Float64Range(0, 4).Draw(t, "sigma"), Imbalance: 1,
		Masked: rapid.IntRange(0, s.Tokens*s.TopK).Draw(t, "masked"), Matrix: matrix.New(s.Ranks),
	}
	for i := range s.Experts {
		r.Loads = append(r.Loads, 1+rapid.Float64Range(0, 1e9).Draw(t, "load")*float64(i%2))
	}
	for i := range s.Ranks {
		for j := range s.Ranks {
			must.Do(t, r.Matrix.Set(i, j, rapid.Int64Range(0, 1000).Draw(t, "cell")))
		}
	}
	return r
}

// Whatever the family: experts exist, are different where that is promised, as many positions are masked as were
// asked for, the weights of a token sum to 1, and the same arguments give the same table.
func TestAnyRouting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t)
		r := drawRouting(t, shape)
		s, err := moe.Route(shape, r)
		if r.Family == "imbalance" && err != nil {
			return // a few tokens have no balance
		}
		must.Do(t, err)
		again, _ := moe.Route(shape, r)
		if !slices.Equal(s.Expert, again.Expert) || !slices.Equal(s.Weights, again.Weights) {
			t.Fatal("the same routing twice gives different tables")
		}
		masked := 0
		for token := range shape.WorldTokens() {
			experts, weights := s.Of(token)
			var sum float64
			for k, expert := range experts {
				sum += float64(weights[k])
				switch {
				case expert == moe.None:
					masked++
				case expert < 0 || int(expert) >= shape.Experts:
					t.Fatalf("token %d has expert %d", token, expert)
				case r.Replacement() == "without replacement" && slices.Contains(experts[:k], expert):
					t.Fatalf("token %d has expert %d twice", token, expert)
				}
			}
			if math.Abs(sum-1) > 1e-5 {
				t.Fatalf("the weights of token %d sum to %v", token, sum)
			}
		}
		if r.Family != "matrix" && masked != r.Masked*shape.Ranks {
			t.Fatalf("%d positions are masked, want %d of each rank", masked, r.Masked)
		}
		checkCensus(t, s)
	})
}

// checkCensus compares a census with a slow, simple count.
func checkCensus(t *rapid.T, s *moe.Selection) {
	p := moe.Contiguous(s.Shape)
	c := moe.Count(s, p)
	var copies, local, all int64
	for token := range s.WorldTokens() {
		visited := map[int]bool{}
		experts, _ := s.Of(token)
		for _, expert := range experts {
			if expert != moe.None {
				visited[int(expert)/s.ExpertsPerRank()] = true
				all++
			}
		}
		copies += int64(len(visited))
		if visited[token/s.Tokens] {
			local++
		}
	}
	if c.Assignments != all || c.RankCopies != copies || c.LocalCopies != local {
		t.Fatalf("counted %d, %d, %d; want %d, %d, %d", c.Assignments, c.RankCopies, c.LocalCopies, all, copies, local)
	}
	b := c.Bytes(100)
	if !(b.Remote <= b.Rank && b.Rank <= b.Assignment) || b.Remote != 100*(copies-local) {
		t.Fatalf("bytes %+v", b)
	}
}

// The matrix family gives each pair of ranks its exact share.
func TestMatrixRouting(t *testing.T) {
	shape := moe.Shape{Ranks: 4, Tokens: 96, Hidden: 128, Experts: 32, TopK: 8}
	m, err := moe.DistanceMatrix(4, 6<<20, 1)
	must.Do(t, err)
	s, err := moe.Route(shape, moe.Routing{Family: "matrix", Matrix: m})
	must.Do(t, err)
	c := moe.Count(s, moe.Contiguous(shape))
	for i, row := range c.Sent {
		for j, got := range row {
			if want := 128 * int64((j-i+4)%4); got != want {
				t.Errorf("rank %d sends %d assignments to %d, want %d", i, got, j, want)
			}
		}
	}
	for token := range shape.WorldTokens() {
		experts, _ := s.Of(token)
		for k, expert := range experts {
			if slices.Contains(experts[:k], expert) {
				t.Fatalf("token %d: %v", token, experts)
			}
		}
	}
}

func TestImbalance(t *testing.T) {
	shape := moe.Shape{Ranks: 8, Tokens: 512, Hidden: 128, Experts: 64, TopK: 4}
	for _, want := range []float64{1.5, 2, 4, 8} {
		s, err := moe.Route(shape, moe.Routing{Family: "imbalance", Seed: 9, Imbalance: want})
		must.Do(t, err)
		if got := moe.Count(s, moe.Contiguous(shape)).ExpertLoad.MaxOverMean(); math.Abs(got-want) > want/20 {
			t.Errorf("the busiest expert has %v times the mean, want %v", got, want)
		}
	}
	_, err := moe.Route(shape, moe.Routing{Family: "imbalance", Imbalance: 17})
	must.Fail(t, err, fault.Usage, "want 1 to 16")
}

// Loads drawn from a Zipf or load-file popularity follow it.
func TestPopularity(t *testing.T) {
	shape := moe.Shape{Ranks: 4, Tokens: 20000, Hidden: 128, Experts: 4, TopK: 1}
	for name, r := range map[string]moe.Routing{
		"zipf": {Family: "zipf", Exponent: 1}, "loads": {Family: "loads", Loads: []float64{12, 6, 4, 3}},
	} {
		s, err := moe.Route(shape, r)
		must.Do(t, err)
		for expert, n := range s.ExpertLoads() {
			want := 80000.0 * 12 / 25 / float64(expert+1)
			if math.Abs(float64(n)-want) > 5*math.Sqrt(want) {
				t.Errorf("%s: expert %d has %d tokens, want about %.0f", name, expert, n, want)
			}
		}
	}
	// An expert without load is never chosen, even where K takes all others.
	r := moe.Routing{Family: "loads", Loads: []float64{1, 0, 1e18, 1}}
	shape.TopK = 3
	s, err := moe.Route(shape, r)
	if err != nil || slices.Contains(s.Expert, 1) {
		t.Errorf("expert 1 was chosen, or %v", err)
	}
}

func TestWithout(t *testing.T) {
	shape := moe.Shape{Ranks: 4, Tokens: 30, Hidden: 128, Experts: 16, TopK: 4}
	s, _ := moe.Route(shape, moe.Routing{Family: "distinct"})
	p := moe.Contiguous(shape)
	c := moe.Count(s.Without(p, []int{1, 3}), p)
	if c.Received[1] != 0 || c.Received[3] != 0 || c.Received[0] != moe.Count(s, p).Received[0] {
		t.Errorf("received %v", c.Received)
	}
}

// A balanced placement holds every expert, spends all slots, and is never worse than the average bin plus the largest
// item, which bounds every greedy packing.
func TestAnyBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 3).Draw(t, "nodes")
		gpus := nodes * rapid.IntRange(1, 4).Draw(t, "gpus per node")
		groups := rapid.IntRange(1, 6).Draw(t, "groups")
		experts := groups * rapid.IntRange(1, 6).Draw(t, "experts per group")
		replicas := (experts + gpus - 1) / gpus * gpus
		replicas += gpus * rapid.IntRange(0, 3).Draw(t, "further")
		loads := rapid.SliceOfN(rapid.Float64Range(0, 1000), experts, experts).Draw(t, "loads")
		got, err := moe.Balance(loads, moe.Balancing{Replicas: replicas, Groups: groups, Nodes: nodes, GPUs: gpus})
		must.Do(t, err)
		if len(got.Logical) != replicas || len(got.GPULoad) != gpus || got.MaxOverMean < 1-1e-9 {
			t.Fatalf("%+v", got)
		}
		var sum, want float64
		for expert, load := range loads {
			want += load
			if !slices.Contains(got.Logical, expert) {
				t.Fatalf("expert %d has no place", expert)
			}
		}
		for _, load := range got.GPULoad {
			sum += load
		}
		if math.Abs(sum-want) > 1e-6*max(1, want) {
			t.Fatalf("the GPUs have %v of a load of %v", sum, want)
		}
	})
}

// The time grows with the slots, not with their product with experts or GPUs, which would be minutes here.
func TestManyReplicas(t *testing.T) {
	loads := make([]float64, 50_000)
	for i := range loads {
		loads[i] = float64(i*7919%1000) + 1
	}
	got, err := moe.Balance(loads, moe.Balancing{Replicas: 400_000, Groups: 1, Nodes: 1, GPUs: 40_000})
	if err != nil || len(got.Logical) != 400_000 || got.MaxOverMean > 1.01 {
		t.Errorf("%v, max/mean %v", err, got.MaxOverMean)
	}
}

func TestFit(t *testing.T) {
	line := func(alpha, rate float64, sizes ...float64) (list []moe.Point) {
		for _, n := range sizes {
			list = append(list, moe.Point{Bytes: n, Seconds: alpha + n/rate})
		}
		return list
	}
	exact := moe.FitLine(line(20e-6, 50e9, 1e6, 4e6, 16e6, 64e6))
	if exact.Refused != "" || exact.Starred || math.Abs(exact.Alpha-20e-6) > 1e-12 || math.Abs(exact.Rate-50e9) > 1 || exact.R2 < 1-1e-12 {
		t.Errorf("%+v", exact)
	}
	if scattered := moe.FitLine([]moe.Point{{1e6, 100e-6}, {4e6, 90e-6}, {16e6, 400e-6}}); !strings.Contains(scattered.Refused, "scatter") {
		t.Errorf("%+v", scattered)
	}
	random, held := rand.New(rand.NewPCG(5, 6)), 0
	for range 2000 {
		points := line(20e-6, 50e9, 1e6, 4e6, 16e6, 64e6)
		for i := range points {
			points[i].Seconds += 30e-6 * random.NormFloat64()
		}
		l := moe.FitLine(points)
		if l.AlphaLow <= 20e-6 && 20e-6 <= l.AlphaHigh && l.RateLow <= 50e9 && 50e9 <= l.RateHigh {
			held++
		}
	}
	if held < 1800 || held > 1960 { // both of two intervals of 95 % each, which depend on each other
		t.Errorf("%d of 2000 lines lie in their intervals", held)
	}
	if starred := moe.FitLine(line(20e-6, 50e9, 8e6, 16e6, 64e6)); !starred.Starred || starred.Refused != "" {
		t.Errorf("12.5 %%: %+v", starred)
	}
	// A slope of a tenth of the largest time, and then noise around it.
	points := line(90e-6, 64e6/10e-6, 1e6, 8e6, 16e6, 32e6, 64e6)
	for i, noise := range []float64{1, -1.5, 1, -1, 0.7} {
		points[i].Seconds += noise * 1e-6
	}
	if slow := moe.FitLine(points); slow.Refused != "not bandwidth-bound" || slow.R2 < 0.9 || slow.Share > 0.12 {
		t.Errorf("%+v", slow)
	}
	for i, noise := range []float64{30, -20, 10, -30, 10} {
		points[i].Seconds += noise * 1e-6
	}
	if poor := moe.FitLine(points); poor.Refused != "unreliable: poor fit" {
		t.Errorf("%+v", poor)
	}
	if below := moe.FitLine(line(-40e-6, 50e9, 4e6, 8e6, 16e6)); !strings.HasPrefix(below.Refused, "unreliable: time grows") {
		t.Errorf("%+v", below)
	}
	if few := moe.FitLine(points[:2]); few.Refused != "too few sizes" {
		t.Errorf("%+v", few)
	}
	ranks := []float64{2, 4, 8, 16}
	for exponent, shape := range map[float64]string{0: "constant", 0.5: "sublinear", 1: "linear", 1.5: "superlinear", 2: "quadratic or more"} {
		var seconds []float64
		for _, n := range ranks {
			seconds = append(seconds, 3e-3*math.Pow(n, exponent))
		}
		if g := moe.FitGrowth(ranks, seconds); g.Refused != "" || math.Abs(g.Exponent-exponent) > 1e-9 || g.Shape() != shape {
			t.Errorf("%v: %+v", exponent, g)
		}
	}
	few := moe.FitGrowth([]float64{2, 2, 4}, []float64{1, 1, 2})
	if none := moe.FitGrowth(ranks, []float64{1, 2, 0, 4}); few.Refused != "too few rank counts" || none.Refused != "some times are not positive" {
		t.Errorf("%+v, %+v", few, none)
	}
}

// The interval of a growth holds the true one 95 times of 100, and its shapes with it. From three times that scatter
// none is named.
func TestGrowthOfScatteredTimes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const runs = 2000
	draw := func(rounds int, scatter float64) moe.Growth {
		var ranks, seconds []float64
		for _, n := range []float64{2, 4, 8} {
			for range rounds {
				ranks, seconds = append(ranks, n), append(seconds, n*math.Exp(scatter*random.NormFloat64()))
			}
		}
		return moe.FitGrowth(ranks, seconds)
	}
	held, named, alone := 0, 0, 0
	for range runs {
		g := draw(5, 0.2)
		if g.Low <= 1 && 1 <= g.High {
			held++
			if !strings.Contains(g.Shape(), "linear") {
				t.Fatalf("%+v holds a linear growth, and is called %s", g, g.Shape())
			}
		}
		if g.Refused == "" {
			named++
		}
		if draw(1, 0.2).Refused == "" {
			alone++
		}
	}
	if held < runs*93/100 || held > runs*97/100 || named < runs*9/10 || alone > runs/4 {
		t.Errorf("of %d intervals %d hold the growth, %d are named; %d of three times", runs, held, named, alone)
	}
}

func TestReadLoads(t *testing.T) {
	got, err := moe.ReadLoads("f", strings.NewReader("# loads\n1 2.5,3\n\n4\t5e1 6 # last\n"))
	if err != nil || len(got) != 2 || !slices.Equal(got[1], []float64{4, 50, 6}) {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":              "empty text",
		"1 2\n\n3\n":    "f:3: wanted 2 loads, as in the first row (line 1), got 1",
		"1 x 3\n":       `f:1: load 2: wanted a number of 0 to 1e+18, got "x"`,
		"1,,2 3\n":      `f:1: load 2: wanted a number, got none before or after a comma`,
		"1, 2,\n":       `load 3: wanted a number, got none`,
		"1 -2\n":        `load 2: wanted a number of 0`,
		"NaN\n":         "load 1",
		"Inf\n":         "load 1",
		"1e300 1e300\n": "load 1",
	} {
		_, err := moe.ReadLoads("f", strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.Input {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func FuzzReadLoads(f *testing.F) {
	f.Add("1 2 3\n4 5 6\n")
	f.Add("# c\n1e18,0\n\n")
	fuzztest.Run(f, []string{"1 2\n", "3 1e10\n", "1", "2", "0", "9", ".", "e", "18", " ", ",", "\n", "#", "\t", "\r", "-"}, func(t *testing.T, text string) {
		layers, err := moe.ReadLoads("f", strings.NewReader(text))
		if err != nil {
			if fault.KindOf(err) != fault.Input {
				t.Errorf("%v is not of kind input", err)
			}
			return
		}
		var want [][]float64
		for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
			line, _, _ = strings.Cut(line, "#")
			var loads []float64
			for _, word := range strings.Fields(strings.ReplaceAll(line, ",", " ")) {
				x, _ := strconv.ParseFloat(word, 64)
				loads = append(loads, x)
			}
			if loads != nil {
				want = append(want, loads)
			}
		}
		if diff := cmp.Diff(want, layers); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
		for _, loads := range layers {
			n := len(loads)
			b, err := moe.Balance(loads, moe.Balancing{Replicas: n, Groups: 1, Nodes: 1, GPUs: 1})
			if err != nil || math.IsNaN(b.MaxOverMean) || len(b.Logical) != n {
				t.Errorf("%v: %+v, %v", loads, b, err)
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	good := moe.Shape{Ranks: 8, Tokens: 128, Hidden: 7168, Experts: 256, TopK: 8}
	for want, change := range map[string]func(s *moe.Shape, r *moe.Routing){
		"tokens is 0, want 1":                                        func(s *moe.Shape, _ *moe.Routing) { s.Tokens = 0 },
		"hidden is 7100, want a multiple of 128":                     func(s *moe.Shape, _ *moe.Routing) { s.Hidden = 7100 },
		"topk is 257, more than the 256 experts":                     func(s *moe.Shape, _ *moe.Routing) { s.TopK = 257 },
		"experts is 255, want a multiple of the 8 ranks":             func(s *moe.Shape, _ *moe.Routing) { s.Experts = 255 },
		"are more than 134217728 assignments":                        func(s *moe.Shape, _ *moe.Routing) { s.Tokens = 1 << 24 },
		"are more than 1048576 assignments, the most with this topk": func(s *moe.Shape, _ *moe.Routing) { s.Experts, s.TopK, s.Tokens = 1024, 1024, 129 },
		`unknown routing "round"`:                                    func(_ *moe.Shape, r *moe.Routing) { r.Family = "round" },
		"the share of hot tokens is NaN":                             func(_ *moe.Shape, r *moe.Routing) { r.Family, r.Hot = "khot", math.NaN() },
		"7 hot experts, want 8 (topk) to 256":                        func(_ *moe.Shape, r *moe.Routing) { r.Family, r.HotExperts = "khot", 7 },
		"loads of 0 experts, want 256":                               func(_ *moe.Shape, r *moe.Routing) { r.Family = "loads" },
		"1 experts have a load above 0, fewer than topk 8": func(_ *moe.Shape, r *moe.Routing) {
			r.Family, r.Loads = "loads", make([]float64, 256)
			r.Loads[3] = 1
		},
		"wanted a matrix":                       func(_ *moe.Shape, r *moe.Routing) { r.Family = "matrix" },
		"1025 masked positions, want 0 to 1024": func(_ *moe.Shape, r *moe.Routing) { r.Masked = 1025 },
	} {
		shape, r := good, moe.Routing{Family: "uniform"}
		change(&shape, &r)
		if _, err := moe.Route(shape, r); err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.Usage {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for want, b := range map[string]moe.Balancing{
		"replicas is 3, fewer than the 4 experts":      {3, 1, 1, 1},
		"replicas is 5, want a multiple of the 2 gpus": {5, 1, 1, 2},
		"gpus is 3, want a multiple of the 2 nodes":    {6, 1, 2, 3},
		"groups is 3, want a divisor of the 4 experts": {4, 3, 1, 1},
		"nodes is 0, want 1":                           {4, 1, 0, 1},
	} {
		if _, err := moe.Balance(make([]float64, 4), b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// What a token carries survives FP8, and every sabotage of E5 that changes a result changes it beyond the bounds.
func TestPayload(t *testing.T) {
	shape := moe.Shape{Ranks: 2, Tokens: 16, Hidden: 256, Experts: 8, TopK: 3}
	s, _ := moe.Route(shape, moe.Routing{Family: "distinct", Seed: 2})
	for _, payload := range []moe.Payload{moe.BF16, moe.FP8} {
		o := moe.NewOracle(shape.Hidden, payload, 77)
		out, ideal := make([]uint16, shape.Hidden), make([]float32, shape.Hidden)
		var d moe.Difference
		for token := range shape.WorldTokens() {
			if got := moe.Source(o.AtExpert(token)); got != token {
				t.Fatalf("%v: token %d arrives as %d", payload, token, got)
			}
			if q, _ := o.Quantized(token); moe.SourceFP8(q) != token {
				t.Fatalf("token %d is quantised as %d", token, moe.SourceFP8(q))
			}
			o.Output(out, s, token)
			o.Ideal(ideal, s, token)
			d.Add(out, out, ideal)
		}
		if got := d.Unshifted(); !(got < payload.Bound()) || got == 0 || d.Relative() != 0 {
			t.Errorf("%v: difference %v, relative %v", payload, got, d.Relative())
		}
		// Without the last assignment of token 5.
		o.Output(out, s, 5)
		broken := *s
		broken.Expert = slices.Clone(s.Expert)
		broken.Expert[5*shape.TopK+2] = moe.None
		dropped := make([]uint16, shape.Hidden)
		o.Output(dropped, &broken, 5)
		var wrong moe.Difference
		o.Ideal(ideal, s, 5)
		wrong.Add(dropped, out, ideal)
		if wrong.Relative() <= moe.MostRelative || wrong.Unshifted() <= payload.Bound() {
			t.Errorf("%v: a dropped token passes: %v, %v", payload, wrong.Relative(), wrong.Unshifted())
		}
	}
	seen := map[float32]int{}
	for expert := range 65536 {
		if other, ok := seen[moe.Factor(expert)]; ok {
			t.Fatalf("experts %d and %d have the same factor", other, expert)
		}
		seen[moe.Factor(expert)] = expert
	}
}

func TestDifferenceOfNothing(t *testing.T) {
	var d moe.Difference
	d.Add([]uint16{0, 0}, []uint16{0, 0}, []float32{0, 0})
	if d.Unshifted() != 0 || d.Shifted() != 0 || d.Relative() != 0 {
		t.Errorf("zeros differ: %v", d)
	}
	d.Add([]uint16{0x7fc0}, []uint16{0}, []float32{0})
	if !math.IsInf(d.Unshifted(), 1) || !math.IsInf(d.Relative(), 1) {
		t.Error("NaN passes")
	}
}

func BenchmarkRoute(b *testing.B) {
	shape := moe.Shape{Ranks: 8, Tokens: 128, Hidden: 7168, Experts: 288, TopK: 8}
	loads := make([]float64, shape.Experts)
	for i := range loads {
		loads[i] = rand.Float64()
	}
	for _, family := range []string{"uniform", "distinct", "keyed", "zipf", "loads"} {
		b.Run(family, func(b *testing.B) {
			for b.Loop() {
				if _, err := moe.Route(shape, moe.Routing{Family: family, Exponent: 1, Loads: loads}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
