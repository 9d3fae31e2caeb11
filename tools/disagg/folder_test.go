package disagg

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/tools/disagg/batch"
	"perigee/tools/disagg/record"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// judged is an output folder with a result and the config of its case, by which a run without Slurm passes.
func judged(t *testing.T) (out, config string) {
	t.Helper()
	from := caseFolder(t, goodLog(), true)
	out = filepath.Join(t.TempDir(), "above", "out")
	must(t, os.MkdirAll(filepath.Join(out, batch.LogsFolder), 0o755),
		os.Rename(from, filepath.Join(out, batch.LogsFolder, "disagg_perf_effective")))
	return out, filepath.Join(out, batch.LogsFolder, "disagg_perf_effective", "effective.yaml")
}

func judge(t *testing.T, out, config string, more ...string) (said string, code int) {
	t.Helper()
	args := append([]string{"run", config, "--gpu", "GB200", "--output", out, "--settle", "0s"}, more...)
	_, said, code = perigee(t, map[string]string{"DEBUG_MODE": "1"}, args...)
	return said, code
}

const stranger = 65533

// Who else can write to the folders of a run can change the scripts of its jobs: such folders are refused before
// anything is written there.
func TestFoldersOfOthers(t *testing.T) {
	if out, config := judged(t); true {
		said, code := judge(t, out, config)
		if _, err := os.Stat(filepath.Join(out, record.CSVName)); code != 0 || err != nil {
			t.Fatalf("exit code %d, %v\n%s", code, err, said)
		}
	}
	give := func(path string) error { return os.Lchown(path, stranger, stranger) }
	for _, tt := range []struct {
		name, where string // within the output folder
		change      func(path string) error
		says        string
		root        bool
	}{
		{"all may write", ".", func(p string) error { return os.Chmod(p, 0o777) }, "can be written by its group or by others (mode 0777)", false},
		{"all may write, sticky", ".", func(p string) error { return os.Chmod(p, 0o777|os.ModeSticky) }, "can be written by its group or by others", false},
		{"the group may write", ".", func(p string) error { return errors.Join(os.Chown(p, -1, 65533), os.Chmod(p, 0o775)) }, "can be written by its group or by others", true},
		{"logs", batch.LogsFolder, func(p string) error { return os.Chmod(p, 0o777) }, "can be written by its group or by others", false},
		{"result", batch.LogsFolder + "/disagg_perf_effective", func(p string) error { return os.Chmod(p, 0o777) }, "can be written by its group or by others", false},
		{"above", "..", func(p string) error { return os.Chmod(p, 0o777) }, "can be written by its group or by others", false},
		{"of a stranger", ".", give, "belongs to user 65533", true},
		{"logs of a stranger", batch.LogsFolder, give, "belongs to user 65533", true},
		{"result of a stranger", batch.LogsFolder + "/disagg_perf_effective", give, "belongs to user 65533", true},
		{"above of a stranger", "..", give, "belongs to user 65533", true},
		{"link of a stranger", record.CSVName, func(p string) error { return errors.Join(os.Symlink("elsewhere", p), give(p)) }, record.CSVName + " belongs to user 65533", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			out, config := judged(t)
			must(t, tt.change(filepath.Join(out, tt.where)))
			before, err := os.ReadDir(out)
			must(t, err)
			said, code := judge(t, out, config)
			if code != int(fault.Output) || !strings.Contains(said, tt.says) || !strings.Contains(said, "chmod go-w") {
				t.Errorf("exit code %d\n%s", code, said)
			}
			after, err := os.ReadDir(out)
			must(t, err)
			if len(after) != len(before) {
				t.Errorf("the folder holds %v, before %v", after, before)
			}
			if !strings.HasPrefix(tt.name, "link") {
				if said, code := judge(t, out, config, "--trust-output"); code != 0 {
					t.Errorf("with --trust-output: exit code %d\n%s", code, said)
				}
			}
			if strings.HasPrefix(tt.where, batch.LogsFolder) {
				return // clean does not look there
			}
			if _, said, code := perigee(t, nil, "clean", "--output", out); code != int(fault.Output) || !strings.Contains(said, tt.says) {
				t.Errorf("clean: exit code %d\n%s", code, said)
			}
		})
	}
}

