package config

import (
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
)

// Expr is an expression of -k: words that a name contains, in any case, with
// and, or, not and parentheses, as pytest has them. It reports whether it holds
// for a name in small letters; nil holds for every one.
type Expr func(name string) bool

// Match reports whether the expression holds for a name.
func (e Expr) Match(name string) bool { return e == nil || e(strings.ToLower(name)) }

var token = lazyre.New(`^(?:\s+|[()]|[\w:+\-.\[\]\\/]+)`)

// ParseExpr reads an expression. An empty one is nil.
func ParseExpr(text string) (Expr, error) {
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

func (p *exprParser) or() (Expr, error) {
	left, err := p.and()
	if err != nil || !p.next("or") {
		return left, err
	}
	right, err := p.or()
	return func(name string) bool { return left(name) || right(name) }, err
}

func (p *exprParser) and() (Expr, error) {
	left, err := p.not()
	if err != nil || !p.next("and") {
		return left, err
	}
	right, err := p.and()
	return func(name string) bool { return left(name) && right(name) }, err
}

func (p *exprParser) not() (Expr, error) {
	if p.next("not") {
		e, err := p.not()
		return func(name string) bool { return !e(name) }, err
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
	word := strings.ToLower(p.tokens[0])
	p.tokens = p.tokens[1:]
	return func(name string) bool { return strings.Contains(name, word) }, nil
}
