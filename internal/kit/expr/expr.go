package expr

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Language is the conditions on one kind of rows.
type Language[R any] struct {
	What    string // a condition, in messages
	Hint    string // an example, and where to read more
	Operand string // what may be compared, in messages
	Example string // something that is true or false, in messages
	// Find returns the column of a name. A name of which the catalogue does not know whether there is such a column is
	// one only on the left of a comparison.
	Find func(name string, left bool) (*Column[R], error)
}

// Condition is true or false of a row.
type Condition[R any] struct {
	text  string
	names []string
	test  func(R) bool
}

// String writes the condition as it is parsed.
func (c *Condition[R]) String() string { return c.text }

// Match reports whether the condition is true of a row.
func (c *Condition[R]) Match(row R) bool { return c.test(row) }

// Columns are the columns that the condition names.
func (c *Condition[R]) Columns() []string { return c.names }

// Names reports whether the condition names a column.
func (c *Condition[R]) Names(column string) bool { return slices.Contains(c.names, column) }

// Parse reads a condition. Its errors are of the kind Usage and say where the mistake is.
func (l *Language[R]) Parse(text string) (*Condition[R], error) {
	p := &parser[R]{Scanner: Scan(l.What, text, l.Hint), language: l}
	n := p.or()
	p.End("an operator such as && or <")
	c := p.condition(n)
	return c, p.Err()
}

// List reads conditions with commas in between, all of which must be true, up to where there is no further comma. A
// column equals one value only, so that the list says so once.
func (l *Language[R]) List(s *Scanner) *Condition[R] {
	p := &parser[R]{Scanner: s, language: l}
	all := p.or()
	said := []string{all.equals}
	for p.Accept(",") {
		p.space()
		at := p.at
		n := p.or()
		if n.equals != "" && slices.Contains(said, n.equals) {
			p.Fail(at, "each name once")
		}
		said = append(said, n.equals)
		a, b := p.truth(all), p.truth(n)
		all = truthNode(all.at, all.text+", "+n.text, func(row R) bool { return a(row) && b(row) })
	}
	return p.condition(all)
}

// node is a part of an expression: what it is of, and its value for a row.
type node[R any] struct {
	kind   Kind
	null   bool // the word null
	at     int
	text   string
	of     func(R) Cell
	column *Column[R] // nil if it is none
	quote  *string    // the text, if it is one between quotes
	number *float64   // if it is one
	unit   string     // of a number
	equals string     // the column, of a comparison of one with a value
}

type parser[R any] struct {
	*Scanner
	language *Language[R]
	names    []string
	depth    int
	right    bool // of a comparison
}

func (p *parser[R]) condition(n node[R]) *Condition[R] {
	return &Condition[R]{text: n.text, test: p.truth(n), names: p.names}
}

func (p *parser[R]) or() node[R] {
	return p.joined(p.and, "||", func(a, b bool) bool { return a || b })
}

func (p *parser[R]) and() node[R] {
	return p.joined(p.not, "&&", func(a, b bool) bool { return a && b })
}

func (p *parser[R]) joined(part func() node[R], op string, join func(a, b bool) bool) node[R] {
	left := part()
	for p.Accept(op) {
		right := part()
		a, b := p.truth(left), p.truth(right)
		left = truthNode(left.at, left.text+" "+op+" "+right.text, func(row R) bool { return join(a(row), b(row)) })
	}
	return left
}

func (p *parser[R]) not() node[R] {
	p.space()
	at := p.at
	if !p.Accept("!") {
		return p.comparison()
	}
	defer p.enter(at)()
	n := p.not()
	inner := p.truth(n)
	return truthNode(at, "!"+n.text, func(row R) bool { return !inner(row) })
}

// enter bounds how deep expressions are nested, up to the call of what it returns.
func (p *parser[R]) enter(at int) (leave func()) {
	const most = 200
	if p.depth++; p.depth > most {
		p.Fail(at, "at most %d parentheses and signs inside each other", most)
	}
	return func() { p.depth-- }
}

// relations, of which one that begins with another stands before it.
var relations = []string{"==", "=~", "=", "!=", "!~", "<=", ">=", "<", ">"}

func (p *parser[R]) relation() (op string, at int) {
	p.space()
	at = p.at
	for _, op := range relations {
		if p.Accept(op) {
			return op, at
		}
	}
	return "", at
}

