package expr

import (
	"strconv"
	"strings"

	"perigee/internal/fault"
)

// kind is what a token is.
type kind int

const (
	end kind = iota
	word
	number
	quoted
	operator
)

type token struct {
	kind kind
	text string  // of a quoted one, without the quotes
	num  float64 // of a number
	at   int     // offset in the source
}

// String shows the token in messages.
func (t token) String() string {
	switch t.kind {
	case end:
		return "the end"
	case quoted:
		return "the text " + strconv.Quote(t.text)
	}
	return strconv.Quote(t.text)
}

// operators, longer ones first.
var operators = []string{"&&", "||", "==", "!=", "<=", ">=", "=~", "!~", "<", ">", "!", "(", ")", "+", "-", "*", "/"}

// maxLength bounds an expression, whose parser calls itself.
const maxLength = 10_000

// wrong makes an error that shows where in the source it is.
func wrong(source string, at int, format string, args ...any) *fault.Error {
	err := fault.New(fault.Usage, format, args...)
	at = min(at, len(source))
	err.Msg = strconv.Quote(source[:at]) + " ... : " + err.Msg
	if at == 0 {
		err.Msg = strings.TrimPrefix(err.Msg, `"" ... : `)
	}
	return err
}

// lex takes a source apart. The last token is an end.
func lex(source string) ([]token, *fault.Error) {
	if len(source) > maxLength {
		return nil, fault.New(fault.Usage, "wanted an expression of at most %d characters, got %d", maxLength,
			len(source))
	}
	var tokens []token
	for at := 0; at < len(source); {
		rest := source[at:]
		switch c := rest[0]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			at++
		case isLetter(c):
			n := 1
			for n < len(rest) && (isLetter(rest[n]) || isDigit(rest[n]) || rest[n] == '.') {
				n++
			}
			tokens = append(tokens, token{kind: word, text: rest[:n], at: at})
			at += n
		case isDigit(c) || c == '.':
			n := numberLength(rest)
			x, err := strconv.ParseFloat(rest[:n], 64)
			if err != nil {
				return nil, wrong(source, at, "%q is no number", rest[:n])
			}
			tokens = append(tokens, token{kind: number, text: rest[:n], num: x, at: at})
			at += n
		case c == '"' || c == '\'':
			n := strings.IndexByte(rest[1:], c)
			if n < 0 {
				return nil, wrong(source, at, "the text that begins with %c has no end", c)
			}
			tokens = append(tokens, token{kind: quoted, text: rest[1 : 1+n], at: at})
			at += n + 2
		default:
			op := operatorOf(rest)
			if op == "" {
				return nil, wrong(source, at, "%q means nothing here", []rune(rest)[0]).
					WithHint("operators are && || ! == != < <= > >= =~ !~ + - * / and parentheses")
			}
			tokens = append(tokens, token{kind: operator, text: op, at: at})
			at += len(op)
		}
	}
	return append(tokens, token{kind: end, at: len(source)}), nil
}

func operatorOf(rest string) string {
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			return op
		}
	}
	return ""
}

// numberLength is how much of rest is a number such as 12, 1.5 or 2e-3.
func numberLength(rest string) int {
	n := 0
	for n < len(rest) && (isDigit(rest[n]) || rest[n] == '.') {
		n++
	}
	if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
		exponent := n + 1
		if exponent < len(rest) && (rest[exponent] == '-' || rest[exponent] == '+') {
			exponent++
		}
		if exponent < len(rest) && isDigit(rest[exponent]) {
			for n = exponent; n < len(rest) && isDigit(rest[n]); n++ {
			}
		}
	}
	return n
}

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
