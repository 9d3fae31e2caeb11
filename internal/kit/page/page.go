// Package page makes perigee's HTML pages: one self-contained file each, which opens from a mail attachment and asks
// no network for anything. perigee report, compare, sweep, kvbench and disagg write their pages with it.
//
// A Page is a body made by its owner with html/template, the data of its charts, and its own styles and scripts. The
// package adds what all pages share: design tokens for light and dark, typography, tables, chips and tooltips
// (base.css, dark.css), and the script object perigee with its helpers (base.js, chart.js), whose comments are their
// manual:
//
//	perigee.data(id)   a promise of the embedded value
//	h, fmt, tip        elements, numbers and tooltips
//	tabs, choice       parts of a page to switch between
//	sortable           tables
//	color, series      colours of the theme; onTheme hears of a change
//	canvas, plot, axes, scale, ticks, logTicks, heat, mark   charts
//
// The charts are 300 lines instead of a library: a page must stay small enough to mail, and hold no code that would
// have to be kept up to date.
//
// The page's Content-Security-Policy allows exactly the styles and scripts that it was written with, known by their
// SHA-256, and nothing from outside. So a body cannot hold style attributes, event attributes or scripts; classes and
// addEventListener do the same. Text that comes from a result stays text: bodies are made by html/template, and
// scripts set textContent. Characters that act on what displays them are escaped in all of it, as on terminals.
//
// Write fails if a page is made wrongly, which tests of its owner should show: data that JSON cannot hold, a name that
// is no ID, a script that would end its element. Package pagetest opens pages in a browser.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strings"

	"github.com/klauspost/compress/gzip"

	"perigee/internal/kit/plaintext"
)

var (
	//go:embed base.css
	baseCSS string
	//go:embed dark.css
	darkCSS string
	//go:embed base.js
	baseJS string
	//go:embed chart.js
	chartJS string
	//go:embed shell.html
	shellHTML string
)

var shell = template.Must(template.New("shell").Parse(shellHTML))

// Section is a part of the page that the bar at the top links to.
type Section struct {
	ID    string // of an element in the body
	Title string
}

// Data is a value for the page's scripts.
type Data struct {
	ID    string // letters, digits and hyphens; for perigee.data(ID)
	Value any    // what encoding/json can encode; a json.RawMessage is taken as it is
}

// Page is one document.
type Page struct {
	Title     string
	Generator string // name and version of the program
	Sections  []Section
	Body      template.HTML // what stands in <main>
	Footer    template.HTML
	Data      []Data
	Styles    []string // CSS of this page, after the shared
	Scripts   []string // JavaScript of this page, after the shared
}

// MadeBy is the footer of a page of a program, whose name and version these are.
func MadeBy(generator string) template.HTML {
	return template.HTML("Made by " + template.HTMLEscapeString(generator) +
		". This page is complete in itself and asks the network for nothing.")
}

// WriteWith is Write with the body that a template makes of a value. Unless there is another footer it is that of
// MadeBy.
func (p Page) WriteWith(w io.Writer, body *template.Template, value any) error {
	var text strings.Builder // which is not copied where it becomes one text
	if err := body.Execute(&text, value); err != nil {
		return err
	}
	p.Body, p.Footer = template.HTML(text.String()), cmp.Or(p.Footer, MadeBy(p.Generator))
	return p.Write(w)
}

// embedded is a value as it stands in the document.
type embedded struct {
	ID   string
	Text template.HTML // base64 of gzip of JSON
}

var dataID = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// Write writes the document. It fails if the page is made wrongly: data that
// JSON cannot hold, a name that is no ID, a script that would end its element.
func (p Page) Write(w io.Writer) error {
	style := strings.ReplaceAll(baseCSS, "/*dark*/", darkCSS) + strings.Join(p.Styles, "\n")
	scripts := append([]string{baseJS, chartJS}, p.Scripts...)
	if err := check(style, scripts); err != nil {
		return err
	}
	data, err := embed(p.Data)
	if err != nil {
		return err
	}
	safe := make([]template.JS, len(scripts))
	for i, s := range scripts {
		safe[i] = template.JS(s)
	}
	plain := plaintext.Writer(w)
	err = shell.Execute(plain, struct {
		Page
		Policy  string
		Style   template.CSS
		Scripts []template.JS
		Data    []embedded
	}{p, policy(style, scripts), template.CSS(style), safe, data})
	return errors.Join(err, plain.Close())
}

// check refuses what would end the element it stands in.
func check(style string, scripts []string) error {
	if strings.Contains(strings.ToLower(style), "</style") {
		return errors.New("page: a style holds </style")
	}
	for _, s := range scripts {
		low := strings.ToLower(s)
		if strings.Contains(low, "</script") || strings.Contains(low, "<!--") {
			return errors.New("page: a script holds </script or <!--")
		}
	}
	return nil
}

// policy allows the given styles and scripts, pictures made by the page, and
// nothing else.
func policy(style string, scripts []string) string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	hashes := make([]string, len(scripts))
	for i, s := range scripts {
		hashes[i] = hash(s)
	}
	return "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src " + hash(style) +
		"; script-src " + strings.Join(hashes, " ")
}

// encode writes a value as JSON whose texts show what plaintext shows.
func encode(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(plaintext.InJSON(data))
	return err
}

// embed packs values. Level 9 pays: a page is read more often than written.
func embed(list []Data) ([]embedded, error) {
	out := make([]embedded, 0, len(list))
	for _, d := range list {
		if !dataID.MatchString(d.ID) {
			return nil, fmt.Errorf("page: %q is no name for data", d.ID)
		}
		var packed bytes.Buffer
		text := base64.NewEncoder(base64.StdEncoding, &packed)
		z, err := gzip.NewWriterLevel(text, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(encode(z, d.Value), z.Close(), text.Close()); err != nil {
			return nil, fmt.Errorf("page: data %s: %w", d.ID, err)
		}
		out = append(out, embedded{d.ID, template.HTML(packed.String())})
	}
	return out, nil
}