// comparison reads a sum, or two with a relation between them. = is the short form of ==, without blanks around it, in
// which labels are written.
func (p *parser[R]) comparison() node[R] {
	left := p.sum()
	op, at := p.relation()
	if op == "" {
		return left
	}
	p.right = true
	right := p.sum()
	p.right = false
	if p.err != nil {
		return node[R]{}
	}
	if again, at := p.relation(); again != "" {
		p.Wrong(at, "a comparison cannot be compared again; use && between two of them")
	}
	space := " "
	n := node[R]{}
	if op == "=" {
		op, space = "==", ""
	}
	// A unit on one side, as in latency_ms < 2s, is put into that of the column on the other.
	p.scale(&left, &right)
	p.scale(&right, &left)
	switch {
	case op == "=~" || op == "!~":
		n.of = truthOf(p.matching(op, at, left, right))
	case left.null || right.null:
		n.of = truthOf(p.nullness(op, at, left, right))
	default:
		n.of = truthOf(p.comparing(op, at, left, right))
		if op == "==" && left.column != nil && right.column == nil {
			n.equals = left.column.Name
		}
	}
	if space == "" {
		op = "="
	}
	n.kind, n.at, n.text = Bool, left.at, left.text+space+op+space+right.text
	return n
}

// scale makes a number with a unit one in the unit of the column that it is compared with.
func (p *parser[R]) scale(n, other *node[R]) {
	if n.number == nil || p.err != nil {
		return
	}
	unit := ""
	if other.column != nil {
		unit = other.column.Unit
		if other.column.Whole && n.unit == "" && (*n.number < 0 || *n.number != math.Trunc(*n.number)) {
			p.Fail(n.at, "a whole number, 0 or more,")
		}
	}
	if n.unit == "" {
		return
	}
	v, ok := convert(n.text, *n.number, n.unit, unit)
	if !ok {
		p.Fail(n.at, "%s", wantedNumber(unit))
	}
	p.finite(n.at, v)
	*n = constant[R](n.at, number(v), Num(v))
}

// reject stands for the test of a comparison that cannot be.
func (p *parser[R]) reject(at int, format string, args ...any) func(R) bool {
	p.Wrong(at, format, args...)
	return nil
}

// matching compares text with a regular expression.
func (p *parser[R]) matching(op string, at int, left, right node[R]) func(R) bool {
	if left.kind != Text && left.kind != Either || left.null {
		return p.reject(at, "left of %s wanted text, got %s", op, left.describe())
	}
	if right.quote == nil {
		return p.reject(at, "right of %s wanted a regular expression in quotes", op)
	}
	re, err := regexp.Compile(*right.quote)
	if err != nil {
		return p.reject(right.at, "%v", err)
	}
	return func(row R) bool {
		c := left.of(row)
		return !c.Empty && re.MatchString(c.Text) == (op == "=~")
	}
}

// nullness asks whether a cell is empty.
func (p *parser[R]) nullness(op string, at int, left, right node[R]) func(R) bool {
	if op != "==" && op != "!=" {
		return p.reject(at, "null can only be compared with == and !=")
	}
	asked := left
	if left.null {
		asked = right
	}
	if asked.null {
		return p.reject(at, "null is compared with null")
	}
	return func(row R) bool { return asked.of(row).Empty == (op == "==") }
}

// comparing checks the kinds of both sides when the condition is read, so that no row can fail, and returns the test
// of a row. A row that lacks a value passes no comparison. Of cells with several numbers all pairs must hold.
func (p *parser[R]) comparing(op string, at int, left, right node[R]) func(R) bool {
	kind := left.kind
	if kind == Either {
		kind = right.kind
	}
	switch {
	case kind == Either:
		kind = Text
	case right.kind != kind && (right.kind != Either || kind == Bool), left.kind == Either && kind == Bool:
		return p.reject(at, "%s compares %s with %s", op, left.describe(), right.describe())
	case kind == Bool && op != "==" && op != "!=":
		return p.reject(at, "true and false can only be compared with == and !=")
	}
	return func(row R) bool {
		a, b := left.of(row), right.of(row)
		switch {
		case a.Empty || b.Empty:
			return false
		case kind == Text:
			return holds(op, strings.Compare(a.Text, b.Text), 0)
		case kind == Bool:
			return (a.Bool == b.Bool) == (op == "==")
		}
		return len(a.Nums) > 0 && len(b.Nums) > 0 && !slices.ContainsFunc(a.Nums, func(x float64) bool {
			return slices.ContainsFunc(b.Nums, func(y float64) bool { return !holds(op, x, y) })
		})
	}
}

func (p *parser[R]) sum() node[R]     { return p.arithmetic(p.product, "+", "-") }
func (p *parser[R]) product() node[R] { return p.arithmetic(p.signed, "*", "/") }

func (p *parser[R]) arithmetic(operand func() node[R], operators ...string) node[R] {
	left := operand()
	for {
		op := p.oneOf(operators...)
		if op == "" {
			return left
		}
		right := operand()
		a, b := p.numeric(op, left), p.numeric(op, right)
		left = node[R]{kind: Number, at: left.at, text: left.text + " " + op + " " + right.text,
			of: func(row R) Cell { return finite(calculate(op, a(row), b(row))) }}
	}
}

