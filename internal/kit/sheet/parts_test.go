package sheet

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
)

// A table that is too wide comes in parts that repeat the keys.
func TestParts(t *testing.T) {
	var sheet Sheet
	for _, header := range []string{"Size", "A", "Bb", "Ccc"} {
		sheet.AddColumn(header, Right, "")
	}
	sheet.AddRow(1, 2, 3, 4)
	sheet.AddRow(10, nil, 30, 40)
	var out strings.Builder
	must.Do(t, sheet.WriteTextWithin(&out, 12, 1))
	want := `Size  A  Bb
----  -  --
   1  2   3
  10  -  30

Size  Ccc
----  ---
   1    4
  10   40
`
	must.Equal(t, want, out.String())
}

// Every column is in one part, every key in all, and no part is wider than it has to be.
func TestPartsOfAnyTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		widths := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 20).Draw(t, "widths")
		limit, keys := rapid.IntRange(0, 100).Draw(t, "limit"), rapid.IntRange(0, 4).Draw(t, "keys")
		list := parts(widths, limit, keys)
		keys = min(keys, len(widths))
		next := keys
		for _, part := range list {
			wide := 0
			for k, i := range part {
				if k < keys && i != k {
					t.Fatalf("part %v does not begin with %d keys", part, keys)
				}
				if k >= keys {
					if i != next {
						t.Fatalf("column %d comes where %d should: %v", i, next, list)
					}
					next++
				}
				wide += widths[i] + utf8.RuneCountInString(gap)
			}
			if limit > 0 && wide-len(gap) > limit && len(part) > keys+1 {
				t.Errorf("part %v is %d wide, more than %d", part, wide-len(gap), limit)
			}
		}
		if next != len(widths) || limit == 0 && len(list) != 1 {
			t.Errorf("%v of %d columns", list, len(widths))
		}
	})
}

// A cell or a header of many characters stands there whole, and costs the other rows nothing.
func TestLongCell(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, align := range []Align{Left, Right} {
		var sheet Sheet
		sheet.AddColumn("A", align, "")
		sheet.AddColumn(long, align, "")
		sheet.AddColumn("C", align, "")
		sheet.AddRow(1, "short", 3)
		sheet.AddRow(long, long, 3)
		for range 100 {
			sheet.AddRow(1, 2, 3)
		}
		var out strings.Builder
		must.Do(t, sheet.WriteText(&out))
		if got, most := out.Len(), 3*len(long)+104*(3*widest+20); got > most || strings.Count(out.String(), long) != 3 {
			t.Errorf("%d bytes, wanted at most %d:\n%.1000s", got, most, &out)
		}
		lines := strings.Split(out.String(), "\n")
		if short := lines[2]; align == Right && utf8.RuneCountInString(short) != len(lines[1]) {
			t.Errorf("%q does not end under %q", short, lines[1])
		}
		out.Reset()
		s, err := sheet.Stream(&out, 0, 0)
		must.Do(t, err)
		before := out.Len()
		if err := s.Row(1, 2, 3); err != nil || out.Len()-before > 2*widest {
			t.Errorf("a row of a stream has %d bytes: %v", out.Len()-before, err)
		}
	}
}
