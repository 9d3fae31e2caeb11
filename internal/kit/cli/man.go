package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// ManPage holds the texts of a manual page beside those of its command. Write prints the page in roff's man macros: the
// command's arguments and options, then all commands below it, each with its own.
type ManPage struct {
	Name    string // as typed, with blanks: "perigee matgen"
	Version string // stands in the footer
	Date    string // stands in the footer: 2026-11-22
	SeeAlso []string
	Exits   []ExitCode // the table of exit codes, if the page has one
}

// ExitCode is a row of the table of exit codes in a manual page.
type ExitCode struct {
	Code    int
	Meaning string
}

// Write prints the page of a command and everything below it. It returns the
// writer's error.
func (p ManPage) Write(w io.Writer, n *kong.Node) error {
	r := &roff{w: w}
	dashed := strings.ReplaceAll(p.Name, " ", "-")
	r.line(`.TH %s 1 %s %s "User Commands"`, quote(strings.ToUpper(dashed)), quote(p.Date), quote(p.Version))
	r.section("NAME")
	r.line(`%s \- %s`, escape(dashed), escape(strings.TrimSuffix(summary(n.Help), ".")))
	r.section("SYNOPSIS")
	r.line(`.B %s`, escape(p.Name))
	r.text(usage(n))
	if n.Help != "" || n.Detail != "" {
		r.section("DESCRIPTION")
		r.text(n.Help)
		r.paragraphs(n.Detail)
	}
	r.command(n, "OPTIONS")
	r.subcommands(n, p.Name)
	if len(p.Exits) > 0 {
		r.section("EXIT STATUS")
		for _, e := range p.Exits {
			r.item(fmt.Sprint(e.Code), e.Meaning)
		}
	}
	if len(p.SeeAlso) > 0 {
		r.section("SEE ALSO")
		r.text(strings.Join(p.SeeAlso, ", "))
	}
	return r.err
}

// summary is the first sentence's line of a help text.
func summary(help string) string {
	first, _, _ := strings.Cut(help, "\n")
	return first
}

// usage lists what follows a command's name.
func usage(n *kong.Node) string {
	words := []string{"[options]"}
	if visible(n.Children) {
		words = append(words, "command")
	}
	for _, a := range n.Positional {
		words = append(words, a.Summary())
	}
	return strings.Join(words, " ")
}

func visible(children []*kong.Node) bool {
	return slices.ContainsFunc(children, func(c *kong.Node) bool { return !c.Hidden })
}

// roff writes lines and keeps the first error.
type roff struct {
	w   io.Writer
	err error
}

func (r *roff) line(format string, args ...any) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.w, format+"\n", args...)
	}
}

func (r *roff) section(name string) { r.line(".SH %s", quote(name)) }

func (r *roff) text(s string) {
	if s != "" {
		r.line("%s", escape(s))
	}
}

func (r *roff) paragraphs(s string) {
	for p := range strings.SplitSeq(s, "\n\n") {
		if p != "" {
			r.line(".PP")
			r.text(p)
		}
	}
}

func (r *roff) item(term, text string) {
	r.line(".TP")
	r.line(`.B %s`, escape(term))
	r.text(cmp.Or(text, "\u00a0"))
}

// command prints the arguments and the options of one command.
func (r *roff) command(n *kong.Node, heading string) {
	for i, a := range n.Positional {
		if i == 0 {
			r.section("ARGUMENTS")
		}
		r.item(a.Summary(), a.Help)
	}
	first := true
	for _, f := range n.Flags {
		if f.Hidden {
			continue
		}
		if first {
			r.section(heading)
			first = false
		}
		r.item(flagTerm(f), flagHelp(f))
	}
}

// subcommands prints the commands below one, all levels.
func (r *roff) subcommands(n *kong.Node, name string) {
	if !visible(n.Children) {
		return
	}
	r.section("COMMANDS")
	r.below(n, name)
}

// below prints the commands below one as subsections, with their full names, as a reader searches a page for the words
// that he types.
func (r *roff) below(n *kong.Node, name string) {
	for _, c := range n.Children {
		if c.Hidden {
			continue
		}
		r.line(".SS %s", quote(name+" "+c.Name+" "+usage(c)))
		r.text(c.Help)
		r.paragraphs(c.Detail)
		for _, a := range c.Positional {
			r.item(a.Summary(), a.Help)
		}
		for _, f := range c.Flags {
			if !f.Hidden && f.Name != "help" {
				r.item(flagTerm(f), flagHelp(f))
			}
		}
		r.below(c, name+" "+c.Name)
	}
}

func flagTerm(f *kong.Flag) string {
	if f.Short != 0 {
		return fmt.Sprintf("-%c, %s", f.Short, f.Summary())
	}
	return f.Summary()
}

// flagHelp is the help text with the values it may take.
func flagHelp(f *kong.Flag) string {
	if f.Enum == "" || strings.Contains(f.Help, f.Enum) {
		return f.Help
	}
	return fmt.Sprintf("%s One of: %s.", f.Help, strings.Join(f.EnumSlice(), ", "))
}

var escaper = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ")

// escape keeps roff from reading a text as markup. A period or an apostrophe
// at the beginning of a line would be a request.
func escape(s string) string {
	s = escaper.Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// quote makes one argument of a request.
func quote(s string) string { return `"` + strings.ReplaceAll(escape(s), `"`, `\(dq`) + `"` }
