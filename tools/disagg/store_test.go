package disagg

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/file"
	"perigee/internal/kit/must"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/judge"
	"perigee/tools/disagg/report"
)

// fakeSlurm puts commands in front of Slurm's. Each job is over at once, and has left a good log in its folder, in which
// the shell commands of its case's kind have run: $d is the folder.
func fakeSlurm(t *testing.T, of map[string]string) {
	t.Helper()
	commands := t.TempDir()
	kinds := "true"
	for name, does := range of {
		kinds += "\ncase $d in */disagg_perf_" + name + ") " + does + ";; esac"
	}
	for name, text := range map[string]string{
		"squeue": `for a in "$@"; do case $a in --jobs=*) for j in $(echo ${a#--jobs=} | tr , ' '); do echo "$j|COMPLETED|node1|2026-01-01T00:00:00|N/A|$(cat comment.$j)|None|"; done;; esac; done | tr '|' '\037'`,
		"sbatch": `n=$(ls comment.* 2> /dev/null | wc -l); for a in "$@"; do case $a in --comment=*) echo ${a#--comment=} > comment.$n;; esac; done
d=$(dirname "$a"); cp good.log $d/6_bench.log; echo node1 > $d/8_done_$n.txt
` + kinds + `
echo Submitted batch job $n`,
		"sacct": "exit 1", "scontrol": "exit 1", "scancel": "exit 1",
	} {
		must.Do(t, os.WriteFile(filepath.Join(commands, name), []byte("#!/bin/bash\ncd "+commands+"\n"+text+"\n"), 0o755))
	}
	must.Do(t, os.WriteFile(filepath.Join(commands, "good.log"), []byte(goodLog()), 0o644))
	t.Setenv("PATH", commands+":"+os.Getenv("PATH"))
}

// cases makes configurations of these names.
func cases(t *testing.T, names ...string) (files []string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		file := filepath.Join(dir, name+".yaml")
		must.Do(t, os.Rename(filepath.Join(caseFolder(t, "", false), "effective.yaml"), file))
		with(t, file, "benchmark_type: perf")
		files = append(files, file)
	}
	return files
}

func replaceIn(t *testing.T, file, old, text string) {
	t.Helper()
	data, err := os.ReadFile(file)
	must.Do(t, err, os.WriteFile(file, []byte(strings.Replace(string(data), old, text, 1)), 0o644))
}

// runCases runs configurations one after the other.
func runCases(t *testing.T, out string, files []string, more ...string) (said string, code int) {
	t.Helper()
	args := append([]string{"run", "--gpu", "GB200", "--output", out, "--settle", "0s", "--poll", "10ms", "--batch-size", "1"}, more...)
	_, said, code = perigee(t, map[string]string{"SLURM_PARTITION": "p", "SLURM_ACCOUNT": "a"}, append(args, files...)...)
	return said, code
}

// mount puts an empty file system at a folder, which makes it: nothing can remove it.
func mount(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o755), unix.Mount("none", dir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { // the folders above may have other names by now
		list := must.Read(t, "/proc/self/mounts")
		for line := range strings.Lines(string(list)) {
			if at := strings.Fields(line)[1]; strings.HasPrefix(at, filepath.Dir(filepath.Dir(dir))) {
				must.Do(t, unix.Unmount(at, unix.MNT_DETACH))
			}
		}
	})
}

