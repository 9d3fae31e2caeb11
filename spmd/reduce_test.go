package spmd

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// A sum that is no number any more is an error of the script, not a lost rank.
func TestSumThatOverflows(t *testing.T) {
	for _, n := range []float64{1e308, -1e308} {
		errs := ranks(t, 3, nil, func(w *World) error {
			_, err := AllReduce(w.All(), []float64{1, n}, Sum)
			return err
		})
		for _, err := range errs {
			must.Fail(t, err, fault.Script, "reduce: number 2 of 2 overflows")
		}
	}
}

// A sum of whole numbers does not wrap around.
func TestWholeSumThatOverflows(t *testing.T) {
	for _, n := range []int64{math.MaxInt64, math.MinInt64} {
		errs := ranks(t, 2, nil, func(w *World) error {
			_, err := AllReduce(w.All(), []int64{n}, Sum)
			return err
		})
		for _, err := range errs {
			must.Fail(t, err, fault.Script, "reduce: number 1 of 1 overflows")
		}
	}
}

// Ranks that reduce in different ways all get an error that names both ways, and a rank of each.
func TestDifferentReductionsAreFound(t *testing.T) {
	sum := func(w *World) error { _, err := AllReduce(w.All(), []float64{1}, Sum); return err }
	for name, test := range map[string]struct {
		odd    func(w *World) error
		wanted string
	}{
		"how":  {func(w *World) error { _, err := AllReduce(w.All(), []float64{1}, Max); return err }, "reduce (max of numbers)"},
		"type": {func(w *World) error { _, err := AllReduce(w.All(), []int{1}, Sum); return err }, "reduce (sum of whole numbers)"},
	} {
		for odd := range 3 {
			t.Run(fmt.Sprint(name, " at rank ", odd), func(t *testing.T) {
				errs := ranks(t, 3, nil, func(w *World) error {
					if w.Rank() == odd {
						return test.odd(w)
					}
					return sum(w)
				})
				for r, err := range errs {
					if fault.KindOf(err) != fault.Script {
						t.Errorf("rank %d: %v", r, err)
						continue
					}
					for _, text := range []string{test.wanted, "reduce (sum of numbers)", fmt.Sprint("rank ", odd, " ")} {
						if !strings.Contains(err.Error(), text) {
							t.Errorf("rank %d: %v, which lacks %q", r, err, text)
						}
					}
				}
			})
		}
	}
}

func TestReduceRefusesWhatIsNotFinite(t *testing.T) {
	worlds, _ := NewInMemory(1)
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got, err := AllReduce(worlds[0].All(), []float64{0, x}, Min); fault.KindOf(err) != fault.Script {
			t.Errorf("%v: got %v, %v", x, got, err)
		}
	}
}

// TestReduceByDefinition compares AllReduce with a fold, bit by bit, whole numbers of 64 bits included.
func TestReduceByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, length := rapid.IntRange(1, 9).Draw(t, "ranks"), rapid.IntRange(0, 4).Draw(t, "numbers")
		how := rapid.SampledFrom([]Combine{Min, Max}).Draw(t, "how")
		numbers := make([][]int64, n)
		for r := range numbers {
			numbers[r] = rapid.SliceOfN(rapid.Int64(), length, length).Draw(t, "values")
		}
		want := slices.Clone(numbers[0])
		for _, v := range numbers {
			for i := range v {
				if how == Min {
					want[i] = min(want[i], v[i])
				} else {
					want[i] = max(want[i], v[i])
				}
			}
		}
		worlds, _ := NewInMemory(n)
		must.Do(t, everywhere(worlds, func(w *World) error {
			got, err := AllReduce(w.All(), numbers[w.Rank()], how)
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("%s gave %v, want %v", how, got, want)
			}
			return err
		})...)
	})
}

// Latest is the reduction of each number apart, round by round.
func TestLatest(t *testing.T) {
	worlds, _ := NewInMemory(4)
	must.Do(t, everywhere(worlds, func(w *World) error {
		for round := range int64(50) {
			rank := int64(w.Rank())
			got, err := w.All().Latest([2]int64{100*(50-round) + rank, (rank + round) % 4})
			if want := [2]int64{100*(50-round) + 3, 3}; err != nil || got != want {
				return fmt.Errorf("round %d: got %v and %w, want %v", round, got, err, want)
			}
		}
		return nil
	})...)
}

// Groups of the same ranks in another order take their rounds in one place.
func TestLatestInGroupsOfTheSameRanks(t *testing.T) {
	errs := ranks(t, 3, func(int) string { return "h" }, func(w *World) error {
		for round := range int64(12) {
			group := []int{0, 1, 2}
			if round%3 > 0 {
				group = []int{2, 0, 1}
			}
			g, err := w.Group(group)
			if err != nil {
				return err
			}
			got, err := g.Latest([2]int64{100*(12-round) + int64(w.Rank()), round})
			if want := [2]int64{100*(12-round) + 2, round}; err != nil || got != want {
				return fmt.Errorf("round %d: got %v and %w, want %v", round, got, err, want)
			}
		}
		return nil
	})
	must.Do(t, errs...)
}

// A rank that waits in a barrier has agreed on nothing, on one host or on several.
func TestLatestBesideBarrier(t *testing.T) {
	for name, hosts := range map[string]func(r int) string{
		"one host": func(int) string { return "h" }, "three hosts": func(r int) string { return fmt.Sprint(r) },
	} {
		t.Run(name, func(t *testing.T) {
			errs := ranks(t, 3, hosts, func(w *World) error {
				if w.Rank() == 1 {
					return w.All().Barrier()
				}
				_, err := w.All().Latest([2]int64{1, 2})
				return err
			})
			told := func(err error) bool {
				return fault.KindOf(err) == fault.Script && strings.Contains(err.Error(), "ranks disagree on what to do")
			}
			if !slices.ContainsFunc(errs, told) {
				t.Errorf("got %v", errs)
			}
		})
	}
}

// FuzzContribution reads what another rank may send.
func FuzzContribution(f *testing.F) {
	f.Add(contribution[float64]{3, []float64{1, -2.5, 0}}.encode())
	f.Add(contribution[int64]{0, []int64{math.MinInt64, 7}}.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := decodeContribution[int64](data); err == nil {
			checkContribution(t, c)
		}
		if c, err := decodeContribution[float64](data); err == nil {
			checkContribution(t, c)
		}
		random := fuzztest.Random(data)
		whole, real := contribution[int64]{rank: random.IntN(maxNumber + 1)}, contribution[float64]{rank: random.IntN(2)}
		for range random.IntN(5) {
			whole.values = append(whole.values, fuzztest.Int64(random))
			real.values = append(real.values, math.Float64frombits(random.Uint64()))
		}
		checkContribution(t, whole)
		checkContribution(t, real)
		whole.rank = maxNumber + 1
		if _, err := decodeContribution[int64](whole.encode()); err == nil {
			t.Error("a rank that cannot be is taken")
		}
	})
}

func checkContribution[T Number](t *testing.T, c contribution[T]) {
	t.Helper()
	data := c.encode()
	again, err := decodeContribution[T](data)
	if diff := cmp.Diff(c, again, cmpopts.EquateNaNs(), cmpopts.EquateEmpty(), cmp.AllowUnexported(contribution[T]{})); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, torn := range [][]byte{data[:len(data)-1], append(data, 0)} {
		if _, err := decodeContribution[T](torn); err == nil {
			t.Errorf("%d of %d bytes are taken", len(torn), len(data))
		}
	}
}
