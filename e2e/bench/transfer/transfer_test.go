package transfer

import (
	"os"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/nixl/device/devicetest"
)

func TestMain(m *testing.M) {
	Child()
	os.Exit(m.Run())
}

// TestReports runs both comparisons. What they measure is the machine's affair; that they end, and
// print a line for every case, is tested.
func TestReports(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	var shm, nixl strings.Builder
	if err := SHM(&shm); err != nil {
		t.Error(err)
	}
	if err := NIXL(&nixl); err != nil {
		t.Errorf("%v\n%s", err, fault.HintOf(err))
	}
	t.Logf("\n%s%s", &shm, &nixl)
	if n := strings.Count(shm.String(), "\n"); n != 2+4 {
		t.Errorf("shm: %d lines: want 6", n)
	}
	if n := strings.Count(nixl.String(), "\n"); n != 2+8 {
		t.Errorf("nixl: %d lines: want 10", n)
	}
}

// steady measures the same each time.
func steady(d time.Duration) func(int, int) (time.Duration, error) {
	return func(int, int) (time.Duration, error) { return d, nil }
}

func TestCompare(t *testing.T) {
	// One turn in which theirs takes a nap changes no median.
	n := 0
	theirs := func(int, int) (time.Duration, error) {
		if n++; n == 3 {
			return time.Hour, nil
		}
		return 200, nil
	}
	got, err := Compare(Case{Ours: steady(100), Theirs: theirs})
	if want := (Result{100, 200, 0.5, 0.5, 0.5}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if n != turns {
		t.Errorf("%d turns: want %d", n, turns)
	}
}

func TestReportTellsMissedTargets(t *testing.T) {
	var b strings.Builder
	err := Report(&b, []Case{
		{Name: "slow", Bytes: 1000, Target: 1.05, Ours: steady(200), Theirs: steady(100)},
		{Name: "fast", Bytes: 1000, Target: 1.05, Ours: steady(100), Theirs: steady(100)},
	})
	lines := strings.Split(b.String(), "\n")
	if err != nil || len(lines) != 4 || !strings.HasSuffix(lines[1], "5.00  MISSED") || !strings.HasSuffix(lines[2], "10.00  ok") {
		t.Errorf("%v\n%s", err, &b)
	}
}

// The section of GPU memory is played with a stand-in for CUDA's driver: both sides move bytes there, and a line is
// printed for every case.
func TestGPU(t *testing.T) {
	if !devicetest.Again(t, "STANDIN_GPU_BYTES=1073741824") {
		return
	}
	var b strings.Builder
	err := onGPU(&b, []size{{4 << 10, 3, "4 KiB", 0.001}, {256 << 20, 1, "256 MiB", 1e6}}, 1)
	lines := strings.Split(b.String(), "\n")
	if err != nil || len(lines) != 2+4+2+4+1 {
		t.Fatalf("%v\n%s", err, &b)
	}
	for at, want := range map[int]string{0: ", vram, map[", 2: "MISSED", 5: "ok", 6: "cuMemcpyDtoD", 8: "no target", 11: "no target"} {
		if !strings.Contains(lines[at], want) {
			t.Errorf("line %d: %s: want %s", at, lines[at], want)
		}
	}
}

// Without a GPU the section is skipped, and only then: with a GPU that does not work it fails.
func TestGPUSkipped(t *testing.T) {
	if devicetest.Again(t, "CUDA_VISIBLE_DEVICES=") {
		var b strings.Builder
		if err := GPU(&b); err != nil || b.String() != "# skipped: CUDA shows no GPU on this machine\n" {
			t.Errorf("%v\n%s", err, &b)
		}
	}
}

func TestGPUFails(t *testing.T) {
	if devicetest.Again(t, "STANDIN_FAILS=1") {
		var b strings.Builder
		if err := GPU(&b); fault.KindOf(err) != fault.Resource || b.Len() > 0 {
			t.Errorf("%v\n%s", err, &b)
		}
	}
}
