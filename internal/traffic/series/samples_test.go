package series

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/kit/pack"
)

// naive computes the statistics from a sorted list.
func naive(list []int64) Stats {
	slices.Sort(list)
	n := len(list)
	// As numpy.percentile(list, 100*part) does.
	at := func(part float64) int64 {
		rank := part * float64(n-1)
		low, high := float64(list[int(rank)]), float64(list[min(int(rank)+1, n-1)])
		return int64(math.Round(low + (high-low)*(rank-math.Floor(rank))))
	}
	var sum float64
	for _, v := range list {
		sum += float64(v)
	}
	return Stats{Count: int64(n), Mean: sum / float64(n), Min: list[0], P50: at(0.5), P99: at(0.99), P999: at(0.999), Max: list[n-1]}
}

// Samples of several ranks, sent to rank 0 and merged there, have the statistics of all of them.
func TestStats(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 0, 300), 1, 4).Draw(rt, "parts")
		var all []int64
		var sum Samples
		for _, p := range parts {
			var s Samples
			for _, v := range p {
				s.Add(v)
			}
			all = append(all, p...)
			d := pack.Read(s.append(nil))
			sum.Merge(readSamples(d))
			must.Do(rt, d.End("samples"))
		}
		if len(all) == 0 {
			if sum.Stats() != (Stats{}) {
				rt.Fatalf("of nothing: %+v", sum.Stats())
			}
			return
		}
		got, want := sum.Stats(), naive(all)
		if math.Abs(got.Mean-want.Mean) > 1e-9*want.Mean {
			rt.Fatalf("mean %v, want %v", got.Mean, want.Mean)
		}
		got.Mean = want.Mean
		for _, pair := range [][2]*int64{{&got.P50, &want.P50}, {&got.P99, &want.P99}, {&got.P999, &want.P999}} {
			if d := *pair[0] - *pair[1]; d == 1 || d == -1 { // of a half, or of a large number's last digit
				*pair[0] = *pair[1]
			}
		}
		must.Equal(rt, want, got)
	})
}

// More than can be kept are rounded, by less than 0.05 %, and take little room.
func TestManySamples(t *testing.T) {
	var s Samples
	var all []int64
	for i := range int64(2*exactSamples + 5) {
		v := i*i/1000 + 7
		s.Add(v)
		all = append(all, v)
	}
	got, want := s.Stats(), naive(all)
	for name, pair := range map[string][2]int64{"P50": {got.P50, want.P50}, "P99": {got.P99, want.P99}, "P999": {got.P999, want.P999}} {
		if g, w := float64(pair[0]), float64(pair[1]); g > w+1 || g < w*(1-0.0005) {
			t.Errorf("%s: %v, want %v", name, g, w)
		}
	}
	if got.Min != want.Min || got.Max != want.Max || got.Count != want.Count {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if n := len(s.counts); n > 64*4096 {
		t.Errorf("%d counters", n)
	}
}

func FuzzDecodeDistribution(f *testing.F) {
	r := Distribution{Start: 5, End: 9, Bytes: 7, CPU: 0.5}
	r.Latency.Add(4)
	r.Latency.Add(1000)
	f.Add(r.Encode())
	for ns := range int64(5) {
		r.Tx.Add(1000 * ns * ns)
		r.Post.Add(77)
	}
	f.Add(r.Encode())
	f.Add([]byte{})
	f.Add(r.Encode()[:9])
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := DecodeDistribution(data); err == nil {
			for _, s := range r.stages() {
				for v, n := range s.counts {
					if v < 0 || n < 1 || n > s.count {
						t.Fatalf("%d of %d times %d ns", n, s.count, v)
					}
				}
			}
			checkDistribution(t, r)
		}
		random := fuzztest.Random(data)
		r := &Distribution{Start: fuzztest.Int64(random), End: fuzztest.Int64(random), Bytes: fuzztest.Int64(random), CPU: random.Float64()}
		for _, s := range r.stages() {
			for range random.IntN(5) {
				s.Add(fuzztest.Int64(random))
			}
		}
		checkDistribution(t, r)
		// A count of none, values that do not ascend from 0, and more than there can be.
		head := r.Encode()[:len((&Distribution{Start: r.Start, End: r.End, Bytes: r.Bytes, CPU: r.CPU}).Encode())-4*len((&Samples{}).append(nil))]
		for _, values := range [][]int64{{1, 0}, {1, -1}, {-1, 1}, {5, 1, -6, 1}, {1, math.MaxInt64, 1, 1}, {1, math.MaxInt64 - 1, 1, 5}} {
			b := pack.AppendFloat(append(slices.Clone(head), 0, 0), 0)
			b = append(b, byte(len(values)/2))
			for _, v := range values {
				b = binary.AppendVarint(b, v)
			}
			for range 3 {
				b = (&Samples{}).append(b)
			}
			if _, err := DecodeDistribution(b); err == nil {
				t.Fatalf("%v is taken", values)
			}
		}
	})
}

// checkDistribution writes a distribution and reads it, whole and torn.
func checkDistribution(t *testing.T, r *Distribution) {
	t.Helper()
	data := r.Encode()
	again, err := DecodeDistribution(data)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	figures := func(r *Distribution) []any {
		list := []any{r.Start, r.End, r.Bytes, r.CPU}
		for _, s := range r.stages() {
			list = append(list, s.Stats(), s.sum, s.min, s.max, s.table())
		}
		return list
	}
	must.Equal(t, figures(r), figures(again), cmpopts.EquateNaNs())
	for _, torn := range [][]byte{data[:len(data)-1], append(data, 0)} {
		if _, err := DecodeDistribution(torn); err == nil {
			t.Fatalf("%d of %d bytes are taken", len(torn), len(data))
		}
	}
}