// A folder that fails its case does not keep the others from being run and recorded, nor a run that goes on.
func TestFoldersOfCases(t *testing.T) {
	const good, bad = "disagg_perf_b", "disagg_perf_a"
	for name, c := range map[string]struct {
		does    string                               // the job
		prepare func(t *testing.T, out, file string) // before the run
		says    string
		folder  bool // has the verdict
		warns   string
	}{
		"no log_dir": {
			prepare: func(t *testing.T, _, file string) {
				replaceIn(t, file, "environment:\n", "environment:\n  log_dir: /proc/nosuch\n")
			},
			says: "it can have no folder: mkdir /proc/nosuch: ", warns: "its verdict is kept in no folder: ",
		},
		"a file as log_dir": {
			prepare: func(t *testing.T, _, file string) {
				replaceIn(t, file, "environment:\n", "environment:\n  log_dir: /etc/passwd\n")
			},
			says: "it can have no folder: ", warns: "its verdict is kept in no folder: ",
		},
		"removed": {does: "rm -rf $d", says: "Result directory not found", folder: true},
		"not to write to": {
			does: "mv $d/* .; mount -t tmpfs -o mode=755 none $d; mv 6_bench.log 8_done_* $d; mount -o remount,ro $d",
			says: "its folder does not take the verdict: ", folder: true,
			prepare: func(t *testing.T, out, _ string) { mount(t, filepath.Join(out, "other", "other")) }, // to unmount that of the job
		},
		"an earlier one that stays": {
			does: "rm $d/6_bench.log", says: "6_bench.log", folder: true,
			prepare: func(t *testing.T, out, _ string) {
				mount(t, filepath.Join(out, judge.LogsFolder, bad+batch.FailedSuffix, "sub"))
			},
		},
		"an earlier one that keeps its name": {
			does: "rm $d/6_bench.log", says: "6_bench.log", warns: "its folder keeps its name: ",
			prepare: func(t *testing.T, out, _ string) {
				mount(t, filepath.Join(out, judge.LogsFolder, bad+batch.FailedSuffix))
			},
		},
		"no folder at all": {
			does: "rm -rf $d", says: "Result directory not found", warns: "its verdict is kept in no folder: ",
			prepare: func(t *testing.T, out, _ string) {
				mount(t, filepath.Join(out, judge.LogsFolder, bad+batch.FailedSuffix))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fakeSlurm(t, map[string]string{"a": c.does + " "})
			files, out := cases(t, "a", "b"), filepath.Join(t.TempDir(), "out")
			if c.prepare != nil {
				c.prepare(t, out, files[0])
			}
			said, code := runCases(t, out, files)
			junit, err := os.ReadFile(filepath.Join(out, junitFile))
			if code != 12 || err != nil || !strings.Contains(string(junit), c.says) || !strings.Contains(string(junit), `failures="1"`) {
				t.Errorf("exit code %d, %v\n%s\n%s", code, err, said, junit)
			}
			if !strings.Contains(said, bad+" failed: ") || !strings.Contains(said, c.says) || !strings.Contains(said, c.warns) {
				t.Errorf("wanted %q and %q\n%s", c.says, c.warns, said)
			}
			csv, err := os.ReadFile(filepath.Join(out, report.CSVName))
			if err != nil || !strings.Contains(string(csv), good) || strings.Contains(string(csv), bad) {
				t.Errorf("%v\n%s", err, csv)
			}
			dir := filepath.Join(out, judge.LogsFolder, bad+batch.FailedSuffix)
			v, err := judge.ReadCase(dir)
			if c.folder && (err != nil || v.Job == "" || v.State != "failed") || !c.folder && !errors.Is(err, os.ErrNotExist) && !strings.Contains(err.Error(), "not a directory") {
				t.Errorf("%+v, %v", v, err)
			}
			ledger, err := os.ReadFile(filepath.Join(out, "jobs.jsonl"))
			if err != nil || strings.Count(string(ledger), `"recorded"`) != 2 || !strings.Contains(string(ledger), `"finished"`) {
				t.Errorf("%v\n%s", err, ledger)
			}
			if name == "an earlier one that stays" {
				must.Do(t, os.WriteFile(filepath.Join(dir+file.Aside, judge.CaseName), []byte(`{"id": "x", "state": "passed", "levels": []}`), 0o644))
				if list, _, _ := perigee(t, nil, "report", out, "--format", "json"); strings.Contains(list, `"x"`) {
					t.Errorf("what is left of an earlier run is in the report: %s", list)
				}
			}
			said, code = runCases(t, out, files, "--resume", "--junit", filepath.Join(out, "again.xml"))
			junit, err = os.ReadFile(filepath.Join(out, "again.xml"))
			if code != 12 || err != nil || !strings.Contains(string(junit), c.says) {
				t.Errorf("resumed: exit code %d, %v\n%s\n%s", code, err, said, junit)
			}
		})
	}
}
