package sheet_test

import (
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/kit/sheet"
)

// Rows that come one by one look as the whole table does, as long as no cell is wider than its header.
func TestStream(t *testing.T) {
	fill := func() *sheet.Sheet {
		var tab sheet.Sheet
		tab.AddColumn("Block (B)", sheet.Right, "%d")
		tab.AddColumn("Name", sheet.Left, "%s")
		tab.AddColumn("BW (GB/s)", sheet.Right, "%.2f")
		return &tab
	}
	rows := [][]any{{4096, "a", 1.5}, {8192, nil, 12.25}}
	whole, parts := fill(), fill()
	var want, got, seen strings.Builder
	s, err := parts.Stream(&got, 0, 1)
	must.Do(t, err)
	for i, r := range rows {
		whole.AddRow(r...)
		must.Do(t, s.Row(r...))
		if n := strings.Count(got.String(), "\n"); n != 3+i {
			t.Errorf("%d lines after row %d", n, i)
		}
	}
	if err := whole.WriteText(&want); err != nil || want.String() != got.String() || s.LeftOut() {
		t.Errorf("%v: got\n%s\nwant\n%s", err, &got, &want)
	}
	if parts.Len() != 2 {
		t.Errorf("the table has %d rows", parts.Len())
	}
	narrow, err := fill().Stream(&seen, 20, 1)
	if err != nil || !narrow.LeftOut() || narrow.Row(1, "x", 2.0) != nil {
		t.Fatal(err)
	}
	if want := "  Block (B)  Name\n-----------  ------\n          1  x\n"; seen.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &seen, want)
	}
	if err := narrow.Row(1); err == nil {
		t.Error("a row with too few cells was taken")
	}
}
