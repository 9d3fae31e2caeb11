package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
)

// ByName is the value of a flag --format that leaves the choice to the name of the output.
const ByName = "auto"

// pages are the other endings of what browsers take for a page, or for something else that holds scripts.
var pages = []string{"htm", "shtml", "shtm", "ehtml", "xhtml", "xht", "xhtm", "xml", "xsl", "svg", "mht", "mhtml"}

// FormatFor returns the format of an output under a name: the one that was asked for, or, with [ByName], the one that
// the ending of the name says, or else the first of formats.
//
// A page may be called html, too. Its name is refused for every other format: a browser would read names and texts out
// of a stranger's result as parts of a page, and run the scripts in them.
func FormatFor(asked, name string, formats ...string) (string, error) {
	ending := strings.TrimPrefix(strings.ToLower(filepath.Ext(strings.TrimRight(name, "."))), ".")
	if slices.Contains(pages, ending) {
		ending = "html"
	}
	if asked == "page" {
		asked = "html"
	}
	if asked == ByName {
		asked = formats[0]
		if slices.Contains(formats, ending) {
			asked = ending
		}
	}
	if ending == "html" && asked != "html" {
		return "", fault.New(fault.Usage, "-o %s has the name of a page, and --format %s writes none", name, asked).
			WithHint("a browser would take what stands in it for parts of a page: name another file, or leave --format out")
	}
	return asked, nil
}

// WriteJSON writes a value as JSON that people can read, too: indented, and with nothing that acts on a terminal.
func WriteJSON(w io.Writer, v any) error { return encode(w, "", v) }

// encode writes a value with an indent before all lines but the first.
func encode(w io.Writer, indent string, v any) error {
	e := json.NewEncoder(plaintext.JSONWriter(w))
	e.SetIndent(indent, "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// WriteList writes a list of n elements as [WriteJSON] does, with an indent before all lines but the first. Only one
// element is in memory at a time. An error of w is that of [LostOutput].
func WriteList(w io.Writer, indent string, n int, element func(i int) any) error {
	text := bytes.NewBufferString("[")
	for i := range n {
		text.WriteString("\n  " + indent)
		if err := encode(text, indent+"  ", element(i)); err != nil {
			return err
		}
		text.Truncate(text.Len() - len("\n"))
		if i < n-1 {
			text.WriteString(",")
			if _, err := text.WriteTo(w); err != nil {
				return LostOutput(err)
			}
		}
	}
	if n > 0 {
		text.WriteString("\n" + indent)
	}
	text.WriteString("]\n")
	if _, err := text.WriteTo(w); err != nil {
		return LostOutput(err)
	}
	return nil
}
