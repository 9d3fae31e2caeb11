package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/serving/benchlog"
	"perigee/internal/serving/judge"
)

// CSVName is the file of an output folder that collects figures.
const CSVName = judge.FiguresName

// columns are those of TensorRT-LLM's performance tests.
var columns = []string{
	"network_name", "network_hash", "sm_clk", "mem_clk", "gpu_idx", "perf_case_name", "test_name", "original_test_name",
	"perf_metric",
	"total_time__sec", "start_timestamp", "end_timestamp", "state", "command", "threshold", "absolute_threshold",
	"metric_type",
}

// Row is one figure of one level.
type Row struct {
	Test        string // function and id: test_benchmark[disagg_perf_x]
	Concurrency int
	Metric      string
	Value       float64
	SM, Mem     int // locked clocks in MHz; 0: not locked
	Start, End  time.Time
	Command     string
	Took        string // total_time__sec as the file has it; only from ReadCSV
}

// stampLayout is the form of times in the file, in local time.
const stampLayout = "2006-01-02 15:04:05"

// fields returns the row in the order of the columns. The value stands in
// perf_metric's column of the original, total_time__sec is the same on all rows
// of a test.
func (r Row) fields() []string {
	name := fmt.Sprintf("%s_con:%d", r.Test, r.Concurrency)
	return []string{
		strings.ReplaceAll(name, "/", "-"), name, strconv.Itoa(r.SM), strconv.Itoa(r.Mem), "", name, name, name,
		strconv.FormatFloat(r.Value, 'f', -1, 64), strconv.FormatFloat(r.End.Sub(r.Start).Seconds(), 'f', 6, 64),
		r.Start.Format(stampLayout), r.End.Format(stampLayout), "valid", r.Command, "", "", r.Metric,
	}
}

// Missing returns those rows of a run that the file at path lacks: none of a figure with that test, level and times.
// Other lines of the file need not be rows: users add notes.
func Missing(path string, rows []Row) ([]Row, error) {
	data, err := file.Read(path, mostCSV)
	if errors.Is(err, fs.ErrNotExist) {
		return rows, nil
	}
	if err != nil {
		return nil, fault.New(fault.Input, "%w", err)
	}
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord, r.LazyQuotes = -1, true
	list, err := r.ReadAll()
	if err != nil {
		return nil, fault.New(fault.Input, "%s: %w", path, err)
	}
	// The name, total_time__sec to end_timestamp, and the metric.
	key := func(fields []string) string {
		return strings.Join(slices.Concat(fields[5:6], fields[9:12], fields[16:17]), "\n")
	}
	has := map[string]bool{}
	for _, fields := range list {
		if len(fields) == len(columns) {
			has[key(fields)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(row Row) bool { return has[key(row.fields())] }), nil
}

// lines are rows as they stand in a file.
func lines(rows []Row) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	for _, r := range rows {
		w.Write(r.fields())
	}
	w.Flush() // strings.Builder takes everything
	return b.String()
}

// whole refuses the text of a file whose last line has no end. What is left of a line that was cut may look like
// another figure.
func whole(path string, text []byte) error {
	if len(text) == 0 || text[len(text)-1] == '\n' {
		return nil
	}
	return fmt.Errorf("%s: wanted a newline at the end of the last line, got none: it may have been cut", path)
}

// CheckCSV finds out whether AppendCSV could add rows to the file at path, which need not be there.
func CheckCSV(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Output, "%w", err)
	}
	defer file.Close()
	_, err = appendable(file)
	return err
}

// appendable refuses a file to which no rows can be added. It returns the size of the file.
func appendable(file *os.File) (size int64, err error) {
	size, err = file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return size, err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, size-1); err != nil {
		return 0, err
	}
	if err := whole(file.Name(), last); err != nil {
		return 0, fault.New(fault.Output, "%w", err).WithHint(wholeHint)
	}
	header, err := csv.NewReader(io.NewSectionReader(file, 0, size)).Read()
	if err == nil {
		header[0] = strings.TrimPrefix(header[0], byteOrderMark)
	}
	if err != nil || !slices.Equal(header, columns) {
		return 0, fault.New(fault.Output, "%s: its first line does not name the columns that are written there: %s", file.Name(),
			strings.Join(columns, ",")).WithHint("move the file away, or set OUTPUT_PATH to another folder")
	}
	return size, nil
}

const wholeHint = "end the last line with a newline if it is whole, or take it out"

