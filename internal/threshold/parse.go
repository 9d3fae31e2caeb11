package threshold

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"perigee/internal/conf"
	"perigee/internal/fault"
	"perigee/internal/metric"
	"perigee/internal/result"
	"perigee/internal/size"
)

// maxText bounds the length of a threshold.
const maxText = 4096

// Aggregates are the ways to make one number of samples; pNN stands for any
// percentile, such as p99.9.
var Aggregates = []string{"min", "max", "mean", "median", "pNN", "stddev", "count", "rate"}

// Parse reads a threshold. The error, of the kind Usage, says where it stopped and what it wanted there.
// Whether there is such a metric only package metric knows.
func Parse(text string) (t Threshold, err error) {
	if len(text) > maxText {
		return t, fault.New(fault.Usage, "threshold of %d bytes: wanted at most %d", len(text), maxText)
	}
	if !utf8.ValidString(text) {
		return t, fault.New(fault.Usage, "threshold %q is not text", text)
	}
	p := &parser{text: text}
	t.Metric = p.word("the name of a metric")
	_, known := metric.Find(t.Metric)
	t.Where = p.filter(known)
	p.want(".", "a dot and an aggregate, as in latency_ms.p99 < 40")
	p.aggregate(&t)
	t.Op = p.comparison()
	t.Limit = p.number()
	t.AbortAfter = p.abort()
	if p.err != nil {
		return Threshold{}, p.err
	}
	return t, nil
}

// Read reads a threshold for a scenario whose own metrics are given. The error, of the
// kind Usage, also reports a metric that does not exist.
func Read(text string, own []result.MetricDef) (Threshold, error) {
	t, err := Parse(text)
	if err != nil {
		return t, err
	}
	if err := metric.Check(t.Metric, own); err != nil {
		return Threshold{}, fault.New(fault.Usage, "threshold %q: %w", text, err)
	}
	return t, nil
}

// ParseCondition reads what follows the metric's name and dot, as in p99 < 40.
func ParseCondition(metricName, condition string) (Threshold, error) {
	return Parse(metricName + "." + condition)
}

// parser reads a text up to its first mistake. From then on it is at the end, and
// what it returns means nothing.
type parser struct {
	text string
	at   int
	err  error
}

func (p *parser) fail(at int, wanted, more string) {
	if p.err != nil {
		return
	}
	got := "the end"
	if rest := strings.TrimSpace(p.text[at:]); rest != "" {
		const most = 20
		if short := []rune(rest); len(short) > most {
			rest = string(short[:most]) + "..."
		}
		got = strconv.Quote(rest)
	}
	p.err = fault.New(fault.Usage, "threshold %q: wanted %s at character %d, got %s%s", p.text, wanted, at+1, got,
		more).
		WithHint("a threshold looks like latency_ms.p99 < 40; see docs/thresholds.md")
	p.at = len(p.text)
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.ContainsRune(" \t\r\n", rune(p.text[p.at])) {
		p.at++
	}
}

// accept takes a sign if it comes next.
func (p *parser) accept(sign string) bool {
	p.space()
	if !strings.HasPrefix(p.text[p.at:], sign) {
		return false
	}
	p.at += len(sign)
	return true
}

