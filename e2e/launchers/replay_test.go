package launchers

import (
	"path/filepath"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// The ranks that a launcher starts replay a trace: as many as both sides have, and no others.
func TestReplay(t *testing.T) {
	trace, err := filepath.Abs("../../docs/minute.jsonl")
	must.Do(t, err)
	for _, w := range ways {
		if w.name != "mpirun" && w.name != "srun pmix" {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "r.json")
			words := []string{"replay", trace, "--model", "llama3.1-8b", "--prefill", "2xTP1", "--decode", "1xTP2", "--scale", "0.001", "--speed-up", "60",
				"--engine", "shm", "--isolated", "0.1", "--capacity", "0.1", "--verify", "--result", path}
			launch(t, w, 4, nil, words...).MustEnd()
			doc, err := result.Read(path)
			if err != nil || doc.World.Launcher != w.launcher || doc.Replay == nil || doc.Replay.Done != 294 {
				t.Errorf("%v: launcher %s, %+v", err, doc.World.Launcher, doc.Replay)
			}
			o := launch(t, w, 2, nil, words...).Wait()
			harness.Contains(t, "stderr", o.Stderr, "are 4 ranks, and there are 2", "start 4 ranks")
		})
	}
}
