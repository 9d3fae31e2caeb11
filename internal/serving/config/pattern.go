package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"

	"perigee/internal/kit/lazyre"
	"perigee/internal/serving/benchlog"
)

// LogPattern extracts figures from logs, one record per match: the values of Names and, where the pattern has a group
// for it, the concurrency they belong to. Patterns are written for Python's re module with the flags MULTILINE and
// VERBOSE.
type LogPattern struct {
	Names []string
	text  string // a program takes much more memory, and a sweep makes thousands of cases
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
func compilePattern(source string, names []string) (*LogPattern, error) {
	if len(names) == 0 {
		return nil, errors.New("metric_names is empty")
	}
	re, err := compileRegexp(source)
	if err != nil {
		return nil, fmt.Errorf("the pattern is not a regular expression: %w", err)
	}
	p := &LogPattern{Names: names, text: source, concurrency: max(0, re.GroupNumberFromName("concurrency"))}
	groups, wanted := len(re.GetGroupNumbers())-1, len(names)
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

// pythonsEnd is Python's name for the end of a text, beside all other escapes.
var pythonsEnd = lazyre.New(`(?s)\\.`)

// compileRegexp reads a pattern of Python, whose groups it numbers as they stand.
func compileRegexp(source string) (*regexp2.Regexp, error) {
	source = pythonsEnd.Get().ReplaceAllStringFunc(source, func(escape string) string {
		if escape == `\Z` {
			return `\z`
		}
		return escape
	})
	const deepest = 1 << 25 // integers of a match's stack: a quarter of a GB
	re, err := regexp2.Compile(source, regexp2.Multiline|regexp2.IgnorePatternWhitespace|regexp2.RE2,
		regexp2.OptionMaintainCaptureOrder(), regexp2.OptionMaxBacktrackingStackSize(deepest))
	if err == nil {
		re.MatchTimeout = mostMatching
	}
	return re, err
}

// mostMatching is how long one match may take: some patterns try a number of ways that doubles with each character.
var mostMatching = time.Minute

// FindAll returns the records in each of several parts of a text, from one offset to another, in order; without parts,
// in all of it. A match whose values are no numbers is an error, and so are one that takes a part of a number and more
// than mostMatches matches in a part. A value may have separators of thousands.
func (p *LogPattern) FindAll(text []byte, parts ...[2]int64) ([][]Match, error) {
	const mostMatches = 1 << 16 // each belongs to a level, of which a log has 10,000 at most
	re, err := compileRegexp(p.text)
	if err != nil {
		return nil, err
	}
	if parts == nil {
		parts = [][2]int64{{0, int64(len(text))}}
	}
	list := make([][]Match, len(parts))
	for i, part := range parts {
		var wrong error
		count, here := 0, cursor{text: text, byte: int(part[0])}
		err := re.FindRunesMatches([]rune(string(text[part[0]:part[1]])), 0, func(v regexp2.MatchView) bool {
			if count++; count > mostMatches {
				wrong = fmt.Errorf("wanted at most %d matches of the pattern, got more; "+
					"write a pattern that finds only the lines with results", mostMatches)
				return false
			}
			m, err := p.record(text, here.offsets(v))
			if err != nil {
				wrong = fmt.Errorf("line %d: %w", 1+bytes.Count(text[:m.From], []byte("\n")), err)
			}
			list[i] = append(list[i], m)
			return err == nil
		})
		if wrong != nil {
			return nil, wrong
		}
		if err != nil {
			return nil, fmt.Errorf("the pattern takes more than %v or too much memory: write one in which no part that "+
				"repeats holds another: %w", mostMatching, err)
		}
	}
	return list, nil
}

// cursor is a character of a part of a text, by its number in the part and its offset in the text.
type cursor struct {
	text       []byte
	rune, byte int
}

// to goes to a character and returns its offset.
func (p *cursor) to(number int) int {
	for ; p.rune < number; p.rune++ {
		_, size := utf8.DecodeRune(p.text[p.byte:])
		p.byte += size
	}
	for ; p.rune > number; p.rune-- {
		_, size := utf8.DecodeLastRune(p.text[:p.byte])
		p.byte -= size
	}
	return p.byte
}

// offsets are where a match and its groups begin and end; -1 for a group that has found nothing.
func (p *cursor) offsets(v regexp2.MatchView) (at []int) {
	for group := range v.GroupCount() {
		if first, size, ok := v.GroupRange(group); ok {
			at = append(at, p.to(first), p.to(first+size))
		} else {
			at = append(at, -1, -1)
		}
	}
	return at
}

// record reads a match, of which at holds the offsets of all and of each group. With an error it begins at the group
// that it is about.
func (p *LogPattern) record(text []byte, at []int) (Match, error) {
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
