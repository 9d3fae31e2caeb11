package experts

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// playControl plays a test of the control plane at n ranks of this process, and returns rank 0's figures.
func playControl(t *testing.T, n int, c Control) (figures []PhaseFigures) {
	t.Helper()
	engine := &traffictest.Engine{}
	must.Do(t, traffictest.Worlds(t, n, func(w *spmd.World) error {
		w.SetTimeout(5 * time.Minute)
		f, err := c.Play(w, engine, nixl.AgentConfig{Progress: "auto"})
		if w.Rank() == 0 {
			figures = f
		}
		return err
	})...)
	return figures
}

func TestControl(t *testing.T) {
	for _, test := range []string{"cycle", "init", "connect", "disconnect", "destroy"} {
		for _, ranks := range []int{1, 3} {
			figures := playControl(t, 3, Control{Test: test, Rounds: 4, Warmup: 1, Ranks: ranks, Send: 1 << 16, Recv: 1 << 16})
			want := 1
			if test == "cycle" {
				want = 5
			}
			if len(figures) != want {
				t.Fatalf("%s: %d phases, want %d", test, len(figures), want)
			}
			for _, f := range figures {
				if len(f.Rounds) != 4 || len(f.ByRank) != ranks || f.MinMS <= 0 || f.MinMS > f.AvgMS || f.AvgMS > f.SlowMS || f.SlowMS > f.MaxMS {
					t.Errorf("%s of %d ranks: %+v", test, ranks, f)
				}
			}
		}
	}
}

// Figures are those of all rounds, whether they came at once or one by one.
func TestPhaseFigures(t *testing.T) {
	for _, pieces := range [][][][]float64{{{{1, 2, 9}, {3, 4, 5}}}, {{{1, 2, 9}}, {{3, 4, 5}}}} {
		r := rounds{timed: []Phase{Init}}
		for _, piece := range pieces {
			r.add([][][]float64{piece})
		}
		f := r.figures(func(r int) string { return string(rune('a' + r)) })[0]
		if f.Phase != "init" || f.AvgMS != 4 || f.MinMS != 1 || f.MaxMS != 9 || f.SlowMS != 7 || f.SlowRank != 2 || f.Host != "c" ||
			f.ByRank[1] != 3 || !slices.Equal(f.Rounds, []float64{9, 5}) {
			t.Errorf("%+v", f)
		}
	}
}

func TestControlMistakes(t *testing.T) {
	for _, c := range []Control{
		{Test: "reconnect", Rounds: 1, Ranks: 1}, {Test: "cycle", Rounds: 0, Ranks: 1}, {Test: "cycle", Rounds: 1, Ranks: 4},
		{Test: "cycle", Rounds: 1, Warmup: -1, Ranks: 1},
	} {
		if err := c.Check(3); fault.KindOf(err) != fault.Usage {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Many rounds leave no descriptor, mapping or goroutine behind.
func TestControlLeaksNothing(t *testing.T) {
	playControl(t, 2, Control{Test: "cycle", Rounds: 20, Ranks: 2, Send: 4096, Recv: 4096}) // what is made once
	files, mappings, routines := count(t, "/proc/self/fd"), lines(t, "/proc/self/maps"), runtime.NumGoroutine()
	playControl(t, 2, Control{Test: "cycle", Rounds: 150, Ranks: 2, Send: 4096, Recv: 4096})
	if n := count(t, "/proc/self/fd"); n > files+2 {
		t.Errorf("%d descriptors, %d before", n, files)
	}
	if n := lines(t, "/proc/self/maps"); n > mappings+40 { // the Go heap's own
		t.Errorf("%d mappings, %d before", n, mappings)
	}
	if n := runtime.NumGoroutine(); n > routines+4 {
		t.Errorf("%d goroutines, %d before", n, routines)
	}
}

func count(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	must.Do(t, err)
	return len(list)
}

func lines(t *testing.T, file string) (n int) {
	t.Helper()
	data := must.Read(t, file)
	for _, b := range data {
		if b == '\n' {
			n++
		}
	}
	return n
}
