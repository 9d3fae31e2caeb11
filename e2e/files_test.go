package e2e

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// What a user pipes into a command is a file like any other.
func TestPipesAreRead(t *testing.T) {
	const ranks = " -n 2 --engine shm "
	for _, line := range []string{
		"$p ct-perftest <(cat c.yaml) --engine shm --result r.json", // its ranks are those of the matrix
		"$p ct-perftest <(cat c.yaml) --result r.json" + ranks,
		"cat c.yaml | $p ct-perftest /dev/stdin --engine shm --result r.json",
		"$p ct-perftest /dev/stdin --engine shm --result r.json < c.yaml",
		"cat s.lua | $p run /dev/stdin --result r.json" + ranks,
		"cat s.lua | $p run --result r.json" + ranks + "-",
		"$p run - --result r.json" + ranks + "< s.lua",
		"$p run <(cat s.lua) --result r.json" + ranks,
		"$p run s.lua --result r.json" + ranks + "&& cat r.json | $p report - --text",
		"$p run s.lua --result r.json" + ranks + "&& $p report <(cat r.json) --text",
	} {
		dir := t.TempDir()
		out, err := shell(t, dir, line)
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "r.json")); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
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

// Colleagues of a group can read and replace what a member's umask lets them.
func TestFilesObeyTheUmask(t *testing.T) {
	for umask, want := range map[string][2]fs.FileMode{"002": {0o664, 0o775}, "077": {0o600, 0o700}} {
		dir := t.TempDir()
		out, err := shell(t, dir, "umask "+umask+`
$p run s.lua -n 1 --engine shm --result r.json --log-dir logs &&
$p report r.json && $p kvbench models --export examples`)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var errs []error
		for _, name := range []string{"r.json", "report.html", "logs", "logs/rank-0000.log", "examples", "examples/model_llama_3_1_8b.yaml"} {
			info, err := os.Stat(filepath.Join(dir, name))
			errs = append(errs, err)
			if err == nil && info.IsDir() && info.Mode().Perm() != want[1] || err == nil && !info.IsDir() && info.Mode().Perm() != want[0] {
				t.Errorf("umask %s: %s has mode %v", umask, name, info.Mode())
			}
		}
		if err := errors.Join(errs...); err != nil {
			entries, _ := filepath.Glob(dir + "/*/*")
			t.Errorf("%v\n%s", err, strings.Join(entries, "\n"))
		}
	}
}
