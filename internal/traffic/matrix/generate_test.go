package matrix

import (
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestGenerators(t *testing.T) {
	for name, c := range map[string]struct {
		m    *Matrix
		want [][]int64
	}{
		"all to all":      {sure(AllToAll(3, 5, false)), [][]int64{{0, 5, 5}, {5, 0, 5}, {5, 5, 0}}},
		"with themselves": {sure(AllToAll(2, 5, true)), [][]int64{{5, 5}, {5, 5}}},
		"ring":            {sure(Ring(3, 5, 1)), [][]int64{{0, 5, 0}, {0, 0, 5}, {5, 0, 0}}},
		"ring back":       {sure(Ring(3, 5, -1)), [][]int64{{0, 0, 5}, {5, 0, 0}, {0, 5, 0}}},
		"ring of none":    {sure(Ring(2, 5, -4)), [][]int64{{5, 0}, {0, 5}}},
		"incast":          {sure(Incast(3, 1, 5)), [][]int64{{0, 5, 0}, {0, 0, 0}, {0, 5, 0}}},
		"outcast":         {sure(Outcast(3, 1, 5)), [][]int64{{0, 0, 0}, {5, 0, 5}, {0, 0, 0}}},
		"alone":           {sure(Permutation(1, 5, 9)), [][]int64{{5}}},
		"two":             {sure(Permutation(2, 5, 9)), [][]int64{{0, 5}, {5, 0}}},
		"density 1":       {sure(Random(3, 1, 5, 5, 9)), [][]int64{{0, 5, 5}, {5, 0, 5}, {5, 5, 0}}},
		"density 0":       {sure(Random(2, 0, 5, 5, 9)), [][]int64{{0, 0}, {0, 0}}},
	} {
		if diff := gocmp.Diff(c.want, dense(c.m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestGeneratorsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		generate func() (*Matrix, error)
		want     string
	}{
		"no ranks":        {func() (*Matrix, error) { return Ring(0, 1, 1) }, "a matrix of 0 ranks"},
		"negative ranks":  {func() (*Matrix, error) { return AllToAll(-1, 1, true) }, "a matrix of -1 ranks"},
		"huge all to all": {func() (*Matrix, error) { return AllToAll(8193, 0, true) }, "all to all between 8193 ranks"},
		"negative bytes":  {func() (*Matrix, error) { return Permutation(2, -1, 0) }, "wanted 0 bytes or more, got -1"},
		"negative ring":   {func() (*Matrix, error) { return Ring(2, -1, 1) }, "wanted 0 bytes or more, got -1"},
		"negative star":   {func() (*Matrix, error) { return Outcast(2, 0, -1) }, "wanted 0 bytes or more, got -1"},
		"random sum":      {func() (*Matrix, error) { return Random(9, 1, math.MaxInt64, math.MaxInt64, 0) }, "does not fit 64 bits"},
		"large sum":       {func() (*Matrix, error) { return AllToAll(2, math.MaxInt64, true) }, "does not fit 64 bits"},
		"root":            {func() (*Matrix, error) { return Incast(3, 3, 1) }, "root 3: wanted a rank of 0 to 2"},
		"negative root":   {func() (*Matrix, error) { return Outcast(3, -1, 1) }, "root -1: wanted a rank of 0 to 2"},
		"density":         {func() (*Matrix, error) { return Random(3, 1.01, 0, 1, 0) }, "density 1.01: wanted a number of 0 to 1"},
		"NaN":             {func() (*Matrix, error) { return Random(3, math.NaN(), 0, 1, 0) }, "density NaN"},
		"range":           {func() (*Matrix, error) { return Random(3, 1, 5, 4, 0) }, "5 to 4 bytes"},
		"negative range":  {func() (*Matrix, error) { return Random(3, 1, -1, 4, 0) }, "-1 to 4 bytes"},
		"huge random":     {func() (*Matrix, error) { return Random(MaxRanks, 0, 0, 1, 0) }, "a random matrix of 1048576 ranks"},
	} {
		if m, err := c.generate(); err == nil || m != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v: want %s", name, err, c.want)
		}
	}
}

func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "n")
		step := rapid.Int().Draw(t, "step")
		m := sure(Ring(n, 3, step))
		for i := range n {
			row := m.Row(i)
			if len(row) != 1 || row[0].Bytes != 3 || (row[0].Peer-i-step%n)%n != 0 {
				t.Fatalf("row %d of a ring of %d, step %d: %v", i, n, step, row)
			}
		}
	})
}

