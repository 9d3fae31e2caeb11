package sheet_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// latencies is the table of a sequential traffic run.
func latencies() *sheet.Sheet {
	var t sheet.Sheet
	t.AddColumn("Transfer size (GB)", sheet.Right, "%.3f")
	t.AddColumn("Latency (ms)", sheet.Right, "%.3f")
	t.AddColumn("Isolated Latency (ms)", sheet.Right, "%.3f")
	t.AddColumn("Num Senders", sheet.Right, "%d")
	t.AddRow(4.945, 35.047, 35.421, 4)
	t.AddRow(3.2301, 21.15249, nil, 4)
	t.AddRow(0.129, math.NaN(), math.Inf(1), 16)
	return &t
}

// mixed has what makes a table difficult.
func mixed() *sheet.Sheet {
	var t sheet.Sheet
	t.AddColumn("host", sheet.Left, "")
	t.AddColumn("n", sheet.Right, "%d")
	t.AddColumn("größe", sheet.Right, "%6.1f%%")
	t.AddColumn("note", sheet.Left, "")
	t.AddRow("node-with-a-long-name", 1, 99.95, "short")
	t.AddRow("a\nb\x1b[31m", 1<<40, 0.0, `commas, "quotes" <tags>`)
	t.AddRow("50%!", nil, 3.0, nil)
	return &t
}

// JSON keeps every character, and none of them acts on a terminal.
func TestJSONIsPlain(t *testing.T) {
	const evil = "\x1b]0;x\a\x7f\u009b31m\u202e"
	var tab sheet.Sheet
	tab.AddColumn(evil, sheet.Left, "")
	tab.AddRow(evil)
	var out bytes.Buffer
	must.Do(t, tab.WriteJSON(&out))
	var rows []map[string]string
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) != 1 || rows[0][evil] != evil {
		t.Errorf("%v, %q", err, rows)
	}
	if got := out.String(); got != plaintext.Text(got) {
		t.Errorf("%q", got)
	}
}

func TestGolden(t *testing.T) {
	var empty, headers sheet.Sheet
	headers.AddColumn("only", sheet.Right, "")
	tables := map[string]*sheet.Sheet{"latencies": latencies(), "empty": &empty, "headers": &headers}
	tables["mixed"] = mixed()
	for name, tab := range tables {
		writers := map[string]func(io.Writer) error{".txt": tab.WriteText, ".csv": tab.WriteCSV, ".json": tab.WriteJSON}
		for ext, write := range writers {
			t.Run(name+ext, func(t *testing.T) {
				var got bytes.Buffer
				must.Do(t, write(&got))
				path := filepath.Join("testdata", name+ext)
				if *update {
					must.Do(t, os.WriteFile(path, got.Bytes(), 0o644))
				}
				want := must.Read(t, path)
				must.Equal(t, string(want), got.String())
			})
		}
	}
}

// TestDocument compares with the head of the table in the original's document.
func TestDocument(t *testing.T) {
	var got strings.Builder
	must.Do(t, latencies().WriteText(&got))
	if n := latencies().Len(); n != 3 {
		t.Errorf("%d rows, wanted 3", n)
	}
	want := "  Transfer size (GB)    Latency (ms)    Isolated Latency (ms)    Num Senders\n" +
		"--------------------  --------------  -----------------------  -------------\n"
	if !strings.HasPrefix(got.String(), want) {
		t.Errorf("got\n%swanted it to begin with\n%s", &got, want)
	}
}

