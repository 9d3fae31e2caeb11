// Package junit writes test reports in the XML that CI servers read: testsuites, with a suite for each kind of tests.
package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"perigee/internal/kit/file"
)

// Suite is tests that began together.
type Suite struct {
	Name  string
	Began time.Time
	Cases []Case
}

// Case is one test.
type Case struct {
	Name    string
	Class   string // groups cases: disagg.perf
	Took    time.Duration
	Failure string // what is not as it should be; empty: passed
	Error   string // why the test itself could not be made
	Output  string // what the reader of a failure needs
	Skipped string // why it was not run
}

type suitesXML struct {
	XMLName  xml.Name   `xml:"testsuites"`
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Suites   []suiteXML `xml:"testsuite"`
}

type suiteXML struct {
	Name     string    `xml:"name,attr"`
	Tests    int       `xml:"tests,attr"`
	Failures int       `xml:"failures,attr"`
	Errors   int       `xml:"errors,attr"`
	Skipped  int       `xml:"skipped,attr"`
	Time     string    `xml:"time,attr"`
	Stamp    string    `xml:"timestamp,attr"`
	Cases    []caseXML `xml:"testcase"`
}

type caseXML struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	Time    string   `xml:"time,attr"`
	Skipped *message `xml:"skipped,omitempty"`
	Error   *message `xml:"error,omitempty"`
	Failure *message `xml:"failure,omitempty"`
	Output  string   `xml:"system-out,omitempty"`
}

type message struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// Write writes suites to a file, which it replaces.
func Write(path string, suites ...Suite) error {
	all := suitesXML{Name: "perigee"}
	for _, s := range suites {
		x := suiteXML{Name: printable(s.Name), Tests: len(s.Cases), Time: inSeconds(time.Since(s.Began)),
			Stamp: s.Began.UTC().Format("2006-01-02T15:04:05")} // some readers refuse a zone
		for _, c := range s.Cases {
			x.add(c)
		}
		all.Tests, all.Failures, all.Errors = all.Tests+x.Tests, all.Failures+x.Failures, all.Errors+x.Errors
		all.Suites = append(all.Suites, x)
	}
	return file.Write(path, func(w io.Writer) error {
		if _, err := io.WriteString(w, xml.Header); err != nil {
			return err
		}
		e := xml.NewEncoder(w)
		e.Indent("", "  ")
		return e.Encode(all)
	})
}

func (s *suiteXML) add(c Case) {
	x := caseXML{Name: printable(c.Name), Class: printable(c.Class), Time: inSeconds(c.Took),
		Output: printable(c.Output)}
	count := func(n *int, text string) *message {
		if text == "" {
			return nil
		}
		*n++
		return &message{printable(text), printable(text)}
	}
	x.Failure, x.Error = count(&s.Failures, c.Failure), count(&s.Errors, c.Error)
	x.Skipped = count(&s.Skipped, c.Skipped)
	s.Cases = append(s.Cases, x)
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// printable replaces what XML cannot hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
			return '?'
		}
		return r
	}, s)
}
