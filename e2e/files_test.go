package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// shell runs a command line of bash in a folder that has a script, a configuration and its matrix. $p is perigee.
func shell(t *testing.T, dir, line string) (out string, err error) {
	t.Helper()
	harness.LookAtSources(t)
	for name, text := range map[string]string{
		"s.lua":  `return {run = function() print("ran " .. world.rank) end}`,
		"c.yaml": "traffic_pattern:\n  matrix_file: m.txt\n",
		"m.txt":  good,
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	cmd := exec.Command("timeout", "60", "bash", "-c", line)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "p="+harness.Program)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// A group's folder has links that others of the group have made.
func TestResultThroughALinkOfAColleague(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	const project, colleague = 65531, 65532
	team := filepath.Join(dir, "team")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "results"), 0o755), os.Mkdir(team, 0o775), os.Symlink("../results", team+"/latest"),
		os.Chown(team, project, project), os.Chmod(team, 0o775|fs.ModeSetgid), os.Lchown(team+"/latest", colleague, project),
	} {
		must.Do(t, err)
	}
	out, err := shell(t, dir, "$p run s.lua -n 1 --engine shm --result team/latest/r.json")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := result.Read(filepath.Join(dir, "results", "r.json")); err != nil {
		t.Error(err)
	}
}
