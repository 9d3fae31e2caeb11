package catalog

import (
	"regexp"
	"strings"

	"perigee/internal/fault"
)

// Expr is an expression of -k: words that a name contains, in any case, with
// and, or, not and parentheses, as pytest has them. nil matches everything.
type Expr struct {
	word        string // in small letters, unless it has parts
	op          string // and, or, not
	left, right *Expr  // right alone for not
}

var token = regexp.MustCompile(`^(?:\s+|[()]|[\w:+\-.\[\]\\/]+)`)

// ParseExpr reads an expression. An empty one is nil.
func ParseExpr(text string) (*Expr, error) {
	p := &exprParser{source: text}
	for rest := text; rest != ""; {
		t := token.FindString(rest)
		if t == "" {
			return nil, p.fail("wanted words, and, or, not, ( and ), got %q", rest[:1])
		}
		rest = rest[len(t):]
		if t = strings.TrimSpace(t); t != "" {
			p.tokens = append(p.tokens, t)
		}
	}
	if len(p.tokens) == 0 {
		return nil, nil
	}
	e, err := p.or()
	if err == nil && len(p.tokens) > 0 {
		err = p.fail("wanted and or or, got %q", p.tokens[0])
	}
	return e, err
}

type exprParser struct {
	source string
	tokens []string
	depth  int
}

func (p *exprParser) fail(format string, args ...any) error {
	return fault.New(fault.Usage, "-k %q: "+format, append([]any{p.source}, args...)...)
}

// next takes the word if it comes next.
func (p *exprParser) next(word string) bool {
	if len(p.tokens) == 0 || p.tokens[0] != word {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

func (p *exprParser) or() (*Expr, error)  { return p.binary("or", p.and) }
func (p *exprParser) and() (*Expr, error) { return p.binary("and", p.not) }

func (p *exprParser) binary(op string, operand func() (*Expr, error)) (*Expr, error) {
	left, err := operand()
	for err == nil && p.next(op) {
		var right *Expr
		right, err = operand()
		left = &Expr{op: op, left: left, right: right}
	}
	return left, err
}

func (p *exprParser) not() (*Expr, error) {
	const deepest = 1000
	if p.depth++; p.depth > deepest {
		return nil, p.fail("wanted at most %d words not and parentheses, got more", deepest)
	}
	if p.next("not") {
		e, err := p.not()
		return &Expr{op: "not", right: e}, err
	}
	if p.next("(") {
		e, err := p.or()
		if err == nil && !p.next(")") {
			err = p.fail("wanted a closing parenthesis")
		}
		return e, err
	}
	if len(p.tokens) == 0 || p.tokens[0] == ")" || p.tokens[0] == "and" || p.tokens[0] == "or" {
		return nil, p.fail("wanted a word")
	}
	e := &Expr{word: strings.ToLower(p.tokens[0])}
	p.tokens = p.tokens[1:]
	return e, nil
}

// Match reports whether the expression holds for a name.
func (e *Expr) Match(name string) bool {
	return e == nil || e.match(strings.ToLower(name))
}

func (e *Expr) match(name string) bool {
	switch e.op {
	case "and":
		return e.left.match(name) && e.right.match(name)
	case "or":
		return e.left.match(name) || e.right.match(name)
	case "not":
		return !e.right.match(name)
	}
	return strings.Contains(name, e.word)
}
