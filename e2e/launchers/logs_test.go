package launchers

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
)

// Under every launcher each rank has its log, which names its host and the launcher.
func TestLogFiles(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			const n = 4
			dir := filepath.Join(t.TempDir(), "logs")
			o := launch(t, w, n, nil, "run", harness.Script(t, "whoami.lua"), "--log-dir", dir, "--log-level", "debug").MustEnd()
			if strings.Contains(o.Stderr, "level=") {
				t.Errorf("there are logs on standard error:\n%s", o.Stderr)
			}
			if names := harness.Names(dir); fmt.Sprint(names) != "[rank-0000.log rank-0001.log rank-0002.log rank-0003.log]" {
				t.Errorf("files: %v", names)
			}
			for r := range n {
				data := must.Read(t, filepath.Join(dir, fmt.Sprintf("rank-%04d.log", r)))
				host := cmp.Or(w.host(r, n), harness.Hostname(t))
				wanted := []string{
					fmt.Sprintf(", log of rank %d on %s, launcher %s, process ", r, host, w.launcher),
					fmt.Sprintf(`msg="joined the world" rank=%d host=%s size=4 hosts=1 `, r, host),
					fmt.Sprintf(`msg="the rank ends" rank=%d host=%s code=0`, r, host),
				}
				if r > 0 {
					wanted = append(wanted, "msg=\"found rank 0\"")
				}
				harness.Contains(t, fmt.Sprint("log of rank ", r), string(data), wanted...)
			}
		})
	}
}

// Without a folder the lines go to standard error, where each has its rank.
func TestLogsOnStandardError(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			o := launch(t, w, 2, []string{"PERIGEE_LOG_LEVEL=info"}, "run", harness.Script(t, "whoami.lua")).MustEnd()
			harness.Contains(t, "standard error", o.Stderr, `msg="joined the world" rank=0 `, `msg="joined the world" rank=1 `)
		})
	}
}
