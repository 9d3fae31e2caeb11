package disagg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/plaintext"
	"perigee/internal/serving/judge"
	"perigee/tools/disagg/report"
)

const evil = "\x1b]0;owned\a\u202e"

// Names, values and logs of others cannot act on the terminal.
func TestHostileTexts(t *testing.T) {
	dir := caseFolder(t, strings.ReplaceAll(goodLog(), "Failed requests:                         0", "Failed requests:                         1")+evil, false)
	text := must.Read(t, filepath.Join(dir, "effective.yaml"))
	quoted := `"\e]0;owned\a\u202e"`
	file := filepath.Join(dir, "x\u202e.yaml")
	changed := strings.NewReplacer("model_name: toy", "model_name: "+quoted, "streaming: true", "streaming: true\n  "+quoted+": 1").Replace(string(text))
	must.Do(t, os.WriteFile(file, []byte(changed), 0o600))
	list := filepath.Join(dir, "list.txt")
	must.Do(t, os.WriteFile(list, []byte(evil+"\n"), 0o600))
	for _, args := range [][]string{
		{"list", file}, {"list", "--format", "json", file}, {"list", "--test-list", list, file}, {"list", "--lenient", file},
		{"validate", file}, {"validate", "--format", "json", file}, {"validate", "--lenient", file},
		{"parse", dir, "--settle", "0s"}, {"parse", dir, "--format", "json", "--settle", "0s"},
		{"run", "--dry-run", "--gpu", "LOCAL", file}, {"run", "--dry-run", "--lenient", "--gpu", "LOCAL", file}, {"run", "--dry-run", "--lenient", "--format", "json", "--gpu", "LOCAL", file},
	} {
		out, said, _ := perigee(t, nil, args...)
		for _, s := range []string{out, said} {
			if s != plaintext.Text(s) {
				t.Errorf("%v: %q", args, s)
			}
		}
		if out+said == "" {
			t.Errorf("%v says nothing", args)
		}
	}
}

// A verdict quotes logs.
func TestHostileVerdict(t *testing.T) {
	var out bytes.Buffer
	err := printVerdict(&out, &judge.Verdict{
		State: evil, Reasons: []string{evil}, Warnings: []string{evil}, Levels: []judge.Level{{Metrics: map[string]float64{evil: 1}}},
		Accuracy: []judge.Score{{Run: 1, Task: evil, Filter: evil, Metric: evil}},
	})
	if got := out.String(); err != nil || got != plaintext.Text(got) || strings.Count(got, `\x1b]0;owned\a\u202e`) != 7 {
		t.Errorf("%v: %q", err, got)
	}
}

// Line breaks in names make no lines.
func TestForgedLines(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"disagg/perf/a\nforged.yaml", "disagg/other/b\nforged.yaml", "disagg/perf/c\nforged.txt"} {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("job: {client: 'true'}\n"), 0o600))
	}
	out := t.TempDir()
	const ledger = `{"event":"began"}` + "\n" + `{"event":"submitted","task":"d\nforged","job":"7"}` + "\n"
	must.Do(t, os.WriteFile(filepath.Join(out, "jobs.jsonl"), []byte(ledger), 0o600))
	bin := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(bin, "squeue"), []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", bin)
	for _, args := range [][]string{{"list", "--root", root}, {"validate", root}, {"run", "--dry-run", "--root", root, "--gpu", "LOCAL"}, {"clean", "--output", out}} {
		stdout, said, _ := perigee(t, nil, args...)
		if !strings.Contains(stdout+said, `\nforged`) || strings.Contains(stdout+said, "\nforged") {
			t.Errorf("%v:\n%s%s", args, stdout, said)
		}
	}
}

// Only run submits what a config says.
func TestNothingRuns(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "mark")
	file := filepath.Join(dir, "c.yaml")
	touch := "touch " + mark
	text := "benchmark: {concurrency_list: 1}\nslurm: {extra_args: --comment=" + mark + ", job_name: '$(" + touch + ")'}\n" +
		"job: {setup: " + touch + ", client: '`" + touch + "`', env: {A: '$(" + touch + ")'}}\n"
	// The first sbatch and bash that are found would leave the mark, too.
	bin := filepath.Join(dir, "bin")
	must.Do(t, os.Mkdir(bin, 0o755))
	for _, name := range []string{"sbatch", "squeue", "scancel", "sacct", "bash", "sh"} {
		must.Do(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n/bin/"+touch+"\n"), 0o755))
	}
	t.Setenv("PATH", bin)
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	for _, args := range [][]string{{"list", file}, {"validate", file}, {"run", "--dry-run", "--gpu", "LOCAL", file}} {
		if out, said, code := perigee(t, nil, args...); code != 0 {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, said)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a command of the config has run")
	}
}