func (p *parser) want(sign, wanted string) {
	if !p.accept(sign) {
		p.fail(p.at, wanted, "")
	}
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// run takes the characters of a class.
func (p *parser) run(class func(c byte) bool) string {
	start := p.at
	for p.at < len(p.text) && class(p.text[p.at]) {
		p.at++
	}
	return p.text[start:p.at]
}

func (p *parser) word(wanted string) string {
	p.space()
	if p.at == len(p.text) || !isLetter(p.text[p.at]) {
		p.fail(p.at, wanted, "")
		return ""
	}
	return p.run(func(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' })
}

// wantedKeys names them in messages.
const wantedKeys = "phase, pattern, rank, peer, block or batch"

// filterKeys are the keys of a filter.
var filterKeys = []string{"phase", "pattern", "rank", "peer", "block", "batch"}

// filter reads what selects samples. Those of a metric of every run have no labels; others may have any.
func (p *parser) filter(known bool) (f Filter) {
	if !p.accept("{") || p.accept("}") {
		return f
	}
	seen := map[string]bool{}
	for p.err == nil {
		p.space()
		at := p.at
		key := p.word(wantedKeys)
		if seen[key] {
			p.fail(at, "each key once", "")
		}
		seen[key] = true
		switch key {
		case "phase":
			p.want("=", `= as in phase="workload"`)
			f.Phase = p.quoted()
		case "pattern":
			p.want("=", `= as in pattern="ring" or pattern=0`)
			if p.space(); p.at < len(p.text) && isDigit(p.text[p.at]) {
				f.Number = p.count()
			} else {
				f.Pattern = p.quoted()
			}
		case "block":
			p.want("=", "= and a number of bytes")
			bytes := p.whole(math.MaxInt64)
			f.Block = &bytes
		case "rank", "peer", "batch":
			p.want("=", "= and a number")
			*map[string]**int{"rank": &f.Rank, "peer": &f.Peer, "batch": &f.Batch}[key] = p.count()
		default:
			if known || key == "" {
				p.fail(at, wantedKeys, conf.Suggestion(key, filterKeys))
				break
			}
			p.want("=", "= and the value of the label")
			f.Labels = append(f.Labels, Label{key, p.label()})
		}
		if p.accept("}") {
			slices.SortFunc(f.Labels, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
			return f
		}
		p.want(",", "a comma or }")
	}
	return f
}

// label reads the value of a label: a text in quotes, a number, or a size such as 64K.
func (p *parser) label() string {
	if p.space(); p.at < len(p.text) && p.text[p.at] == '"' {
		return *p.quoted()
	}
	at := p.at
	text := p.run(func(c byte) bool { return isLetter(c) || isDigit(c) || c == '.' || c == '-' || c == '+' })
	if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) {
		return result.LabelNumber(v)
	}
	bytes, err := size.Parse(text)
	if err != nil {
		p.fail(at, `a text in double quotes, a number or a size such as 64K`, "")
	}
	return strconv.FormatInt(bytes, 10)
}

func (p *parser) quoted() *string {
	p.want(`"`, "a text in double quotes")
	text := p.run(func(c byte) bool { return c != '"' && c >= ' ' && c != 0x7f })
	if p.at == len(p.text) || p.text[p.at] != '"' {
		p.fail(p.at, `the closing "`, "")
		return &text
	}
	p.at++
	return &text
}

// mostCount bounds numbers of something.
const mostCount = math.MaxInt32

func (p *parser) count() *int {
	n := int(p.whole(mostCount))
	return &n
}

func (p *parser) whole(most int64) int64 {
	p.space()
	at := p.at
	n, err := strconv.ParseInt(p.run(isDigit), 10, 64)
	if err != nil || n > most {
		p.fail(at, fmt.Sprintf("a whole number up to %d", most), "")
	}
	return n
}

// decimal takes digits with at most one dot among them.
func (p *parser) decimal() string {
	start := p.at
	if p.run(isDigit) == "" {
		return ""
	}
	if rest := p.text[p.at:]; len(rest) > 1 && rest[0] == '.' && isDigit(rest[1]) {
		p.at++
		p.run(isDigit)
	}
	return p.text[start:p.at]
}

func (p *parser) aggregate(t *Threshold) {
	p.space()
	at := p.at
	name := p.word("an aggregate: " + strings.Join(Aggregates, ", "))
	switch name {
	case "min":
		t.quantile = 0
	case "max":
		t.quantile = 1
	case "median":
		t.quantile = 0.5
	case "mean", "stddev", "count", "rate":
	default:
		percent := -1.0
		if strings.HasPrefix(name, "p") {
			p.at = at + 1
			if v, err := strconv.ParseFloat(p.decimal(), 64); err == nil && at+len(name) <= p.at {
				percent = v
			}
		}
		if percent < 0 || percent > 100 {
			p.fail(at, "an aggregate ("+strings.Join(Aggregates, ", ")+", with NN from 0 to 100)",
				conf.Suggestion(name, Aggregates))
		}
		t.quantile = percent / 100
		t.Aggregate = p.text[at:p.at]
		return
	}
	t.Aggregate = name
}

func (p *parser) comparison() string {
	for _, op := range []string{"<=", ">=", "==", "!=", "<", ">"} { // the longer first
		if p.accept(op) {
			return op
		}
	}
	p.fail(p.at, "<, <=, >, >=, == or !=", "")
	return ""
}

func (p *parser) number() float64 {
	p.space()
	at := p.at
	if p.at < len(p.text) && (p.text[p.at] == '-' || p.text[p.at] == '+') {
		p.at++
	}
	if p.decimal() == "" {
		p.fail(at, "a number", "")
	}
	p.exponent()
	v, err := strconv.ParseFloat(p.text[at:p.at], 64)
	if err != nil {
		p.fail(at, "a number that is not too large", "")
	}
	return v
}

// exponent takes e and digits, if both are there.
func (p *parser) exponent() {
	start := p.at
	if p.at == len(p.text) || p.text[p.at]|0x20 != 'e' {
		return
	}
	p.at++
	if p.at < len(p.text) && (p.text[p.at] == '-' || p.text[p.at] == '+') {
		p.at++
	}
	if p.run(isDigit) == "" {
		p.at = start
	}
}

func (p *parser) abort() int {
	p.space()
	if p.at == len(p.text) {
		return 0
	}
	at := p.at
	if p.word("the end, or abort") != "abort" {
		p.fail(at, "the end, or abort", "")
	}
	p.space()
	if p.at == len(p.text) {
		return 1
	}
	at = p.at
	if p.word("the end, or after and a number of samples") != "after" {
		p.fail(at, "the end, or after and a number of samples", "")
	}
	p.space()
	at = p.at
	n := *p.count()
	if n < 1 {
		p.fail(at, "at least 1 sample", "")
	}
	p.space()
	if p.at != len(p.text) {
		p.fail(p.at, "the end", "")
	}
	return n
}
