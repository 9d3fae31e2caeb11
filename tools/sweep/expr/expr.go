// Package expr is the small language of --where: expressions over the columns
// of a run that are true or false, such as
//
//	TP >= 4 && Is_PD
//	Model =~ "70B" && (Mean_TTFT_ms < 200 || Concurrency == 1)
//	Output_Token_Throughput / Num_GPUs > 100
//
// The operators, those that bind weakest first:
//
//	||                       either
//	&&                       both
//	!                        not
//	== != < <= > >=          numbers and text; == and != also true and false
//	=~ !~                    text on the left, a quoted regular expression (RE2) on the right
//	+ -                      numbers
//	* /                      numbers
//	-                        a number with the other sign
//
// Operands are column names (case does not matter), numbers, text in single or
// double quotes, true, false, null and parentheses. Types are checked before
// anything is evaluated.
//
// An empty cell is neither equal nor unequal to anything, neither smaller nor
// larger: every comparison with it is false, except that X == null is true for it
// and X != null false. A column of true and false counts as false where it is
// empty, and arithmetic with an empty cell, or a division by 0, gives an empty
// value. Where the engines of a run differ (TP is 4 and 8), a comparison is true
// if it is true of all their values; arithmetic with them gives an empty value.
// Text is compared letter by letter.
package expr

import (
	"math"
	"regexp"
	"strings"

	"perigee/internal/fault"
	"perigee/tools/sweep/runs"
)

// Expr is a condition on runs.
type Expr struct {
	source string
	test   func(*runs.Run) bool
}

// String returns the text that the condition was parsed from.
func (e *Expr) String() string { return e.source }

// Match reports whether the condition is true of a run.
func (e *Expr) Match(r *runs.Run) bool { return e.test(r) }

// Parse reads a condition. Its errors are of the kind Usage and show where the
// mistake is.
func Parse(source string) (*Expr, error) {
	tokens, mistake := lex(source)
	if mistake != nil {
		return nil, mistake.WithHint("%s", hint(mistake))
	}
	p := &parser{source: source, tokens: tokens}
	n := p.or()
	if p.err == nil && p.peek().kind != end {
		p.fail(p.peek().at, "wanted an operator such as && or <, got %s", p.peek())
	}
	test := p.truth(n)
	if p.err != nil {
		return nil, p.err.WithHint("%s", hint(p.err))
	}
	return &Expr{source, test}, nil
}

func hint(err *fault.Error) string {
	if h := fault.HintOf(err); h != "" {
		return h
	}
	return `for example: TP >= 4 && Is_PD; perigee sweep columns lists the columns`
}

// node is a part of an expression: what it is of, and its value for a run.
type node struct {
	kind  runs.Kind
	null  bool // the word null
	at    int
	of    func(*runs.Run) runs.Cell
	quote *string // the text, if it is one between quotes
}

type parser struct {
	source string
	tokens []token
	next   int
	depth  int
	err    *fault.Error
}

func (p *parser) peek() token { return p.tokens[p.next] }

func (p *parser) fail(at int, format string, args ...any) {
	if p.err == nil {
		p.err = wrong(p.source, at, format, args...)
	}
	p.next = len(p.tokens) - 1 // nothing more is read
}

// accept takes the next token if it is one of some operators.
func (p *parser) accept(operators ...string) (token, bool) {
	t := p.peek()
	if t.kind == operator {
		for _, op := range operators {
			if t.text == op {
				p.next++
				return t, true
			}
		}
	}
	return t, false
}

func (p *parser) or() node {
	left := p.and()
	for {
		if _, ok := p.accept("||"); !ok {
			return left
		}
		a, b := p.truth(left), p.truth(p.and())
		left = truthNode(left.at, func(r *runs.Run) bool { return a(r) || b(r) })
	}
}

func (p *parser) and() node {
	left := p.not()
	for {
		if _, ok := p.accept("&&"); !ok {
			return left
		}
		a, b := p.truth(left), p.truth(p.not())
		left = truthNode(left.at, func(r *runs.Run) bool { return a(r) && b(r) })
	}
}

