package barrier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

func TestMain(m *testing.M) {
	if IsRank() {
		if err := Rank(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	m.Run()
}

// BenchmarkBarrier prints the tables: go test -run '^$' -bench . -benchtime 1x
func BenchmarkBarrier(b *testing.B) {
	for range b.N {
		must.Do(b, Run(os.Stderr))
	}
}

func TestOwnRanksGiveTimes(t *testing.T) {
	for _, way := range []Way{Memory, Links, Broadcast} {
		s, err := own(t.Context(), way, 2)
		must.Do(t, err)
		for _, ns := range slices.Concat(s.times, s.skews) {
			if ns < 0 || ns > 1e10 {
				t.Errorf("%s: a barrier, or its skew, of %v ns", way, ns)
			}
		}
	}
}

// A build without proofs measures as this one does.
func TestBuildWithoutProofs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "unsealed")
	must.Do(t, buildUnsealed(t.Context(), program, "perigee/e2e/bench"))
	for _, way := range []Way{Links, Broadcast} {
		if s, err := meet(t.Context(), program, way, 2); err != nil || len(s.times) == 0 {
			t.Errorf("%s: %d times, %v", way, len(s.times), err)
		}
	}
}

// The C program and ours print the same lines.
func TestLibrariesGiveTimes(t *testing.T) {
	all, err := contenders(t.Context(), t.TempDir())
	must.Do(t, err)
	for _, c := range all[1:] {
		for _, way := range []Way{Memory, Links} {
			if _, err := turn(t.Context(), c, way, 2); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

func TestSkews(t *testing.T) {
	got := skewsOf([][]int64{{10, 100}, {13, 90}, {11, 95}})
	if fmt.Sprint(got) != "[3 10]" {
		t.Errorf("%v", got)
	}
}

func TestParseRefusesWhatIsNoTime(t *testing.T) {
	for _, text := range []string{"", "time 12.5\nwarning: slow\n", "\n", "12.5\n", "time 1\n", "skew 1\n", "time 1\nspan 2\nskew 3\n"} {
		if s, err := parse(text); err == nil {
			t.Errorf("%q: %v", text, s)
		}
	}
	if s, err := parse("time 1.5\ntime 20\nskew 7\n"); err != nil || fmt.Sprint(s) != "{[1.5 20] [7]}" {
		t.Errorf("%v, %v", s, err)
	}
}

// steady measures the same each time.
func steady(ns float64) func(context.Context, Way, int) (sample, error) {
	return func(context.Context, Way, int) (sample, error) { return sample{[]float64{ns}, []float64{ns / 2}}, nil }
}

func TestCompete(t *testing.T) {
	n := 0
	disturbed := func(context.Context, Way, int) (sample, error) {
		if n++; n == 2 {
			return sample{[]float64{1e9}, []float64{1e9}}, nil
		}
		return sample{[]float64{400}, []float64{40}}, nil
	}
	row, err := compete(t.Context(), []contender{{"perigee", steady(100)}, {"a", disturbed}}, Memory, 2)
	if want := (Cell{400, 40, 0.25}); err != nil || row.Cells[1] != want {
		t.Errorf("%+v, %v; want %+v", row, err, want)
	}
	failing := func(context.Context, Way, int) (sample, error) { return sample{}, errors.New("no such library") }
	if _, err := compete(t.Context(), []contender{{"perigee", steady(100)}, {"a", failing}}, Memory, 2); err == nil || err.Error() != "a with 2 ranks: no such library" {
		t.Errorf("%v", err)
	}
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	none := math.NaN()
	r := Result{Way: Memory, Contenders: []string{"perigee", "openmpi"}, Cores: 8, Rows: []Row{
		{2, []Cell{{500, 100, 1}, {1000, 2000, 0.5}}},
		{4, []Cell{{4000, 100, 1}, {1000, 2000, 4}}},
		{16, []Cell{{30_000, 1000, 1}, {none, none, none}}},
	}}
	must.Do(t, r.Print(&b))
	_, table, _ := strings.Cut(b.String(), limit.String()+"\n")
	want := "" +
		"# ranks    perigee us   skew us  growth   openmpi us   skew us   ratio\n" +
		"2                0.50      0.10    1.00         1.00      2.00    0.50  ok\n" +
		"4                4.00      0.10    4.00         1.00      2.00    4.00  MISSED\n" +
		"16+             30.00      1.00   15.00            -         -       -\n"
	if table != want {
		t.Errorf("got\n%swant\n%s", table, want)
	}
}
