// Package value says what a key of a document, an option or an argument may hold, checks what it holds, and words what
// is wrong with it: "wanted a whole number from 1 to 9, got 10". Who asks adds where that stood.
package value

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/size"
)

// Field is what a value may be. The types, and what a checked value is:
//
//	int       a whole number (int64); 50.0 is one too
//	tokens    a number of tokens (int64): a whole number, or text such as "64k", 64000, or "64K", 65536
//	size      a number of bytes (int64): a whole number, or text such as "1.5G" (see size.Parse)
//	number    a finite number (float64)
//	duration  seconds above 0 (float64): a number, or text such as "30s"
//	bool      true or false (bool), or one of Choices
//	enum      one of Choices, in whatever letters (string)
//	string    text (string)
//	list      any list, with bounds of its length
type Field struct {
	Type     string
	Min, Max *float64 // bounds, included
	Choices  []string
}

// Whole is a whole number from least to most.
func Whole(least, most int64) Field { return within("int", float64(least), float64(most)) }

// Tokens is a number of tokens from least to most.
func Tokens(least, most int64) Field { return within("tokens", float64(least), float64(most)) }

// Number is a number from least to most.
func Number(least, most float64) Field { return within("number", least, most) }

// AtLeast is a whole number of at least least.
func AtLeast(least int64) Field {
	f := Whole(least, 0)
	f.Max = nil
	return f
}

func within(kind string, least, most float64) Field {
	return Field{Type: kind, Min: &least, Max: &most}
}

// Check returns plain data as the field's type, or says what was wanted.
func (f Field) Check(data any) (any, error) {
	if v, ok := f.Take(data); ok {
		return v, nil
	}
	text, _ := data.(string)
	return nil, fmt.Errorf("wanted %s, got %s%s", f.Wanted(), Shown(data), Suggestion(text, f.Choices))
}

// Parse is Check for text of a command line, where numbers are text, too.
func (f Field) Parse(text string) (any, error) {
	data, shown := f.numberIn(text), text
	if v, ok := f.Take(data); ok {
		return v, nil
	}
	if data == text {
		shown = quoted(text)
	}
	return nil, fmt.Errorf("wanted %s, got %s%s", f.Wanted(), shown, Suggestion(text, f.Choices))
}

// numberIn is the number that text says where the field is one, else the text.
func (f Field) numberIn(text string) any {
	switch f.Type {
	case "int", "tokens", "size":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case "number":
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			return x
		}
	}
	return text
}

// Take is Check without the words.
func (f Field) Take(data any) (v any, ok bool) {
	switch f.Type {
	case "int", "tokens", "size":
		n, isNumber := f.whole(data)
		return n, isNumber && f.holds(float64(n))
	case "number":
		x, isNumber := number(data)
		return x, isNumber && f.holds(x)
	case "duration":
		x, isNumber := seconds(data)
		return x, isNumber && x > 0 && x <= math.MaxInt64/1e9
	case "string":
		text, isText := data.(string)
		return text, isText
	}
	if b, isBool := data.(bool); isBool && f.Type == "bool" {
		return b, true
	}
	text, isText := data.(string)
	i := slices.IndexFunc(f.Choices, func(c string) bool { return strings.EqualFold(c, text) })
	if !isText || i < 0 {
		return nil, false
	}
	return f.Choices[i], true
}

// whole also takes floats without a fraction, as scripts and some writers of JSON make them.
func (f Field) whole(data any) (int64, bool) {
	switch x := data.(type) {
	case int64:
		return x, f.Type != "size" || x >= 0
	case float64:
		return int64(x), x == math.Trunc(x) && x >= -(1<<63) && x < 1<<63 && (f.Type != "size" || x >= 0)
	case string:
		if f.Type == "size" {
			n, err := size.Parse(x)
			return n, err == nil
		}
		if n, ok := tokens(x); ok && f.Type == "tokens" {
			return f.whole(n)
		}
	}
	return 0, false
}

// tokens reads 4096, 64k, 1.5M: small letters are powers of 1000, large ones of 1024.
func tokens(text string) (float64, bool) {
	factor := 1.0
	for letter, f := range map[string]float64{"k": 1e3, "m": 1e6, "g": 1e9, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30} {
		if digits, ok := strings.CutSuffix(text, letter); ok {
			text, factor = digits, f
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	return n * factor, err == nil
}

func number(data any) (float64, bool) {
	switch x := data.(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, !math.IsNaN(x) && !math.IsInf(x, 0)
	}
	return 0, false
}

func seconds(data any) (float64, bool) {
	text, isText := data.(string)
	if !isText {
		return number(data)
	}
	d, err := time.ParseDuration(text)
	return d.Seconds(), err == nil
}

// holds reports whether a number, or the length of a list, is within the bounds.
func (f Field) holds(x float64) bool {
	return !(f.Min != nil && x < *f.Min || f.Max != nil && x > *f.Max)
}

// Holds is holds for the length of a list.
func (f Field) Holds(length int) bool { return f.holds(float64(length)) }

// Wanted says what the field takes: "a whole number from 1 to 9".
func (f Field) Wanted() string {
	switch f.Type {
	case "int":
		return "a whole number" + f.bounds(" from ", plain)
	case "tokens":
		return "a whole number of tokens" + f.bounds(" from ", plain)
	case "size":
		return "a size" + cmp.Or(f.bounds(" from ", func(x float64) string { return size.Binary(int64(x)) }),
			" in bytes, such as 4096, 64K or 1.5G")
	case "number":
		return "a number" + f.bounds(" from ", plain)
	case "duration":
		return "a time above 0 with its unit, such as 500ms, 30s or 2m"
	case "bool":
		return strings.Join(append([]string{"true", "false"}, f.Choices...), " or ")
	case "list":
		switch b := f.bounds(" of ", plain); {
		case b == "":
			return "a list"
		case strings.HasSuffix(b, " 1"):
			return "a list" + b + " element"
		default:
			return "a list" + b + " elements"
		}
	case "enum":
		if len(f.Choices) == 1 {
			return quoted(f.Choices[0])
		}
		return "one of " + strings.Join(f.Choices, ", ")
	}
	return "text"
}

// bounds words the bounds; between stands before two of them.
func (f Field) bounds(between string, write func(float64) string) string {
	switch {
	case f.Min != nil && f.Max != nil && *f.Min == *f.Max:
		return strings.TrimSuffix(between, "from ") + write(*f.Min)
	case f.Min != nil && f.Max != nil:
		return between + write(*f.Min) + " to " + write(*f.Max)
	case f.Min != nil:
		return " of at least " + write(*f.Min)
	case f.Max != nil:
		return " of at most " + write(*f.Max)
	}
	return ""
}

// Shown is plain data for the "got" of a message. A number in quotes is to be seen as text.
func Shown(data any) string {
	switch x := data.(type) {
	case nil:
		return "nothing (null)"
	case string:
		return "the text " + quoted(x)
	case float64:
		return plain(x)
	case bool, int64:
		return fmt.Sprint(x)
	case []any:
		return "a list"
	}
	return "a map"
}

// quoted shows text of unknown origin in a message: escaped and not too long.
func quoted(s string) string {
	const most = 60
	return strconv.Quote(plaintext.Cut(s, most))
}

// plain writes a number as people do, 100000000 and not 1e+08, where that is short.
func plain(x float64) string {
	if math.Abs(x) < 1e16 && math.Abs(x) >= 1e-6 || x == 0 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