// finite is a cell with x, empty if x is not finite.
func finite(x float64) Cell {
	if math.IsInf(x, 0) {
		x = math.NaN()
	}
	return Num(x)
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

// signed reads signs before an operand. A sign before a constant is part of it, so that -5 can have a unit.
func (p *parser[R]) signed() node[R] {
	p.space()
	at := p.at
	op := p.oneOf("-", "+")
	if op == "" {
		return p.operand()
	}
	defer p.enter(at)()
	n := p.signed()
	x := p.numeric(op, n)
	switch {
	case op == "+" || p.err != nil:
		return n
	case n.number != nil:
		return constant[R](at, number(-*n.number), Num(-*n.number))
	}
	return node[R]{kind: Number, at: at, text: "-" + n.text, of: func(row R) Cell { return Num(-x(row)) }}
}

// operand reads what stands between operators: parentheses, a text in quotes, a number with or without a unit, or a
// word.
func (p *parser[R]) operand() node[R] {
	p.space()
	at := p.at
	if p.Accept("(") {
		return p.parenthesis(at)
	}
	if text, ok := p.quoted(); ok {
		n := constant[R](at, Quote(text), Cell{Kind: Text, Text: text})
		n.quote = &text
		return n
	}
	if v, ok := p.number(); ok {
		n := constant[R](at, number(v), Num(v))
		digits := p.text[at:p.at]
		if n.unit = p.take(unitForm); n.unit == "" {
			n.unit = p.unit()
		}
		if n.unit != "" {
			n.text = digits + n.unit
		}
		return n
	}
	name := p.Word(p.language.Operand)
	if p.err != nil {
		return node[R]{}
	}
	return p.word(at, name)
}

func (p *parser[R]) parenthesis(at int) node[R] {
	defer p.enter(at)()
	right := p.right
	p.right = false
	n := p.or()
	p.right = right
	p.Want(")", "a closing parenthesis")
	n.text, n.equals = "("+n.text+")", ""
	return n
}

// word takes a word for true, false or null, or else for a column. Before a single = it is a column whatever it is
// called, as a label may be.
func (p *parser[R]) word(at int, name string) node[R] {
	p.space()
	if rest := p.text[p.at:]; !strings.HasPrefix(rest, "=") || strings.HasPrefix(rest, "==") { // else it is a column
		switch lower := strings.ToLower(name); lower {
		case "true", "false":
			return constant[R](at, lower, Truth(lower == "true"))
		case "null":
			return node[R]{null: true, at: at, text: lower, of: func(R) Cell { return Cell{Empty: true} }}
		}
	}
	c, err := p.language.Find(name, !p.right)
	if err != nil {
		p.Wrong(at, "%w", err)
		return node[R]{}
	}
	p.names = append(p.names, c.Name)
	return node[R]{kind: c.Kind, at: at, text: c.Name, of: c.Of, column: c}
}

func constant[R any](at int, text string, c Cell) node[R] {
	n := node[R]{kind: c.Kind, at: at, text: text, of: func(R) Cell { return c }}
	if c.Kind == Number && !c.Empty {
		n.number = &c.Nums[0]
	}
	return n
}

func truthOf[R any](test func(R) bool) func(R) Cell {
	return func(row R) Cell { return Truth(test(row)) }
}

func truthNode[R any](at int, text string, test func(R) bool) node[R] {
	return node[R]{kind: Bool, at: at, text: text, of: truthOf(test)}
}

func (n node[R]) describe() string {
	if n.null {
		return "null"
	}
	return n.kind.String()
}

// truth demands a part that is true or false.
func (p *parser[R]) truth(n node[R]) func(R) bool {
	if p.err == nil && (n.kind != Bool || n.null) {
		p.Wrong(n.at, "wanted something that is true or false, such as %s, got %s", p.language.Example, n.describe())
	}
	return func(row R) bool {
		c := n.of(row)
		return !c.Empty && c.Bool
	}
}

// numeric demands a part that is a number.
func (p *parser[R]) numeric(op string, n node[R]) func(R) float64 {
	if p.err == nil && (n.kind != Number && n.kind != Either || n.null) {
		p.Wrong(n.at, "%s needs numbers, got %s", op, n.describe())
	}
	if n.unit != "" {
		p.Fail(n.at, "a number without a unit, which only comparisons with a column take")
	}
	return func(row R) float64 { return n.of(row).Value() }
}

// Quote is a text between the quotes that it does not contain.
func Quote(text string) string {
	if strings.Contains(text, `"`) {
		return "'" + text + "'"
	}
	return `"` + text + `"`
}

// number writes a number; whole ones have all their digits.
func number(v float64) string {
	const exactBelow = 1 << 53
	if v == math.Trunc(v) && math.Abs(v) < exactBelow {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