// A job's log is shown while the job runs, and kept in the log of the run.
func TestHostileRunLog(t *testing.T) {
	dir := t.TempDir()
	var screen strings.Builder
	log, err := openRunLog(dir, time.Now(), &screen)
	must.Do(t, err)
	fmt.Fprintf(log, "case: first error: %s\n  | more\n", evil)
	log.Close()
	files, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	data := must.Read(t, files[0])
	for _, s := range []string{screen.String(), string(data)} {
		if s != plaintext.Text(s) || !strings.Contains(s, `\x1b]0;owned`) {
			t.Errorf("%q", s)
		}
	}
}

// Nothing is planned from a config that is not valid: it may lack what the plan needs.
func TestDryRunOfBrokenConfigs(t *testing.T) {
	dir := t.TempDir()
	text := must.Read(t, "testdata/configs/00_base_valid.yaml")
	for i, gpus := range []string{"0", "x", "[]"} {
		file := filepath.Join(dir, fmt.Sprint(i, ".yaml"))
		changed := regexp.MustCompile(`gpus_per_node: \d+`).ReplaceAllString(string(text), "gpus_per_node: "+gpus)
		must.Do(t, os.WriteFile(file, []byte(changed), 0o600))
		out, said, code := perigee(t, nil, "run", "--dry-run", "--gpu", "GB200", file)
		if code != 3 || !strings.Contains(out, "hardware.gpus_per_node: wanted a whole number") {
			t.Errorf("gpus_per_node %s: exit code %d\n%s%s", gpus, code, out, said)
		}
	}
}

// The scripts of a large sweep are written one by one: together they may be more than fits into memory.
func TestDryRunOfManyCases(t *testing.T) {
	file := filepath.Join(t.TempDir(), "many.yaml")
	text := `metadata: {model_name: toy, precision: fp8, supported_gpus: [LOCAL]}
slurm: {job_time: '00:10:00'}
benchmark: {concurrency_list: 1, multi_round: 8, input_length: 1, output_length: 1}
job: {nodes: 1, server: s, ready: y, client: z}
sweep: {benchmark.input_length: [1, 2, 3]}
`
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	for _, format := range []string{"text", "json"} {
		var out pieces
		said, code := perigeeTo(t, &out, nil, "run", "--dry-run", "--gpu", "LOCAL", "--format", format, file)
		if code != 0 || len(out) != 3 {
			t.Errorf("%s: exit code %d, written in %d pieces\n%s", format, code, len(out), said)
		}
		if all := []byte(strings.Join(out, "")); format == "json" && !json.Valid(all) {
			t.Errorf("no JSON: %s", all)
		}
	}
}

// pieces are the texts that were written.
type pieces []string

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, string(b))
	return len(b), nil
}