func TestPermutationIsADerangement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 50).Draw(t, "n")
		m := sure(Permutation(n, 3, rapid.Uint64().Draw(t, "seed")))
		at := 0
		for range n - 1 { // one cycle: back at the start after n steps, not before
			if at = m.Row(at)[0].Peer; at == 0 {
				t.Fatalf("a shorter cycle in %v", dense(m))
			}
		}
		if m.Row(at)[0].Peer != 0 || m.Cells() != n || len(m.Receivers()) != n || m.Total() != int64(3*n) {
			t.Fatalf("not a permutation: %v", dense(m))
		}
	})
}

// Each of the six cycles of four ranks must come up equally often.
func TestPermutationIsFair(t *testing.T) {
	const draws = 6000
	count := map[string]int{}
	for seed := range uint64(draws) {
		count[sure(Permutation(4, 1, seed)).Digest()]++
	}
	if len(count) != 6 {
		t.Fatalf("%d cycles: want 6", len(count))
	}
	for _, c := range count {
		if c < 850 || c > 1150 { // five standard deviations from 1000
			t.Errorf("%d of %d draws are the same cycle: want about a sixth", c, draws)
		}
	}
}

func TestRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.Int64Range(0, 1<<50).Draw(t, "least")
		most := least + rapid.Int64Range(0, 1<<50).Draw(t, "span")
		n := rapid.IntRange(1, 20).Draw(t, "n")
		m := sure(Random(n, rapid.Float64Range(0, 1).Draw(t, "density"), least, most, rapid.Uint64().Draw(t, "seed")))
		for i := range n {
			for _, c := range m.Row(i) {
				if c.Peer == i || c.Bytes < least || c.Bytes > most {
					t.Fatalf("cell [%d][%d] has %d bytes of %d to %d", i, c.Peer, c.Bytes, least, most)
				}
			}
		}
	})
}

func TestRandomIsFair(t *testing.T) {
	m := sure(Random(300, 0.25, 1, 4, 7))
	count := make([]int, 5)
	for i := range 300 {
		for _, c := range m.Row(i) {
			count[c.Bytes]++
		}
	}
	// 89700 cells, a quarter filled: five standard deviations are about 650;
	// each of the four sizes a quarter of these: about 360.
	if m.Cells() < 22425-650 || m.Cells() > 22425+650 {
		t.Errorf("%d cells: want about 22425", m.Cells())
	}
	for bytes, c := range count[1:] {
		if c < 5606-400 || c > 5606+400 {
			t.Errorf("%d cells of %d bytes: want about 5606", c, bytes+1)
		}
	}
	// Both ends of the widest range are possible.
	if _, err := Random(2, 1, 0, math.MaxInt64, 1); err != nil && !strings.Contains(err.Error(), "does not fit") {
		t.Error(err)
	}
}

// The draws are promised to stay the same for ever: recorded results name a
// seed, not a matrix.
func TestDrawsStayTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		m    *Matrix
		want string
	}{
		"permutation": {sure(Permutation(64, 4096, 42)), "1076664bb0316346637fa6c1a3b51ff7492f69d2424da8ef6754f86e95eb63e6"},
		"random":      {sure(Random(64, 0.3, 1, 1<<30, 42)), "92c010dd06618d8469bfb734abeb4996b3bef9422362d21d092416c5469e7e44"},
	} {
		if got := c.m.Digest(); got != c.want {
			t.Errorf("%s: digest %s: want %s", name, got, c.want)
		}
	}
	same := sure(Random(9, 0.5, 0, 100, 1))
	if !same.Equal(sure(Random(9, 0.5, 0, 100, 1))) || same.Equal(sure(Random(9, 0.5, 0, 100, 2))) {
		t.Error("the seed does not decide the matrix")
	}
	if rows := dense(sure(Permutation(8, 1, 42))); slices.EqualFunc(rows, dense(sure(Permutation(8, 1, 43))), slices.Equal[[]int64]) {
		t.Error("two seeds give the same permutation")
	}
}
