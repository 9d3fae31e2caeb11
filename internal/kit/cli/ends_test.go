package cli

import (
	"fmt"
	"strings"
	"testing"
)

// Of a long text the beginning and the end are kept, in whole lines where there are lines, and little memory is taken.
func TestEnds(t *testing.T) {
	line := strings.Repeat("é", 49) + "\n" // 99 bytes, of which no multiple is mostOfEnd
	whole := strings.Repeat(line, mostOfEnd/len(line))
	odd := strings.Repeat("é", mostOfEnd/2)
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"short", "a\nb", "a\nb"},
		{"as much as is kept", odd + odd, odd + odd},
		{"lines", "begin\n" + strings.Repeat(line, 30_000) + "end\n", ""},
		{"one long line", "x" + strings.Repeat("é", 1<<20) + "y",
			"x" + odd[:mostOfEnd-2] + fmt.Sprintf("\n... (%d bytes left out) ...\n", 2<<20+2-2*mostOfEnd) + odd[:mostOfEnd-2] + "y"},
		{"a long line behind others", "a\nb\n" + strings.Repeat("z", 1<<20) + "\n",
			fmt.Sprintf("a\nb\n... (%d bytes left out) ...\n", 1<<20+1-mostOfEnd) + strings.Repeat("z", mostOfEnd-1) + "\n"},
	} {
		for _, step := range []int{1000, 32 << 10, 1 << 30} {
			var e Ends
			for rest := c.text; rest != ""; {
				piece := rest[:min(step, len(rest))]
				rest = rest[len(piece):]
				if n, err := e.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Fatalf("%s: %d, %v", c.name, n, err)
				}
				if n := cap(e.first) + cap(e.last); n > 8*mostOfEnd {
					t.Fatalf("%s: takes %d bytes", c.name, n)
				}
			}
			got := string(e.Bytes())
			if c.name == "lines" {
				first, last, _ := strings.Cut(got, "... (")
				n, last, _ := strings.Cut(last, " bytes left out) ...\n")
				if !strings.HasPrefix(first, "begin\n"+line) || !strings.HasSuffix(first, "\n"+line) || !strings.HasPrefix(last, line) ||
					!strings.HasSuffix(last, line+"end\n") || len(first) < len(whole)-len(line) || len(last) < len(whole)-len(line) ||
					n != fmt.Sprint(len(c.text)-len(first)-len(last)) {
					t.Errorf("%s, %d bytes each: %d bytes, %s left out, %d bytes", c.name, step, len(first), n, len(last))
				}
				continue
			}
			if got != c.want {
				t.Errorf("%s, %d bytes each: got %d bytes, %.40q ... %.40q", c.name, step, len(got), got, got[max(0, len(got)-40):])
			}
		}
	}
}
