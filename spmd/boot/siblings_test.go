package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// A rank finds the ranks of its host that cannot have come, and only those of its job.
func TestSiblings(t *testing.T) {
	proc := t.TempDir()
	program, shell := filepath.Join(proc, "perigee"), filepath.Join(proc, "sh")
	process := func(pid int, exe, state, step string, rank int) {
		dir := filepath.Join(proc, fmt.Sprint(pid))
		environ := fmt.Sprintf("A=b\x00SLURM_PROCID=%d\x00SLURM_JOB_ID=7\x00SLURM_STEP_ID=%s\x00", rank, step)
		for _, err := range []error{
			os.Mkdir(dir, 0o700), os.Symlink(exe, filepath.Join(dir, "exe")),
			os.WriteFile(filepath.Join(dir, "environ"), []byte(environ), 0o600),
			os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (a) b) %s 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", pid, state), 0o600),
		} {
			must.Do(t, err)
		}
	}
	for _, path := range []string{program, shell} {
		must.Do(t, os.WriteFile(path, nil, 0o700))
	}
	process(20, shell, "S", "0", 2) // a wrapper, and in it the rank itself
	process(21, program, "R", "0", 2)
	process(30, shell, "S", "0", 3)
	process(31, program, "T", "0", 3)
	process(40, shell, "S", "0", 4)
	process(50, shell, "T", "0", 5)
	process(60, program, "T", "0", 6)  // on another node
	process(70, program, "T", "1", 2)  // of another step
	process(80, program, "T", "0", 1)  // this rank
	process(90, shell, "S", "0", -200) // no rank
	env := environ(vars("SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_GTIDS=0,1,2,3,4,5"))
	s := siblingsOf(env, "pmi2", 1)
	s.proc, s.self = proc, program
	missing, first := s.look()
	const want = "rank 0: its process has ended; rank 3: it is stopped (process 31); " +
		"rank 4: it runs a) b (process 40) and not this program; rank 5: it is stopped in a) b (process 50)"
	if got := describe(missing); got != want || !first {
		t.Errorf("%s, first %v\nwant %s", got, first, want)
	}
	if s.rank = 4; true {
		if _, first := s.look(); first {
			t.Error("rank 4 comes first, though rank 2 is here")
		}
	}
	// Without a list of those who belong here none is missed.
	s = siblingsOf(environ(vars("SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_GTIDS=0,x")), "slurm", 1)
	s.proc, s.self = proc, program
	if missing, _ := s.look(); !strings.HasPrefix(describe(missing), "rank 3: ") || !strings.Contains(describe(missing), "rank 6: ") {
		t.Errorf("%s", describe(missing))
	}
	if s := siblingsOf(environ(vars("PMI_RANK=3")), "pmi1", 3); s != nil {
		t.Errorf("%+v", s)
	}
	if missing, first := (*siblings)(nil).look(); missing != nil || first {
		t.Errorf("without variables: %v, first %v", missing, first)
	}
}