func TestMistakes(t *testing.T) {
	tests := []struct {
		name string
		do   func(*sheet.Sheet)
		want string
	}{
		{"too few cells", func(t *sheet.Sheet) { t.AddColumn("a", sheet.Left, ""); t.AddRow() }, "row 1: wanted 1 cells, got 0"},
		{"too many cells", func(t *sheet.Sheet) { t.AddRow(1) }, "row 1: wanted 0 cells, got 1"},
		{"same header", func(t *sheet.Sheet) { t.AddColumn("a", sheet.Left, ""); t.AddColumn("a", sheet.Left, "") }, `two columns named "a"`},
		{"format of another type", func(t *sheet.Sheet) { t.AddColumn("a", sheet.Left, "%.1f"); t.AddRow(3) }, `row 1, column "a": int does not go with the format "%.1f"`},
		{"late column", func(t *sheet.Sheet) { t.AddRow(); t.AddColumn("a", sheet.Left, "") }, `column "a" added after 1 rows`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tab sheet.Sheet
			tt.do(&tab)
			for _, write := range []func(io.Writer) error{tab.WriteText, tab.WriteCSV, tab.WriteJSON} {
				if err := write(io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, wanted %q", err, tt.want)
				}
			}
		})
	}
	var tab sheet.Sheet
	tab.AddColumn("f", sheet.Left, "")
	tab.AddRow(func() {})
	if err := tab.WriteJSON(io.Discard); err == nil || !strings.Contains(err.Error(), `row 1, column "f"`) {
		t.Errorf("a function in JSON: got %v", err)
	}
}

type brokenPipe struct{}

var errBroken = errors.New("broken")

func (brokenPipe) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteErrorsComeBack(t *testing.T) {
	tab := mixed()
	for _, write := range []func(io.Writer) error{tab.WriteText, tab.WriteCSV, tab.WriteJSON} {
		if err := write(brokenPipe{}); !errors.Is(err, errBroken) {
			t.Errorf("got %v, wanted the writer's error", err)
		}
	}
}

// TestAnyTable checks on tables of any content that text is rectangular and
// that CSV and JSON give the values back.
func TestAnyTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.SliceOfNDistinct(rapid.StringMatching(`[ -~äß\n]{1,12}`), 1, 5, rapid.ID).Draw(t, "headers")
		rows := rapid.SliceOfN(rapid.SliceOfN(rapid.Float64(), len(columns), len(columns)), 0, 5).Draw(t, "rows")
		var tab sheet.Sheet
		for _, c := range columns {
			tab.AddColumn(c, sheet.Align(rapid.IntRange(0, 1).Draw(t, "align")), "%.2f")
		}
		for _, row := range rows {
			cells := make([]any, len(row))
			for i, v := range row {
				cells[i] = v
			}
			tab.AddRow(cells...)
		}
		checkText(t, &tab, len(rows))
		checkCSV(t, &tab, columns, rows)
		checkJSON(t, &tab, columns, rows)
	})
}

func checkText(t *rapid.T, tab *sheet.Sheet, rows int) {
	var b strings.Builder
	must.Do(t, tab.WriteText(&b))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != rows+2 {
		t.Fatalf("%d lines for %d rows:\n%s", len(lines), rows, &b)
	}
	for _, l := range lines {
		if utf8.RuneCountInString(l) > len(lines[1]) {
			t.Fatalf("a line is wider than the dashes:\n%s", &b)
		}
	}
}

func checkCSV(t *rapid.T, tab *sheet.Sheet, columns []string, rows [][]float64) {
	var b bytes.Buffer
	must.Do(t, tab.WriteCSV(&b))
	read, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(read) != len(rows)+1 {
		t.Fatalf("CSV reads back as %q, %v", read, err)
	}
	guarded := make([]string, len(columns))
	for i, c := range columns {
		guarded[i] = plaintext.Cell(c)
	}
	must.Equal(t, guarded, read[0])
	for r, row := range rows {
		for i, want := range row {
			if got, err := strconv.ParseFloat(read[r+1][i], 64); err != nil || got != want {
				t.Fatalf("CSV cell %q, wanted %v", read[r+1][i], want)
			}
		}
	}
}

func checkJSON(t *rapid.T, tab *sheet.Sheet, columns []string, rows [][]float64) {
	var b bytes.Buffer
	must.Do(t, tab.WriteJSON(&b))
	var read []map[string]float64
	if err := json.Unmarshal(b.Bytes(), &read); err != nil || len(read) != len(rows) {
		t.Fatalf("JSON reads back as %v, %v", read, err)
	}
	for r, row := range rows {
		for i, want := range row {
			if got := read[r][columns[i]]; got != want {
				t.Fatalf("JSON row %d %q: %v, wanted %v", r, columns[i], got, want)
			}
		}
	}
}
