package moe_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/must"
)

// golden is testdata/ep.json: known answers from CollectiveX, EPLB and nccl-tests.
type golden struct {
	Routing struct {
		First [][]int32 `json:"first_two_tokens"`
		Rows  []struct {
			Ranks         int     `json:"ep"`
			Tokens        int     `json:"tokens_per_rank"`
			Experts       int     `json:"experts"`
			TopK          int     `json:"topk"`
			Hidden        int     `json:"hidden"`
			Seed          uint64  `json:"seed"`
			Copies        int64   `json:"routed_copies"`
			Local         int64   `json:"local_copies"`
			FanoutMin     int64   `json:"fanout_min"`
			FanoutMax     int64   `json:"fanout_max"`
			LoadMin       int64   `json:"expert_load_min"`
			LoadMax       int64   `json:"expert_load_max"`
			CopiesPerRank []int64 `json:"payload_copies_per_rank"`
			PerRank       []int64 `json:"assignments_per_rank"`
			BF16Rank      int64   `json:"bf16_rank_dedup_bytes"`
			BF16          int64   `json:"bf16_per_assignment_bytes"`
			FP8Rank       int64   `json:"fp8_rank_dedup_bytes"`
			FP8           int64   `json:"fp8_per_assignment_bytes_deepep_ll"`
		} `json:"rows"`
	} `json:"routing_blake2b"`
	EPLB struct {
		Replicas, Groups, Nodes, GPUs int
		Layers                        []struct {
			Weight       []float64 `json:"weight"`
			Hierarchical []int     `json:"hierarchical_phy2log"`
			Count        []int     `json:"logcnt"`
			Load         []float64 `json:"gpu_load"`
			Global       []int     `json:"global_phy2log_our_port_not_published"`
			GlobalLoad   []float64 `json:"global_gpu_load"`
		}
	}
	Matrices map[string][][]int64 `json:"nccl_tests_alltoallv"`
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	data := must.Read(t, "testdata/ep.json")
	must.Do(t, json.Unmarshal(data, &g))
	return g
}

func TestKeyedRouting(t *testing.T) {
	g := readGolden(t)
	if len(g.Routing.Rows) != 3 {
		t.Fatalf("%d rows", len(g.Routing.Rows))
	}
	for _, row := range g.Routing.Rows {
		shape := moe.Shape{Ranks: row.Ranks, Tokens: row.Tokens, Hidden: row.Hidden, Experts: row.Experts, TopK: row.TopK}
		s, err := moe.Route(shape, moe.Routing{Family: "keyed", Seed: row.Seed})
		must.Do(t, err)
		for token, want := range g.Routing.First {
			if got, _ := s.Of(token); !cmp.Equal(got, want) {
				t.Errorf("token %d: got %v, want %v", token, got, want)
			}
		}
		c := moe.Count(s, moe.Contiguous(shape))
		bf16, fp8 := c.Bytes(moe.BF16.TokenBytes(row.Hidden)), c.Bytes(moe.FP8.TokenBytes(row.Hidden))
		for _, figure := range []struct {
			name      string
			got, want int64
		}{
			{"rank copies", c.RankCopies, row.Copies}, {"local copies", c.LocalCopies, row.Local},
			{"least fan-out", c.Fanout.Min, row.FanoutMin}, {"most fan-out", c.Fanout.Max, row.FanoutMax},
			{"least load", c.ExpertLoad.Min, row.LoadMin}, {"most load", c.ExpertLoad.Max, row.LoadMax},
			{"BF16 by rank", bf16.Rank, row.BF16Rank}, {"BF16 by assignment", bf16.Assignment, row.BF16},
			{"FP8 by rank", fp8.Rank, row.FP8Rank},
			{"FP8 by assignment", moe.DispatchBytes(c.Assignments, row.Hidden, moe.FP8), row.FP8},
		} {
			if figure.got != figure.want {
				t.Errorf("%d tokens, %s: got %d, want %d", row.Tokens, figure.name, figure.got, figure.want)
			}
		}
		if !cmp.Equal(c.Received, row.PerRank) || !cmp.Equal(c.Copies, row.CopiesPerRank) {
			t.Errorf("%d tokens: got %v and %v, want %v and %v", row.Tokens, c.Received, c.Copies, row.PerRank, row.CopiesPerRank)
		}
	}
}

func TestPublishedBytes(t *testing.T) {
	const hidden = 7168
	if got := moe.DispatchBytes(128*8, hidden, moe.FP8); got != 7585792 {
		t.Errorf("dispatch: %d", got)
	}
	if got := moe.CombineBytes(128*8, hidden); got != 14680064 {
		t.Errorf("combine: %d", got)
	}
	shape := moe.Shape{Ranks: 8, Tokens: 128, Hidden: hidden, Experts: 288, TopK: 8}
	s, err := moe.Route(shape, moe.Routing{Family: "distinct", Seed: 1, Masked: 10})
	must.Do(t, err)
	named := make([]int64, shape.Ranks)
	for i, expert := range s.Expert {
		if expert != moe.None {
			named[i/shape.TopK/shape.Tokens]++
		}
	}
	for rank, n := range named {
		if n != 1014 {
			t.Errorf("rank %d has %d selections", rank, n)
		}
	}
	dispatch, combine := moe.DispatchBytes(1014, hidden, moe.FP8), moe.CombineBytes(1014, hidden)
	if dispatch != 7511712 || combine != 14536704 {
		t.Errorf("%d and %d bytes", dispatch, combine)
	}
	// DeepEP's published times in us, and its rounded GB/s.
	for i, us := range []float64{77, 118, 155, 173, 192, 194} {
		published := []float64{98, 63, 48, 43, 39, 39}[i]
		if got := float64(dispatch) / us / 1e3; math.Abs(got-published) > 1 {
			t.Errorf("%v us: %v GB/s, published %v", us, got, published)
		}
	}
}