func (p *parser) not() node {
	t, ok := p.accept("!")
	if !ok {
		return p.comparison()
	}
	if !p.enter(t.at) {
		return node{}
	}
	defer p.leave()
	inner := p.truth(p.not())
	return truthNode(t.at, func(r *runs.Run) bool { return !inner(r) })
}

// enter bounds how deep expressions are nested.
func (p *parser) enter(at int) bool {
	const most = 200
	if p.depth++; p.depth > most {
		p.fail(at, "wanted at most %d parentheses and signs inside each other", most)
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

func (p *parser) comparison() node {
	left := p.sum()
	t, ok := p.accept("==", "!=", "<=", ">=", "<", ">", "=~", "!~")
	if !ok {
		return left
	}
	right := p.sum()
	if p.err != nil {
		return node{}
	}
	if next := p.peek(); next.kind == operator && strings.ContainsAny(next.text, "=<>~") {
		p.fail(next.at, "a comparison cannot be compared again; use && between two of them")
	}
	var test func(*runs.Run) bool
	switch {
	case t.text == "=~" || t.text == "!~":
		test = p.matching(t, left, right)
	case left.null || right.null:
		test = p.nullness(t, left, right)
	default:
		test = p.comparing(t, left, right)
	}
	return truthNode(left.at, test)
}

// matching compares text with a regular expression.
func (p *parser) matching(t token, left, right node) func(*runs.Run) bool {
	if left.kind != runs.Text || left.null {
		p.fail(t.at, "left of %s wanted text, got %s", t.text, left.describe())
		return nil
	}
	if right.quote == nil {
		p.fail(t.at, "right of %s wanted a regular expression in quotes", t.text)
		return nil
	}
	re, err := regexp.Compile(*right.quote)
	if err != nil {
		p.fail(right.at, "%v", err)
		return nil
	}
	return func(r *runs.Run) bool {
		c := left.of(r)
		return !c.Empty && re.MatchString(c.Text) == (t.text == "=~")
	}
}

// nullness asks whether a cell is empty.
func (p *parser) nullness(t token, left, right node) func(*runs.Run) bool {
	if t.text != "==" && t.text != "!=" {
		p.fail(t.at, "null can only be compared with == and !=")
		return nil
	}
	asked := left
	if left.null {
		asked = right
	}
	if asked.null {
		p.fail(t.at, "null is compared with null")
		return nil
	}
	return func(r *runs.Run) bool { return asked.of(r).Empty == (t.text == "==") }
}

func (p *parser) comparing(t token, left, right node) func(*runs.Run) bool {
	if left.kind != right.kind {
		p.fail(t.at, "%s compares %s with %s", t.text, left.describe(), right.describe())
		return nil
	}
	holds := holding(t.text)
	if left.kind == runs.Bool {
		if t.text != "==" && t.text != "!=" {
			p.fail(t.at, "true and false can only be compared with == and !=")
			return nil
		}
	}
	return func(r *runs.Run) bool {
		a, b := left.of(r), right.of(r)
		if a.Empty || b.Empty {
			return false
		}
		switch left.kind {
		case runs.Text:
			return holds(strings.Compare(a.Text, b.Text))
		case runs.Bool:
			return (a.Bool == b.Bool) == (t.text == "==")
		}
		return all(a.Nums, b.Nums, holds)
	}
}

// holding returns what an operator says of the outcome of a comparison.
func holding(op string) func(order int) bool {
	switch op {
	case "==":
		return func(o int) bool { return o == 0 }
	case "!=":
		return func(o int) bool { return o != 0 }
	case "<":
		return func(o int) bool { return o < 0 }
	case "<=":
		return func(o int) bool { return o <= 0 }
	case ">":
		return func(o int) bool { return o > 0 }
	}
	return func(o int) bool { return o >= 0 }
}

// all reports whether a comparison is true of every pair of numbers.
func all(a, b []float64, holds func(order int) bool) bool {
	for _, x := range a {
		for _, y := range b {
			order := 0
			if x < y {
				order = -1
			} else if x > y {
				order = 1
			}
			if !holds(order) {
				return false
			}
		}
	}
	return true
}

func (p *parser) sum() node     { return p.arithmetic(p.product, "+", "-") }
func (p *parser) product() node { return p.arithmetic(p.signed, "*", "/") }

func (p *parser) arithmetic(operand func() node, operators ...string) node {
	left := operand()
	for {
		t, ok := p.accept(operators...)
		if !ok {
			return left
		}
		a, b := p.numeric(t, left), p.numeric(t, operand())
		left = node{kind: runs.Number, at: left.at, of: func(r *runs.Run) runs.Cell {
			return finite(calculate(t.text, a(r), b(r)))
		}}
	}
}

// finite is a cell with x, empty if x is not finite.
func finite(x float64) runs.Cell {
	if math.IsInf(x, 0) {
		x = math.NaN()
	}
	return runs.Num(x)
}

func calculate(op string, a, b float64) float64 {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	}
	return a / b
}

func (p *parser) signed() node {
	t, ok := p.accept("-")
	if !ok {
		return p.operand()
	}
	if !p.enter(t.at) {
		return node{}
	}
	defer p.leave()
	x := p.numeric(t, p.signed())
	return node{kind: runs.Number, at: t.at, of: func(r *runs.Run) runs.Cell { return runs.Num(-x(r)) }}
}

func (p *parser) operand() node {
	t := p.peek()
	if _, ok := p.accept("("); ok {
		return p.parenthesis(t)
	}
	if t.kind == end || t.kind == operator {
		p.fail(t.at, "wanted a column, a number or text, got %s", t)
		return node{}
	}
	p.next++
	switch t.kind {
	case number:
		return constant(t.at, runs.Num(t.num))
	case quoted:
		n := constant(t.at, runs.Cell{Kind: runs.Text, Text: t.text})
		n.quote = &t.text
		return n
	}
	return p.word(t)
}

func (p *parser) parenthesis(open token) node {
	if !p.enter(open.at) {
		return node{}
	}
	defer p.leave()
	inner := p.or()
	if _, ok := p.accept(")"); !ok {
		p.fail(p.peek().at, "wanted a closing parenthesis, got %s", p.peek())
	}
	return inner
}

func (p *parser) word(t token) node {
	switch strings.ToLower(t.text) {
	case "true", "false":
		return constant(t.at, runs.Truth(strings.EqualFold(t.text, "true")))
	case "null":
		return node{null: true, at: t.at, of: func(*runs.Run) runs.Cell { return runs.Cell{Empty: true} }}
	}
	c, err := runs.Find(t.text)
	if err != nil {
		p.fail(t.at, "%w", err)
		return node{}
	}
	return node{kind: c.Kind, at: t.at, of: c.Of}
}

func constant(at int, c runs.Cell) node {
	return node{kind: c.Kind, at: at, of: func(*runs.Run) runs.Cell { return c }}
}

func truthNode(at int, test func(*runs.Run) bool) node {
	return node{kind: runs.Bool, at: at, of: func(r *runs.Run) runs.Cell { return runs.Truth(test(r)) }}
}

func (n node) describe() string {
	if n.null {
		return "null"
	}
	return n.kind.String()
}

// truth demands a part that is true or false.
func (p *parser) truth(n node) func(*runs.Run) bool {
	if p.err == nil && (n.kind != runs.Bool || n.null) {
		p.fail(n.at, "wanted something that is true or false, such as TP >= 4, got %s", n.describe())
	}
	return func(r *runs.Run) bool {
		c := n.of(r)
		return !c.Empty && c.Bool
	}
}

// numeric demands a part that is a number.
func (p *parser) numeric(t token, n node) func(*runs.Run) float64 {
	if p.err == nil && (n.kind != runs.Number || n.null) {
		p.fail(n.at, "%s needs numbers, got %s", t.text, n.describe())
	}
	return func(r *runs.Run) float64 { return n.of(r).Value() }
}
