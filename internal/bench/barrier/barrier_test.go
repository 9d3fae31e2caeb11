package barrier

import (
	"fmt"
	"os"
	"strings"
	"testing"
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

// BenchmarkBarrier prints the table: go test -run '^$' -bench . -benchtime 1x
func BenchmarkBarrier(b *testing.B) {
	for range b.N {
		if err := Run(os.Stderr); err != nil {
			b.Fatal(err)
		}
	}
}

func TestOwnRanksGiveTimes(t *testing.T) {
	times, err := runOwn(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range times {
		if ns <= 0 || ns > 1e9 {
			t.Errorf("a barrier of %v ns", ns)
		}
	}
}

func TestParseRefusesWhatIsNoTime(t *testing.T) {
	for _, text := range []string{"", "12.5\nwarning: slow\n", "\n"} {
		if times, err := parse(text); err == nil {
			t.Errorf("%q: %v", text, times)
		}
	}
	if times, err := parse("1.5\n 20\n"); err != nil || fmt.Sprint(times) != "[1.5 20]" {
		t.Errorf("%v, %v", times, err)
	}
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	r := Result{Contenders: []string{"perigee", "openmpi"}, Rows: []Row{{2, []float64{500, 1000}}, {16, []float64{30000, 20000}}}}
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(b.String(), "\n")
	want := "# ranks    perigee    openmpi   ratio\n" +
		"      2        500       1000    0.50\n" +
		"     16      30000      20000    1.50\n"
	if table != want {
		t.Errorf("got\n%swant\n%s", table, want)
	}
}
