package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

func TestCSV(t *testing.T) {
	path := filepath.Join(t.TempDir(), CSVName)
	start := time.Date(2026, 1, 14, 2, 3, 4, 0, time.Local)
	row := Row{Test: "test_benchmark[disagg_perf_a]", Concurrency: 1075, Metric: "SERVER_MEDIAN_TTFT", Value: 1122.63, SM: 2062, Mem: 3996,
		Start: start, End: start.Add(703296025 * time.Microsecond), Command: "disagg_benchmark --model=m --fp4 --concurrency=1075"}
	// Several writers at once lose and mix nothing, and write one header.
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if err := AppendCSV(path, []Row{row, row}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	data := must.Read(t, path)
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	want := "test_benchmark[disagg_perf_a]_con:1075,test_benchmark[disagg_perf_a]_con:1075,2062,3996,,test_benchmark[disagg_perf_a]_con:1075," +
		"test_benchmark[disagg_perf_a]_con:1075,test_benchmark[disagg_perf_a]_con:1075,1122.63,703.296025,2026-01-14 02:03:04,2026-01-14 02:14:47,valid," +
		"disagg_benchmark --model=m --fp4 --concurrency=1075,,,SERVER_MEDIAN_TTFT"
	if len(lines) != 17 || lines[0] != strings.Join(columns, ",") || lines[16] != want {
		t.Errorf("%d lines\n%s\n%s\n%s", len(lines), lines[0], lines[len(lines)-1], want)
	}
	rows, _, err := ReadCSV(path)
	row.End, row.Took = row.End.Truncate(time.Second), "703.296025"
	if err != nil || len(rows) != 16 || !cmp.Equal(rows[3], row) {
		t.Errorf("%d rows, %v: %s", len(rows), err, cmp.Diff(rows[0], row))
	}
	must.Do(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(data), "\n", ",,\n")), 0o644))
	if rows, _, err := ReadCSV(path); err != nil || len(rows) != 16 {
		t.Errorf("with columns without a name: %d rows, %v", len(rows), err)
	}
	marked := strings.NewReplacer("network_name", "perf_case_name", "perf_case_name", "network_name").Replace(lines[0])
	marked = "\ufeff" + marked + "\n" + strings.ReplaceAll(strings.Join(lines[1:2], "\n"), ",test_benchmark", ",x") + "\n"
	must.Do(t, os.WriteFile(path, []byte(marked), 0o644))
	if rows, _, err := ReadCSV(path); err != nil || len(rows) != 1 {
		t.Errorf("with a byte order mark: %d rows, %v", len(rows), err)
	}
	for text, word := range map[string]string{
		"": "column names", "a,b\n1,2\n": "the column perf_case_name is missing",
		string(data) + "x\n": "wrong number of fields", strings.ReplaceAll(string(data), "1122.63", "abc"): "wanted a decimal number",
		strings.ReplaceAll(string(data), "1122.63", "NaN"): "wanted a decimal number", strings.ReplaceAll(string(data), "1122.63", "1e301"): "wanted a decimal number",
		strings.ReplaceAll(string(data), "_con:1075", ""): "wanted test[id]_con:N", strings.ReplaceAll(string(data), "_con:1075", "_con:+1075"): "wanted test[id]_con:N",
		strings.ReplaceAll(string(data), "1122.63", "0x1p4"): "wanted a decimal number", strings.ReplaceAll(string(data), "1122.63", "1_122"): "wanted a decimal number",
		strings.Replace(string(data), "sm_clk", "perf_metric", 1): `the column "perf_metric" is there twice`,
		string(data[:len(data)-1]):                                "it may have been cut", string(data[:len(data)-5]): "it may have been cut",
	} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		if _, _, err := ReadCSV(path); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%.40q: %v, want %s", text, err, word)
		}
	}
}

// Rows of a run that are in a file are found, whatever lines users have added, and no row is written behind a line that
// was cut.
func TestMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), CSVName)
	at := time.Date(2026, 1, 14, 2, 3, 4, 0, time.Local)
	row := func(metric string, took time.Duration) Row {
		return Row{Test: "test[a]", Concurrency: 1, Metric: metric, Value: 1, Start: at, End: at.Add(took)}
	}
	rows := []Row{row("A", time.Second), row("B", time.Second)}
	if missing, err := Missing(path, rows); len(missing) != 2 || err != nil {
		t.Errorf("there is no file, got %v, %v", missing, err)
	}
	must.Do(t, AppendCSV(path, rows))
	notes, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must.Do(t, err)
	fmt.Fprint(notes, "a note, 5\" wide\n")
	notes.Close()
	other, level := row("A", time.Second), row("A", time.Second)
	other.Test, level.Concurrency = "test[ab]", 2
	absent := []Row{other, level, row("C", time.Second), row("A", time.Second+time.Microsecond)}
	if got, err := Missing(path, slices.Concat(rows, absent)); err != nil || !slices.Equal(got, absent) {
		t.Errorf("missing are %+v, %v, want %+v", got, err, absent)
	}
	data := must.Read(t, path)
	must.Do(t, os.Truncate(path, int64(len(data)-1)))
	must.Fail(t, AppendCSV(path, rows), fault.Output, "it may have been cut")
}

// A file of figures has a bound.
func TestLongCSV(t *testing.T) {
	path := filepath.Join(t.TempDir(), CSVName)
	row := strings.Join(columns, ",") + "\n"
	must.Do(t, os.WriteFile(path, []byte(row+strings.Repeat("x", mostCSV)), 0o600))
	if rows, _, err := ReadCSV(path); err == nil || !strings.Contains(err.Error(), "it is larger than 67108864 bytes") {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestSession(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, WriteSession(dir, time.Now(), time.Now()))
	data, err := os.ReadFile(filepath.Join(dir, SessionName))
	if err != nil || strings.Count(string(data), "\n") != 2 {
		t.Errorf("%v\n%s", err, data)
	}
}

// A process that holds the lock of the file, which every reader can, stops no run for ever.
func TestLockIsHeld(t *testing.T) {
	defer func(before time.Duration) { patience = before }(patience)
	patience = 50 * time.Millisecond
	path := filepath.Join(t.TempDir(), CSVName)
	must.Do(t, AppendCSV(path, nil))
	holder, err := os.Open(path)
	must.Do(t, err)
	defer holder.Close()
	must.Do(t, unix.Flock(int(holder.Fd()), unix.LOCK_EX))
	must.Fail(t, AppendCSV(path, nil), fault.Output, "another process has held its lock for 50ms")
}
