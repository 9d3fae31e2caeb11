package sheet

import (
	"strings"
	"testing"

	"perigee/internal/kit/fault"
)

// A user chooses columns, in any case, and the order of rows; rows without a value come last both ways.
func TestView(t *testing.T) {
	var s Sheet
	s.AddColumn("Name", Left, "")
	s.AddColumns(Right, "", "Bytes", "Group")
	s.AddRow("a", Bytes(900), 1)
	s.AddRow("b", nil, 2)
	s.AddRow("c", Bytes(1e6), 1)
	s.AddRow("d", Bytes(2000), 2)
	for _, c := range []struct {
		sort    string
		columns []string
		want    string
	}{
		{"", nil, "Name,Bytes,Group\na,900,1\nb,,2\nc,1000000,1\nd,2000,2\n"},
		{"bytes", []string{"name"}, "Name\na\nd\nc\nb\n"},
		{"-Bytes", []string{"Bytes", " name"}, "Bytes,Name\n1000000,c\n2000,d\n900,a\n,b\n"},
		{"-Group,name", []string{"Name"}, "Name\nb\nd\na\nc\n"},
	} {
		var out strings.Builder
		if err := (View{Format: "csv", Sort: c.sort, Columns: c.columns}).Write(&out, &s); err != nil || out.String() != c.want {
			t.Errorf("%s %q: %q, want %q: %v", c.sort, c.columns, &out, c.want, err)
		}
	}
	for want, v := range map[string]View{
		`--columns: there is no column "byte"; did you mean "Bytes"?`: {Columns: []string{"byte"}},
		`--sort: there is no column "x"`:                              {Sort: "-x"},
		"--columns: name is there twice":                              {Columns: []string{"Name", "name"}},
	} {
		if err := v.Write(&strings.Builder{}, &s); fault.KindOf(err) != fault.Usage || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	var page strings.Builder
	if err := (View{Format: "page"}).Write(&page, &s); err != nil || !strings.Contains(page.String(), `data-value="1000000">1.00 MB</td>`) {
		t.Errorf("page: %v", err)
	}
}
