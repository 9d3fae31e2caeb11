package disagg

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/judge"
	"perigee/tools/disagg/report"
)

// judged is an output folder with a result and the config of its case, by which a run without Slurm passes.
func judged(t *testing.T) (out, config string) {
	t.Helper()
	from := caseFolder(t, goodLog(), true)
	out = filepath.Join(t.TempDir(), "above", "out")
	must.Do(t, os.MkdirAll(filepath.Join(out, judge.LogsFolder), 0o755),
		os.Rename(from, filepath.Join(out, judge.LogsFolder, "disagg_perf_effective")))
	return out, filepath.Join(out, judge.LogsFolder, "disagg_perf_effective", "effective.yaml")
}

func rejudge(t *testing.T, out, config string, more ...string) (said string, code int) {
	t.Helper()
	args := append([]string{"run", config, "--gpu", "GB200", "--output", out, "--settle", "0s"}, more...)
	_, said, code = perigee(t, map[string]string{"DEBUG_MODE": "1"}, args...)
	return said, code
}

const colleague = 65533

// Output folders of a project, of a container's users and with links of colleagues are used as they are.
func TestFoldersOfOthers(t *testing.T) {
	give := func(path string) error { return os.Lchown(path, colleague, colleague) }
	for _, tt := range []struct {
		name, where string // within the output folder
		change      func(path string) error
		root        bool
	}{
		{"all may write", ".", func(p string) error { return os.Chmod(p, 0o777) }, false},
		{"of a project", ".", func(p string) error { return errors.Join(give(p), os.Chmod(p, 0o775|os.ModeSetgid)) }, true},
		{"in one of a project", "..", func(p string) error { return errors.Join(give(p), os.Chmod(p, 0o775|os.ModeSetgid)) }, true},
		{"logs", judge.LogsFolder, func(p string) error { return errors.Join(give(p), os.Chmod(p, 0o777)) }, true},
		{"result", judge.LogsFolder + "/disagg_perf_effective", give, true},
		{"file of a container", "left", func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chown(p, 100999, 100999)) }, true},
		{"link", report.CSVName, func(p string) error { return os.Symlink("../all.csv", p) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			out, config := judged(t)
			must.Do(t, tt.change(filepath.Join(out, tt.where)))
			said, code := rejudge(t, out, config)
			if _, err := os.Stat(filepath.Join(out, report.CSVName)); code != 0 || err != nil {
				t.Errorf("exit code %d, %v\n%s", code, err, said)
			}
			if _, said, code := perigee(t, nil, "clean", "--output", out); code != 0 {
				t.Errorf("clean: exit code %d\n%s", code, said)
			}
		})
	}
}

// The option that older scripts give is no error.
func TestTrustOutput(t *testing.T) {
	out, config := judged(t)
	if said, code := rejudge(t, out, config, "--trust-output"); code != 0 || strings.Contains(said, "trust-output") {
		t.Errorf("exit code %d\n%s", code, said)
	}
}

// A log may be a link to where there is more room.
func TestLogOnScratch(t *testing.T) {
	dir := caseFolder(t, goodLog(), true)
	log, scratch := filepath.Join(dir, "6_bench.log"), filepath.Join(t.TempDir(), "scratch.log")
	must.Do(t, os.Rename(log, scratch), os.Symlink(scratch, log))
	if out, said, code := perigee(t, nil, "parse", dir, "--settle", "0s"); code != 0 {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
}

// Colleagues of a group can read the logs of a run and add to its figures, but not its scripts.
func TestFilesObeyTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o002))
	out, config := judged(t)
	if said, code := rejudge(t, out, config); code != 0 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	logs, _ := filepath.Glob(filepath.Join(out, "disagg_benchmark_*.log"))
	for _, path := range append(logs, filepath.Join(out, report.CSVName), filepath.Join(out, junitFile), filepath.Join(out, "jobs.jsonl")) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o664 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// What another case has left is not replaced because its folder has the name of this one's, or of its failed runs.
func TestFoldersOfOtherCases(t *testing.T) {
	for _, suffix := range []string{"", batch.FailedSuffix} {
		out, config := judged(t)
		if said, code := rejudge(t, out, config); code != 0 {
			t.Fatalf("exit code %d\n%s", code, said)
		}
		dir := filepath.Join(out, judge.LogsFolder, "disagg_perf_effective")
		verdict, err := os.ReadFile(filepath.Join(dir, judge.CaseName))
		must.Do(t, err, os.MkdirAll(dir+suffix, 0o755),
			os.WriteFile(filepath.Join(dir+suffix, judge.CaseName), []byte(strings.Replace(string(verdict), `"disagg_perf_effective"`, `"disagg_perf_effective_ERROR"`, 1)), 0o644))
		said, code := rejudge(t, out, config)
		want := dir + suffix + " holds the results of the case disagg_perf_effective_ERROR, and disagg_perf_effective would replace them"
		if code != int(fault.Input) || !strings.Contains(said, want) {
			t.Errorf("%q: exit code %d\n%s", suffix, code, said)
		}
	}
}

// DEBUG_MODE writes into the folder as a run does: not beside one, nor beside jobs that one has left.
func TestDebugBesideARun(t *testing.T) {
	out, config := judged(t)
	ledger, err := batch.OpenLedger(out)
	must.Do(t, err)
	said, code := rejudge(t, out, config)
	if code != int(fault.Output) || !strings.Contains(said, "another run of perigee disagg is using this folder") {
		t.Errorf("beside a run: exit code %d\n%s", code, said)
	}
	ledger.Close()
	must.Do(t, os.WriteFile(filepath.Join(out, "jobs.jsonl"), []byte(`{"event":"submitting","task":"disagg_perf_effective"}`+"\n"), 0o600))
	said, code = rejudge(t, out, config)
	if code != int(fault.Usage) || !strings.Contains(said, "an interrupted run has left 1 job that may still be running") {
		t.Errorf("beside its jobs: exit code %d\n%s", code, said)
	}
}

// That figures cannot be added to the file of figures shows before anything runs.
func TestForeignCSV(t *testing.T) {
	for text, says := range map[string]string{
		"a,b\n1,2\n":    "its first line does not name the columns",
		"network_name,": "wanted a newline at the end of the last line",
	} {
		out, config := judged(t)
		csv := filepath.Join(out, report.CSVName)
		must.Do(t, os.WriteFile(csv, []byte(text), 0o644))
		said, code := rejudge(t, out, config)
		after, err := os.ReadFile(csv)
		_, judged := os.Stat(filepath.Join(out, judge.LogsFolder, "disagg_perf_effective", judge.CaseName))
		if code != int(fault.Output) || !strings.Contains(said, says) || err != nil || string(after) != text || judged == nil {
			t.Errorf("%q: exit code %d, %v, %q\n%s", text, code, err, after, said)
		}
	}
}