// AppendCSV adds rows to the file at path under a lock, and the header if it is
// new or empty. After an error the file is as it was.
func AppendCSV(path string, rows []Row) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return fault.New(fault.Output, "%w", err)
	}
	defer func() {
		if e := file.Close(); err == nil && e != nil {
			err = fault.New(fault.Output, "%w", e)
		}
	}()
	if err := lock(file); err != nil {
		return fault.New(fault.Output, "%s: %w", path, err)
	}
	size, err := appendable(file)
	if err != nil {
		return fault.New(fault.Output, "%w", err)
	}
	text := lines(rows)
	if size == 0 {
		text = strings.Join(columns, ",") + "\n" + text
	}
	if _, err = file.WriteString(text); err == nil {
		err = file.Sync()
	}
	if err != nil {
		return fault.New(fault.Output, "%w", errors.Join(err, file.Truncate(size)))
	}
	return nil
}

// patience bounds the wait for the lock of a file. Every user who can read the file can hold it.
var patience = time.Minute

// lock locks a file for this process.
func lock(file *os.File) error {
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		if time.Now().After(late) {
			return fmt.Errorf("another process has held its lock for %s (lsof names it)", patience)
		}
	}
}

// byteOrderMark begins files of spreadsheets.
const byteOrderMark = "\ufeff"

// mostCSV bounds a file of figures: 100,000 of perigee's rows have 50 MB.
const mostCSV = 64 << 20

// ReadCSV reads the rows of a file that AppendCSV or TensorRT-LLM's tests have
// written. Columns are found by their names. left counts the rows that were left out since their run has failed.
func ReadCSV(path string) (rows []Row, left int, _ error) {
	data, err := file.Read(path, mostCSV)
	if err != nil {
		return nil, 0, fault.New(fault.Input, "%w", err)
	}
	r := csv.NewReader(bytes.NewReader(data))
	header, err := r.Read()
	if err != nil {
		return nil, 0, fault.New(fault.Input, "%s: wanted a line of column names: %w", path, err)
	}
	at, err := places(header)
	if err != nil {
		return nil, 0, fault.New(fault.Input, "%s:1: %w", path, err)
	}
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			if err := whole(path, data); err != nil {
				return nil, 0, fault.New(fault.Input, "%w", err).WithHint(wholeHint)
			}
			return rows, left, nil
		}
		if err != nil {
			return nil, 0, fault.New(fault.Input, "%s: %w", path, err)
		}
		line, _ := r.FieldPos(0)
		row, err := readRow(fields, at)
		if err != nil {
			return nil, 0, fault.New(fault.Input, "%s:%d: %w", path, line, err)
		}
		if k, ok := at["state"]; ok && fields[k] != "" && fields[k] != "valid" {
			left++
			continue
		}
		rows = append(rows, row)
	}
}

// places returns where the columns of a file are.
func places(header []string) (map[string]int, error) {
	header[0] = strings.TrimPrefix(header[0], byteOrderMark)
	at := map[string]int{}
	for i, name := range header {
		if _, ok := at[name]; ok && name != "" { // a spreadsheet leaves some without a name
			return nil, fmt.Errorf("the column %q is there twice", name)
		}
		at[name] = i
	}
	for _, name := range []string{"perf_case_name", "perf_metric", "metric_type", "start_timestamp", "end_timestamp"} {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("the column %s is missing", name)
		}
	}
	return at, nil
}

func readRow(fields []string, at map[string]int) (Row, error) {
	get := func(name string) string {
		if i, ok := at[name]; ok {
			return fields[i]
		}
		return ""
	}
	row := Row{Metric: get("metric_type"), Command: get("command"), Took: get("total_time__sec")}
	name := get("perf_case_name")
	i := strings.LastIndex(name, "_con:")
	if i < 0 {
		return row, fmt.Errorf("perf_case_name: wanted test[id]_con:N, got %q", name)
	}
	var err error
	row.Test = name[:i]
	level := name[i+len("_con:"):]
	row.Concurrency, err = strconv.Atoi(level)
	if err != nil || row.Concurrency < 0 || strconv.Itoa(row.Concurrency) != level {
		return row, fmt.Errorf("perf_case_name: wanted test[id]_con:N, got %q", name)
	}
	row.Value, err = strconv.ParseFloat(get("perf_metric"), 64)
	if err != nil || !(math.Abs(row.Value) <= benchlog.MostFigure) || strings.ContainsAny(get("perf_metric"), "_xX") {
		return row, fmt.Errorf("perf_metric: wanted a decimal number between -%g and %[1]g, got %q", benchlog.MostFigure,
			get("perf_metric"))
	}
	if row.Start, err = time.ParseInLocation(stampLayout, get("start_timestamp"), time.Local); err != nil {
		return row, fmt.Errorf("start_timestamp: %w", err)
	}
	if row.End, err = time.ParseInLocation(stampLayout, get("end_timestamp"), time.Local); err != nil {
		return row, fmt.Errorf("end_timestamp: %w", err)
	}
	row.SM, _ = strconv.Atoi(get("sm_clk"))
	row.Mem, _ = strconv.Atoi(get("mem_clk"))
	return row, nil
}