// A folder that is not there yet is made, in /tmp as well, but not where others could replace it.
func TestNewFolders(t *testing.T) {
	above := t.TempDir()
	must(t, os.Chmod(above, 0o777|os.ModeSticky))
	if err := (Folder{}).guard(filepath.Join(above, "a", "b")); err != nil {
		t.Error(err)
	}
	must(t, os.Chmod(above, 0o777))
	if err := (Folder{}).guard(filepath.Join(above, "a", "b")); err == nil || !strings.Contains(err.Error(), above+" can be written by") {
		t.Error(err)
	}
}

// Nothing is appended to through a link or a second name, and no pipe is waited for.
func TestPlantedFiles(t *testing.T) {
	for name, act := range map[string]func(t *testing.T, dir string) (says string, failed bool){
		record.CSVName: func(t *testing.T, dir string) (string, bool) {
			said, code := judge(t, dir, filepath.Join(dir, batch.LogsFolder, "disagg_perf_effective", "effective.yaml"))
			return said, code == int(fault.Output)
		},
		"jobs.jsonl": clean, "jobs.txt": clean,
		"disagg_benchmark_20260102_030405.log": func(t *testing.T, dir string) (string, bool) {
			l, err := openRunLog(dir, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), &strings.Builder{})
			if err != nil {
				return err.Error(), fault.KindOf(err) == fault.Output
			}
			l.Close()
			return "", false
		},
	} {
		for _, tt := range []struct {
			kind, says string
			plant      func(victim, path string) error
		}{
			{"link", "it is a link", os.Symlink},
			{"second name", "it has 2 names", os.Link},
			{"pipe", "wanted a regular file", func(_, path string) error { return unix.Mkfifo(path, 0o600) }},
			{"folder", "is a directory", func(_, path string) error { return os.Mkdir(path, 0o755) }},
		} {
			t.Run(name+" "+tt.kind, func(t *testing.T) {
				out, _ := judged(t)
				victim, path := filepath.Join(filepath.Dir(out), "victim"), filepath.Join(out, name)
				must(t, os.WriteFile(victim, nil, 0o600), tt.plant(victim, path))
				says, failed := act(t, out)
				if !failed || !strings.Contains(says, name) || !strings.Contains(says, tt.says) {
					t.Errorf("failed is %v: %s", failed, says)
				}
				if data, err := os.ReadFile(victim); err != nil || len(data) > 0 {
					t.Errorf("the victim's file: %q, %v", data, err)
				}
			})
		}
	}
}

// An output folder that came from somewhere else leads nothing that a run writes to another place.
func TestPlantedPlaces(t *testing.T) {
	const logs = batch.LogsFolder
	for _, place := range []string{
		junitFile, record.SessionName, logs, logs + "/disagg_perf_effective", logs + "/disagg_perf_effective" + batch.FailedSuffix,
		logs + "/disagg_perf_effective/" + verdictFile, logs + "/disagg_perf_effective/" + resultFile,
	} {
		for kind, plant := range map[string]func(elsewhere, path string) error{
			"a link": os.Symlink, "another kind of file": func(_, path string) error { return unix.Mkfifo(path, 0o600) },
		} {
			out, config := judged(t)
			path, elsewhere := filepath.Join(out, place), filepath.Join(filepath.Dir(out), "elsewhere")
			own := filepath.Join(t.TempDir(), "effective.yaml")
			must(t, os.Rename(config, own))
			if _, err := os.Stat(path); err == nil {
				must(t, os.Rename(path, elsewhere))
			}
			must(t, plant(elsewhere, path))
			said, code := judge(t, out, own)
			if code != int(fault.Output) || !strings.Contains(said, path+": wanted a") || !strings.Contains(said, "got "+kind) {
				t.Errorf("%s, %s: exit code %d\n%s", place, kind, code, said)
			}
			entries, _ := os.ReadDir(elsewhere)
			if info, err := os.Stat(elsewhere); err == nil && !info.IsDir() || len(entries) > 2 {
				t.Errorf("%s, %s: something was written elsewhere: %v", place, kind, entries)
			}
		}
	}
}