// A copy of a run is no second run; equal figures of another time, or some of the same second, are.
func TestCopiedRuns(t *testing.T) {
	run := func(start int64, values ...float64) (rows []report.Row) {
		for i, v := range values {
			at := time.Unix(1_700_000_000+start, 0)
			rows = append(rows, report.Row{Test: "test[a]", Concurrency: 1, Metric: fmt.Sprint("m", i), Value: v, Start: at, End: at})
		}
		return rows
	}
	first := run(0, 1, 2, 3)
	timed := func(took string, rows []report.Row) []report.Row {
		for i := range rows {
			rows[i].Took = took
		}
		return rows
	}
	for _, c := range []struct {
		name   string
		a, b   []report.Row
		copied bool
	}{
		{"another time", first, run(60, 1, 2, 3), false},
		{"the same second", first, run(0, 1, 2, 4), false},
		{"the same second, in one file", slices.Concat(first, run(0, 1, 2, 4)), nil, false},
		{"a copy", first, first, true},
		{"a copy among others", first, slices.Concat(run(60, 1, 2, 3), first), true},
		{"a copy that another program has written", timed("9.250000", run(0, 1, 2)), timed("9.25", run(0, 1, 2)), true},
		{"a copy in one file", slices.Concat(timed("9.250001", run(0, 1, 2)), timed("9.250001", run(0, 1, 2))), nil, true},
		{"the copy of a row in one file", slices.Concat(timed("9.250001", run(0, 1, 2)), timed("9.250001", run(0, 1))), nil, true},
		{"equal figures of other times in one file", slices.Concat(timed("9.250001", run(0, 1, 2)), timed("9.250002", run(0, 1, 2))), nil, false},
		{"equal figures of whole seconds in one file", slices.Concat(timed("9.000000", run(0, 1, 2)), timed("9.000000", run(0, 1, 2))), nil, false},
		{"equal figures in one file", slices.Concat(first, run(60, 5, 6), first), nil, false},
	} {
		known := origins{}
		err := errors.Join(known.add("a.csv", c.a), known.add("b.csv", c.b))
		if c.copied && (fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "it would count twice")) || !c.copied && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A file chooses the length of its keys and values, and so that of what is said of them.
func TestLongKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "long.yaml")
	for _, format := range []string{"%s: 1\n", "metadata: {%s: 1}\n", "metadata: {model_name: 1, %[1]s: {%[1]s: 2}}\n"} {
		must.Do(t, os.WriteFile(file, fmt.Appendf(nil, format, strings.Repeat("k", 1<<20)), 0o644))
		out, said, code := perigee(t, nil, "validate", file)
		if code != 3 || len(out)+len(said) > 20_000 || !strings.Contains(out, "kkk") {
			t.Errorf("%s: exit code %d, %d bytes:\n%.2000s", format, code, len(out)+len(said), out)
		}
	}
}

// Variables may hold anything, too.
func TestHostileVariables(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "test_configs")
	must.Do(t, os.MkdirAll(dir, 0o755))
	out, said, _ := perigee(t, map[string]string{"GPU_TYPE": evil + strings.Repeat("x", 1<<20)}, "list", "--root", dir)
	if all := out + said; all != plaintext.Text(all) || len(all) > 20_000 || !strings.Contains(all, "no test is selected") {
		t.Errorf("%d bytes: %.300q", len(all), all)
	}
}

// A job template may lie beside its case, in a folder that is named, or elsewhere behind a path or a link.
func TestTemplatesElsewhere(t *testing.T) {
	dir := t.TempDir()
	tests, scripts := filepath.Join(dir, "tests"), filepath.Join(dir, "scripts")
	for _, folder := range []string{tests, scripts} {
		must.Do(t, os.Mkdir(folder, 0o755))
	}
	must.Do(t, os.WriteFile(filepath.Join(tests, "own"), []byte("beside {{.ID}}\n"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(scripts, "site"), []byte("of the site {{.ID}}\n"), 0o600))
	must.Do(t, os.Symlink("../scripts/site", filepath.Join(tests, "link")))
	file := filepath.Join(tests, "case.yaml")
	valid := must.Read(t, "testdata/configs/00_base_valid.yaml")
	const beside, site = "beside disagg_perf_case", "of the site disagg_perf_case"
	for _, c := range []struct{ template, workDir, scriptDir, want string }{
		{"own", "", "", beside},
		{filepath.Join(tests, "own"), "", "", beside},
		{"site", "", scripts, site},
		{"site", scripts, "", site},
		{"../scripts/site", "", "", site},
		{filepath.Join(scripts, "site"), "", "", site},
		{"link", "", "", site},
		{"none", "", "", "there is no job template"},
	} {
		text := strings.NewReplacer("script_file: local.slurm", "script_file: "+c.template, "work_dir: /tmp", "work_dir: "+
			strconv.Quote(c.workDir)).Replace(string(valid))
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		for _, named := range []string{file, tests} {
			out, said, _ := perigee(t, map[string]string{"SCRIPT_DIR": c.scriptDir}, "run", "--dry-run", "--format", "json", "--gpu", "GB200", named)
			if !strings.Contains(out, c.want) {
				t.Errorf("%+v, %s: %s%s", c, named, out, said)
			}
		}
	}
}
