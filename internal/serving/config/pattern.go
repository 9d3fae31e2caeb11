package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"perigee/internal/kit/lazyre"
	"perigee/internal/serving/benchlog"
)

// Pattern extracts figures from logs, one record per match: the values of Names and, where the pattern has a group for
// it, the concurrency they belong to. Patterns are written for Python's re module with the flags MULTILINE and VERBOSE;
// Go's regexp (RE2) has neither verbose syntax nor look-around nor back references.
type Pattern struct {
	Names []string
	text  string // for RE2: a program takes much more memory, and a sweep makes thousands of cases
	// concurrency is the group that holds it; 0: the log says it elsewhere.
	concurrency int
}

// Match is one record.
type Match struct {
	From, To    int // where its figures stand in the text
	Concurrency int // 0: the pattern does not say
	Values      map[string]float64
}

// compilePattern reads a pattern. It has a group for each name and may have one more:
// the group called concurrency or, without such a name, the last.
func compilePattern(source string, names []string) (*Pattern, error) {
	if len(names) == 0 {
		return nil, errors.New("metric_names is empty")
	}
	text, err := translate(source)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("the pattern is not a regular expression of RE2: %w", err)
	}
	p := &Pattern{Names: names, text: text, concurrency: max(0, re.SubexpIndex("concurrency"))}
	groups, wanted := re.NumSubexp(), len(names)
	if p.concurrency == 0 && groups == len(names)+1 {
		p.concurrency = groups
	}
	if p.concurrency > 0 {
		wanted++
	}
	if groups != wanted {
		return nil, fmt.Errorf("the pattern has %d groups for the %d names in metric_names; wanted a group for each name, "+
			"and at most one more for the concurrency", groups, len(names))
	}
	return p, nil
}

// FindAll returns the records in each of several parts of a text, from one offset to another, in order; without parts,
// in all of it. A match whose values are no numbers is an error, and so are one that takes a part of a number and more
// than mostMatches matches in a part. A value may have separators of thousands.
func (p *Pattern) FindAll(text []byte, parts ...[2]int64) ([][]Match, error) {
	const mostMatches = 1 << 16 // each belongs to a level, of which a log has 10,000 at most
	re := regexp.MustCompile(p.text)
	if parts == nil {
		parts = [][2]int64{{0, int64(len(text))}}
	}
	list := make([][]Match, len(parts))
	for i, part := range parts {
		found := re.FindAllSubmatchIndex(text[part[0]:part[1]], mostMatches+1)
		if len(found) > mostMatches {
			return nil, fmt.Errorf("wanted at most %d matches of the pattern, got more; "+
				"write a pattern that finds only the lines with results", mostMatches)
		}
		for _, at := range found {
			for j := range at {
				if at[j] >= 0 {
					at[j] += int(part[0])
				}
			}
			m, err := p.record(text, at)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(text[:m.From], []byte("\n")), err)
			}
			list[i] = append(list[i], m)
		}
	}
	return list, nil
}

// record reads a match, of which at holds the offsets of all and of each group. With an error it begins at the group
// that it is about.
func (p *Pattern) record(text []byte, at []int) (Match, error) {
	m := Match{From: at[1], To: at[0], Values: map[string]float64{}}
	name := 0
	for group := 1; group < len(at)/2; group++ {
		from, to := at[2*group], at[2*group+1]
		bad := Match{From: max(from, at[0])}
		got, what := "", "the concurrency"
		if from >= 0 {
			got = string(text[from:to])
		}
		if group != p.concurrency {
			what = p.Names[name]
		}
		if whole := around(text, at, group); whole != got {
			return bad, fmt.Errorf("the pattern takes %q out of the number %q for %s; wanted all of it: write "+
				"([0-9.,]+) for its group", got, whole, what)
		}
		if group == p.concurrency {
			n, err := strconv.Atoi(got)
			if err != nil || n < 1 {
				return bad, fmt.Errorf("the concurrency %q that the pattern found is not a positive integer", got)
			}
			m.Concurrency = n
			continue
		}
		value, ok := benchlog.Separated(got)
		if !ok {
			return bad, fmt.Errorf("the value %q that the pattern found for %s is no number of at most %g", got, what,
				benchlog.MostFigure)
		}
		m.From, m.To = min(m.From, from), max(m.To, to)
		m.Values[what] = value
		name++
	}
	return m, nil
}

// Numbers with separators of thousands: what follows the first digits, what stands before the last, and what these may
// look like. A comma between other digits separates columns.
var (
	thousandsBehind = lazyre.New(`^((?:,[0-9]{3})+(?:\.[0-9]+)?)(?:[^0-9.,]|$)`)
	thousandsBefore = lazyre.New(`(?:^|[^0-9.,])([0-9]{1,3}(?:,[0-9]{3})*,)$`)
	firstThousands  = lazyre.New(`^[0-9]{1,3}(?:,[0-9]{3})*$`)
	lastThousands   = lazyre.New(`^[0-9]{3}(?:[^0-9]|$)`)
)