// Nor does such a place if the command line names it.
func TestPlantedJUnit(t *testing.T) {
	out, config := judged(t)
	path, elsewhere := filepath.Join(out, junitFile), filepath.Join(filepath.Dir(out), "elsewhere")
	must(t, os.RemoveAll(path), os.Symlink(elsewhere, path))
	said, code := judge(t, out, config, "--junit", path)
	if _, err := os.Lstat(elsewhere); err == nil || code != int(fault.Output) || !strings.Contains(said, "got a link") {
		t.Errorf("exit code %d, %v\n%s", code, err, said)
	}
	if said, code := judge(t, out, config, "--junit", elsewhere); code == int(fault.Output) {
		t.Errorf("exit code %d\n%s", code, said)
	}
}

func clean(t *testing.T, dir string) (string, bool) {
	_, said, code := perigee(t, nil, "clean", "--output", dir)
	return said, code == int(fault.Output)
}

// A config in a result folder names no log outside of it.
func TestLogsElsewhere(t *testing.T) {
	for _, keys := range []string{"metadata: {metrics: {log_file: ../secret.log}}", "metadata: {accuracy: {metrics: {log_file: ../*cret.log}}}"} {
		dir := caseFolder(t, goodLog(), true)
		must(t, os.WriteFile(filepath.Join(dir, "..", "secret.log"), []byte("the secret"), 0o600),
			os.WriteFile(filepath.Join(dir, "effective.yaml"), []byte("benchmark: {concurrency_list: 1}\njob: {client: 'true'}\n"+keys+"\n"), 0o600))
		out, said, code := perigee(t, nil, "parse", dir, "--settle", "0s")
		if code != int(fault.Input) || strings.Contains(out+said, "the secret") {
			t.Errorf("%s:\n%s%s", keys, out, said)
		}
	}
}

// What another case has left is not replaced because its folder has the name of this one's, or of its failed runs.
func TestFoldersOfOtherCases(t *testing.T) {
	for _, suffix := range []string{"", batch.FailedSuffix} {
		out, config := judged(t)
		if said, code := judge(t, out, config); code != 0 {
			t.Fatalf("exit code %d\n%s", code, said)
		}
		dir := filepath.Join(out, batch.LogsFolder, "disagg_perf_effective")
		verdict, err := os.ReadFile(filepath.Join(dir, verdictFile))
		must(t, err, os.MkdirAll(dir+suffix, 0o755),
			os.WriteFile(filepath.Join(dir+suffix, verdictFile), []byte(strings.Replace(string(verdict), `"disagg_perf_effective"`, `"disagg_perf_effective_ERROR"`, 1)), 0o644))
		said, code := judge(t, out, config)
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
	must(t, err)
	said, code := judge(t, out, config)
	if code != int(fault.Output) || !strings.Contains(said, "another run of perigee disagg is using this folder") {
		t.Errorf("beside a run: exit code %d\n%s", code, said)
	}
	ledger.Close()
	must(t, os.WriteFile(filepath.Join(out, "jobs.jsonl"), []byte(`{"event":"submitting","task":"disagg_perf_effective"}`+"\n"), 0o600))
	said, code = judge(t, out, config)
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
		csv := filepath.Join(out, record.CSVName)
		must(t, os.WriteFile(csv, []byte(text), 0o644))
		said, code := judge(t, out, config)
		after, err := os.ReadFile(csv)
		_, judged := os.Stat(filepath.Join(out, batch.LogsFolder, "disagg_perf_effective", verdictFile))
		if code != int(fault.Output) || !strings.Contains(said, says) || err != nil || string(after) != text || judged == nil {
			t.Errorf("%q: exit code %d, %v, %q\n%s", text, code, err, after, said)
		}
	}
}