func TestBufferHint(t *testing.T) {
	if got := moe.BufferHint(128, 7168, 288); got != 2146964096 {
		t.Errorf("%d bytes", got)
	}
	if got := moe.BufferHint(512, 4096, 64); got != 1090520192 {
		t.Errorf("%d bytes", got)
	}
}

func TestBalance(t *testing.T) {
	e := readGolden(t).EPLB
	for _, layer := range e.Layers {
		for _, test := range []struct {
			groups, nodes int
			want          []int
			load          []float64
		}{{e.Groups, e.Nodes, layer.Hierarchical, layer.Load}, {1, 1, layer.Global, layer.GlobalLoad}, {3, 2, layer.Global, layer.GlobalLoad}} {
			got, err := moe.Balance(layer.Weight, moe.Balancing{Replicas: e.Replicas, Groups: test.groups, Nodes: test.nodes, GPUs: e.GPUs})
			must.Do(t, err)
			if !cmp.Equal(got.Logical, test.want) || !cmp.Equal(got.GPULoad, test.load) {
				t.Errorf("%d groups: got %v, %v; want %v, %v", test.groups, got.Logical, got.GPULoad, test.want, test.load)
			}
			p := moe.NewPlacement(got.Logical, len(layer.Weight), e.Replicas/e.GPUs)
			for expert, want := range layer.Count {
				if test.groups == e.Groups && p.Replicas(expert) != want {
					t.Errorf("expert %d has %d replicas, want %d", expert, p.Replicas(expert), want)
				}
			}
		}
	}
	// The second published layer.
	second := []float64{20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27}
	got, err := moe.Balance(second, moe.Balancing{Replicas: 16, Groups: 4, Nodes: 2, GPUs: 8})
	must.Do(t, err)
	if want := []int{7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1}; !cmp.Equal(got.Logical, want) {
		t.Errorf("got %v, want %v", got.Logical, want)
	}
}

func TestDistanceMatrix(t *testing.T) {
	for name, want := range readGolden(t).Matrices {
		var n int
		var total int64
		var spread float64
		if _, err := fmt.Sscanf(name, "n=%d total=%d spread=%g", &n, &total, &spread); err != nil {
			t.Fatal(err)
		}
		wantMatrix(t, n, total, spread, want)
	}
	wantMatrix(t, 4, 6291456, 0.5, [][]int64{{786432, 1310720, 1835008, 2359296}})
	wantMatrix(t, 3, 100, 0, [][]int64{{32, 32, 32}, {32, 32, 32}, {32, 32, 32}})
}

func wantMatrix(t *testing.T, n int, total int64, spread float64, want [][]int64) {
	t.Helper()
	m, err := moe.DistanceMatrix(n, total, spread)
	must.Do(t, err)
	for i, row := range want {
		for j, bytes := range row {
			if m.At(i, j) != bytes {
				t.Errorf("%d ranks, spread %v: cell %d, %d is %d, want %d", n, spread, i, j, m.At(i, j), bytes)
			}
		}
	}
}

func TestHotTokens(t *testing.T) {
	shape := moe.Shape{Ranks: 8, Tokens: 128, Hidden: 128, Experts: 256, TopK: 8}
	s, err := moe.Route(shape, moe.Routing{Family: "khot", Seed: 3, Hot: 0.9, HotExperts: 32})
	must.Do(t, err)
	hot := 0
	for token := range shape.WorldTokens() {
		experts, _ := s.Of(token)
		all := true
		for _, expert := range experts {
			all = all && expert < 32
		}
		if all {
			hot++
		}
	}
	c := moe.Count(s, moe.Contiguous(shape))
	rest := c.Assignments - c.Received[0]
	if hot != 921 || rest > 103*8 {
		t.Errorf("%d hot tokens, %d assignments to ranks 1 to 7", hot, rest)
	}
}

func TestMeanFanout(t *testing.T) {
	for _, test := range []struct {
		ranks                 int
		distinct, replacement float64
	}{{8, 5.29465, 5.25113}, {16, 6.52328, 6.45249}, {32, 7.26680, 7.17760}} {
		shape := moe.Shape{Ranks: test.ranks, Tokens: 8192 / test.ranks * 8, Hidden: 128, Experts: 256, TopK: 8}
		for _, family := range []struct {
			name string
			want float64
		}{{"distinct", test.distinct}, {"keyed", test.distinct}, {"uniform", test.replacement}} {
			if got := shape.MeanFanout(family.name == "uniform"); math.Abs(got-family.want) > 1e-5 {
				t.Errorf("%d ranks: the formula gives %v, want %v", test.ranks, got, family.want)
			}
			s, err := moe.Route(shape, moe.Routing{Family: family.name, Seed: 5})
			must.Do(t, err)
			// 65536 tokens: the standard error is below 0.004.
			if got := moe.Count(s, moe.Contiguous(shape)).Fanout.Mean; math.Abs(got-family.want) > 0.016 {
				t.Errorf("%d ranks, %s: the mean fan-out is %v, want %v", test.ranks, family.name, got, family.want)
			}
		}
	}
}
