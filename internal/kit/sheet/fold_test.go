package sheet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
)

// terminal is one of so many columns.
type terminal struct {
	strings.Builder
	width int
}

func (t *terminal) Width() int { return t.width }

// On a terminal words go on below, in their column, and columns without room follow in parts with the first one.
func TestFold(t *testing.T) {
	var s Sheet
	s.AddColumn("Model", Left, "")
	s.AddColumn("Found", Left, "")
	s.AddColumns(Right, "", "Layers", "Bytes")
	s.AddRow("llama", "there are many words in this cell, and a/path/that/has/no/place/to/break/it", 80, Cell{1234567, "1.23 MB"})
	s.AddRow("qwen", nil, nil, nil)
	for width, want := range map[int]string{
		60: `Model  Found                                 Layers    Bytes
-----  ------------------------------------  ------  -------
llama  there are many words in this cell,        80  1.23 MB
       and
       a/path/that/has/no/place/to/break/it
qwen   -                                          -        -
`,
		36: `Model  Found
-----  -----------------------------
llama  there are many words in this
       cell, and
       a/path/that/has/no/place/to/b
       reak/it
qwen   -

Model  Layers    Bytes
-----  ------  -------
llama      80  1.23 MB
qwen        -        -
`} {
		out := &terminal{width: width}
		must.Do(t, s.WriteText(out))
		if d := cmp.Diff(want, out.String()); d != "" {
			t.Errorf("in %d columns (-want +got):\n%s", width, d)
		}
	}
}

// People see the text of a cell, programs its value; a page sorts by it.
func TestCells(t *testing.T) {
	s := New("models", "sortable", "<Name", "Bytes", "None")
	s.Say = []string{"one & all"}
	s.AddRow("<a>", Cell{int64(1000), "1.00 kB"}, Cell{nil, "x"})
	for format, want := range map[string]string{
		"text": "# models\n# one & all\n  Name    Bytes    None\n------  -------  ------\n   <a>  1.00 kB       -\n",
		"csv":  "Name,Bytes,None\n<a>,1000,\n",
		"json": "[\n  {\"Name\": \"<a>\", \"Bytes\": 1000, \"None\": null}\n]\n",
	} {
		var out strings.Builder
		if err := s.Write(&out, format); err != nil || out.String() != want {
			t.Errorf("%s: %q, want %q: %v", format, &out, want, err)
		}
	}
	var page strings.Builder
	must.Do(t, s.WritePage(&page, "perigee"))
	for _, want := range []string{"<h1>models</h1><p>one &amp; all</p>", `<th>Name</th><th class="num">Bytes</th>`,
		`<td>&lt;a&gt;</td><td class="num" data-value="1000">1.00 kB</td><td class="num">–</td>`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if got := s.Choose("Bytes", "Nothing", "Name").Filled().Headers(); cmp.Diff([]string{"Bytes", "Name"}, got) != "" {
		t.Errorf("chosen: %q", got)
	}
}
