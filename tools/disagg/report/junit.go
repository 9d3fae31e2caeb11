package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"perigee/internal/file"
)

// Test is one case in a JUnit report.
type Test struct {
	Name     string
	Category string
	Took     time.Duration
	Failure  string // empty: passed
	Output   string // what the reader of a failure needs
	Skipped  string // why it was not run
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Skipped *junitMessage `xml:"skipped,omitempty"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report of a run that began at some time.
func WriteJUnit(path string, began time.Time, cases []Test) error {
	s := junitSuite{Name: "perigee disagg", Tests: len(cases), Time: inSeconds(time.Since(began)),
		Stamp: began.Format(time.RFC3339)}
	for _, c := range cases {
		j := junitCase{Name: c.Name, Class: "disagg." + c.Category, Time: inSeconds(c.Took)}
		j.Output = printable(c.Output)
		if c.Failure != "" {
			s.Failures++
			j.Failure = &junitMessage{Message: printable(c.Failure), Text: printable(c.Failure)}
		}
		if c.Skipped != "" {
			s.Skipped++
			j.Skipped = &junitMessage{Message: printable(c.Skipped)}
		}
		s.Cases = append(s.Cases, j)
	}
	return file.Write(path, func(w io.Writer) error {
		if _, err := io.WriteString(w, xml.Header); err != nil {
			return err
		}
		e := xml.NewEncoder(w)
		e.Indent("", "  ")
		return e.Encode(s)
	})
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// printable replaces what XML cannot hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' {
			return '?'
		}
		return r
	}, s)
}
