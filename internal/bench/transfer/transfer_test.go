package transfer

import (
	"os"
	"strings"
	"testing"
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
		t.Error(err)
	}
	t.Logf("\n%s%s", &shm, &nixl)
	if n := strings.Count(shm.String(), "\n"); n != 2+4 {
		t.Errorf("shm: %d lines: want 6", n)
	}
	if n := strings.Count(nixl.String(), "\n"); n != 2+8 {
		t.Errorf("nixl: %d lines: want 10", n)
	}
}
