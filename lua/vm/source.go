package vm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/value"
)

// MaxSource bounds the text of a scenario in bytes.
const MaxSource = 256 << 10

// keywords are the words of Lua that a line may begin with, or that take a block.
var keywords = strings.Fields("break else elseif end for function local repeat return then until while")

// statement is a word before another one or before a parenthesis.
var statement = lazyre.New(`([A-Za-z_]\w*)(?:\s+[A-Za-z_]|\s*\()`)

// nearWord is what the parser has stopped at.
var nearWord = lazyre.New(`^near '([^']*)'`)

// misspelt is "; WORD: did you mean KEYWORD?" with the first word of a line, up to a column, that looks like one.
func misspelt(source string, line, column int) string {
	lines := strings.Split(source, "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	text := lines[line-1]
	for _, m := range statement.Get().FindAllStringSubmatch(text[:min(len(text), column)], -1) {
		if near := value.Suggestion(m[1], keywords); near != "" && !slices.Contains(keywords, m[1]) {
			return "; " + m[1] + ": " + strings.TrimPrefix(near, "; ")
		}
	}
	return ""
}

// compile makes instructions of the text of a script.
func compile(name, source string) (*glua.FunctionProto, error) {
	chunk, err := parse.Parse(strings.NewReader(source), name)
	if err != nil {
		return nil, fault.New(fault.Script, "%s", syntaxError(name, source, err))
	}
	proto, err := glua.Compile(chunk, name)
	if err != nil {
		return nil, fault.New(fault.Script, "%s", syntaxError(name, source, err))
	}
	if err := checkSize(name, proto); err != nil {
		return nil, err
	}
	return proto, nil
}

// The fields of compiled instructions hold no larger numbers. The compiler goes on where they do not suffice, and its
// output then loses elements of lists, or jumps to wrong places.
const (
	maxInstructions = 1<<17 - 1 // a jump leads over at most so many
	maxUpvalues     = 255
	maxElements     = 511 * 50 // of a list: the compiler writes 50 at a time
)

// checkSize refuses a function, or one inside of it, that the compiler cannot express.
func checkSize(name string, f *glua.FunctionProto) error {
	tooLarge := func(format string, args ...any) *fault.Error {
		where := fmt.Sprintf("%s:%d", name, max(f.LineDefined, 1))
		return fault.New(fault.Script, "%s: a function has %s", where, fmt.Sprintf(format, args...))
	}
	if n := len(f.Code); n > maxInstructions {
		return tooLarge("%d instructions, wanted at most %d", n, maxInstructions).
			WithHint("divide it into several functions")
	}
	if n := len(f.DbgUpvalues); n > maxUpvalues {
		return tooLarge("%d variables of the functions around it, wanted at most %d", n, maxUpvalues).
			WithHint("divide it into several functions")
	}
	for _, instruction := range f.Code {
		opcode, part := instruction>>26, instruction>>9&0x1ff
		if int(opcode) == glua.OP_SETLIST && part == 0 { // the compiler writes 0 for parts beyond 511
			return tooLarge("a list of more than %d elements in its text", maxElements).
				WithHint("let a file that config.load reads hold them, or make the list of several")
		}
	}
	for _, inner := range f.FunctionPrototypes {
		if err := checkSize(name, inner); err != nil {
			return err
		}
	}
	return nil
}

// syntaxError words the parser's complaint as file:line: what, with the column and a word of the line that may be a
// misspelt keyword.
func syntaxError(name, source string, err error) string {
	text := strings.TrimSpace(err.Error())
	if api, ok := errors.AsType[*glua.ApiError](err); ok {
		text = strings.TrimSpace(api.Object.String())
	}
	text = strings.Join(strings.Fields(text), " ")
	// The parser says "NAME line:L(column:C) near 'X': syntax error".
	if rest, ok := strings.CutPrefix(text, name+" line:"); ok {
		line, rest, _ := strings.Cut(rest, "(")
		column, rest, _ := strings.Cut(rest, ")")
		n, _ := strconv.Atoi(line)
		last, _ := strconv.Atoi(strings.TrimPrefix(column, "column:"))
		rest = strings.TrimSpace(rest)
		first := last // of the word that the parser has stopped at, whose last one it gives
		if m := nearWord.FindStringSubmatch(rest); m != nil {
			first = max(1, last-len(m[1])+1)
		}
		return fmt.Sprintf("%s:%s: %s at column %d%s", name, line, rest, first, misspelt(source, n, last))
	}
	return name + ": " + strings.TrimPrefix(text, name+" ")
}
