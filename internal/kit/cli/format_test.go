package cli

import (
	"testing"

	"perigee/internal/kit/fault"
)

func TestFormatFor(t *testing.T) {
	for _, c := range []struct{ asked, name, want string }{
		{ByName, "", "text"}, {ByName, "-", "text"}, {ByName, "a", "text"}, {ByName, "a.html.txt", "text"},
		{ByName, "a.json", "json"}, {ByName, "a.CSV", "csv"}, {ByName, "a.html", "html"}, {ByName, "a.HTM", "html"},
		{ByName, "a.xhtml", "html"}, {ByName, "a.md", "text"}, {"html", "a.txt", "html"}, {"json", "a.csv", "json"},
		{"html", "a.html", "html"},
	} {
		if got, err := FormatFor(c.asked, c.name, "text", "json", "csv", "html"); got != c.want || err != nil {
			t.Errorf("%s, %q: %q, %v, want %q", c.asked, c.name, got, err, c.want)
		}
	}
	for _, asked := range []string{"text", "json", "csv"} {
		for _, name := range []string{"a.html", "A.HTM", "./x/.html", "a.xht", "a.svg", "a.shtml", "a.html."} {
			if got, err := FormatFor(asked, name, "text", "json", "csv", "html"); fault.KindOf(err) != fault.Usage {
				t.Errorf("%s, %q: %q, %v, want a refusal", asked, name, got, err)
			}
		}
	}
	if got, err := FormatFor(ByName, "a.html", "text", "json"); err == nil {
		t.Errorf("a page of a command that makes none: %q", got)
	}
}