// around returns the number in a text that a group of a match is a part of, and what the group has found where that is
// all of it. Where another group begins or ends beside it, a point or a comma separates the two.
func around(text []byte, at []int, group int) string {
	from, to := at[2*group], at[2*group+1]
	if from < 0 || from == to {
		return ""
	}
	begin, end := from, to
	if isDigit(text, from) {
		for isDigit(text, begin-1) || isDigit(text, begin-2) && text[begin-1] == '.' && !edge(at, begin-1, 1) {
			begin--
		}
		const most = 40
		if lead := thousandsBefore.FindSubmatch(text[max(0, begin-most):begin]); lead != nil && begin == at[0] &&
			lastThousands.Get().Match(text[begin:]) {
			begin -= len(lead[1])
		}
	}
	if isDigit(text, to-1) {
		for isDigit(text, end) || isDigit(text, end+1) && text[end] == '.' && !edge(at, end+1, 0) {
			end++
		}
		if rest := thousandsBehind.FindSubmatch(text[end:]); rest != nil && !edge(at, end+1, 0) &&
			firstThousands.Get().Match(text[begin:end]) {
			end += len(rest[1])
		}
	}
	return string(text[begin:end])
}

// edge reports whether a group begins (0) or ends (1) at an offset.
func edge(at []int, offset, side int) bool {
	for i := 2 + side; i < len(at); i += 2 {
		if at[i] == offset {
			return true
		}
	}
	return false
}

// isDigit reports whether a text has a digit at an offset.
func isDigit(text []byte, at int) bool {
	return at >= 0 && at < len(text) && text[at] >= '0' && text[at] <= '9'
}

// unsupported are constructs of Python that RE2 lacks.
var unsupported = []struct{ text, name string }{
	{"(?=", "look-ahead"}, {"(?!", "negative look-ahead"}, {"(?<=", "look-behind"}, {"(?<!", "negative look-behind"},
	{"(?P=", "a back reference"}, {"(?(", "a condition"}, {"(?>", "an atomic group"},
}

// translate returns the RE2 form of a Python pattern with MULTILINE and VERBOSE:
// white space and comments outside of classes are dropped unless escaped. The
// error names a construct that RE2 cannot express.
func translate(source string) (string, error) {
	var b strings.Builder
	b.WriteString("(?m)")
	class := false // inside [...]
	for i := 0; i < len(source); i++ {
		c := source[i]
		switch {
		case c == '\\':
			if i+1 == len(source) {
				return "", errors.New("the pattern ends with a backslash")
			}
			i++
			if err := escaped(&b, source[i], class); err != nil {
				return "", err
			}
		case class:
			b.WriteByte(c)
			class = c != ']'
		case c == '[':
			class = true
			b.WriteByte(c)
			i = classStart(&b, source, i)
		case strings.IndexByte(" \t\n\r\f\v", c) >= 0:
		case c == '#':
			end := strings.IndexByte(source[i:], '\n')
			if end < 0 {
				return b.String(), nil
			}
			i += end
		case c == '(':
			skip, err := group(source[i:])
			if err != nil {
				return "", err
			}
			if skip == 0 {
				b.WriteByte(c)
			} else {
				i += skip - 1
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// escaped writes a backslash and the character after it.
func escaped(b *strings.Builder, c byte, class bool) error {
	switch {
	case c >= '1' && c <= '9' && !class:
		return fmt.Errorf("the pattern uses the back reference \\%c, which RE2 lacks", c)
	case c == 'Z':
		b.WriteString(`\z`)
	case c == ' ' || c == '#' || c == '\n' || c == '"' || c == '\'' || c >= 0x80 || strings.IndexByte("%&,:;<=>@_`~!/-", c) >= 0 && !class:
		if c == '-' {
			b.WriteString(`\-`)
			return nil
		}
		b.WriteByte(c) // RE2 takes no backslash before some of these
	default:
		b.WriteByte('\\')
		b.WriteByte(c)
	}
	return nil
}

// classStart writes what at the start of a class does not end it: ^ and ].
func classStart(b *strings.Builder, source string, i int) int {
	if i+1 < len(source) && source[i+1] == '^' {
		b.WriteByte('^')
		i++
	}
	if i+1 < len(source) && source[i+1] == ']' {
		b.WriteString(`\]`)
		i++
	}
	return i
}

// group returns how many characters of an opening parenthesis to skip: those of
// a comment or of global flags.
func group(rest string) (int, error) {
	for _, u := range unsupported {
		if strings.HasPrefix(rest, u.text) {
			return 0, fmt.Errorf("the pattern uses %s (%s), which RE2 lacks", u.name, u.text)
		}
	}
	if strings.HasPrefix(rest, "(?#") {
		end := strings.IndexByte(rest, ')')
		if end < 0 {
			return 0, errors.New("a comment (?# in the pattern has no end")
		}
		return end + 1, nil
	}
	for _, flags := range []string{"(?x)", "(?m)", "(?mx)", "(?xm)"} {
		if strings.HasPrefix(rest, flags) {
			return len(flags), nil
		}
	}
	return 0, nil
}
