package conf

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/plaintext"
)

// jsonReader fills values from the tokens of a JSON text.
type jsonReader struct {
	top   *Value
	dec   *json.Decoder
	lines lines
	text  []byte // as it was written
	// offset is where in the document the text begins, whose lines these are.
	offset int
}

// pythonNumbers matches texts, and outside of them what Python's json writes for floats that JSON has not.
var pythonNumbers = lazyre.New(`"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)

// standIns returns a text of the same length in which zeros stand where Python's floats that JSON has not stood.
// fill reads those from the text as it was written.
func standIns(text []byte) []byte {
	if !bytes.Contains(text, []byte("Infinity")) && !bytes.Contains(text, []byte("NaN")) {
		return text
	}
	return pythonNumbers.Get().ReplaceAllFunc(text, func(token []byte) []byte {
		if token[0] == '"' {
			return token
		}
		return []byte("0." + strings.Repeat("0", len(token)-len("0.")))
	})
}

func readJSON(top *Value, text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil // Parse says what is wanted
	}
	return readJSONAt(top, top, text, newLines(text), 0)
}

// readJSONAt fills v with the value in a part of a document's text, which begins at an offset of it.
func readJSONAt(v, top *Value, text []byte, lines lines, offset int) error {
	r := jsonReader{
		top: top, dec: json.NewDecoder(bytes.NewReader(standIns(text))), lines: lines, text: text, offset: offset,
	}
	r.dec.UseNumber()
	token, err := r.next()
	if err != nil {
		return err
	}
	v.Line = r.line()
	if err := r.fill(v, token); err != nil {
		return err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return syntaxError(top, r.line(), "JSON", "something follows after the end of the document")
	}
	return nil
}

// line returns the line on which the last token ends. No token spans lines.
func (r *jsonReader) line() int {
	return r.lines.at(r.offset + max(0, int(r.dec.InputOffset())-1))
}

// next reads a token.
func (r *jsonReader) next() (json.Token, error) {
	token, err := r.dec.Token()
	if err == nil {
		return token, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, syntaxError(r.top, r.lines.at(r.offset+len(r.text)), "JSON", "it ends too early")
	}
	// The decoder's own offsets count from different places for different mistakes: the token begins behind white space
	// and a separator.
	rest := bytes.TrimLeft(r.text[r.dec.InputOffset():], " \t\r\n")
	if len(rest) > 0 && (rest[0] == ',' || rest[0] == ':') {
		rest = bytes.TrimLeft(rest[1:], " \t\r\n")
	}
	return nil, syntaxError(r.top, r.lines.at(r.offset+len(r.text)-len(rest)), "JSON", err.Error())
}

// fill makes v the value that begins with token.
func (r *jsonReader) fill(v *Value, token json.Token) (err error) {
	switch t := token.(type) {
	case json.Delim:
		v.Kind = List
		if t == '{' {
			v.Kind = Map
		}
		return r.fillElements(v)
	case json.Number:
		end := int(r.dec.InputOffset())
		if written := r.text[end-len(t) : end]; bytes.ContainsAny(written, "IN") {
			x, err := strconv.ParseFloat(string(written), 64) // it knows Infinity and NaN
			if err != nil {
				return syntaxError(r.top, r.line(), "JSON", "wanted a number, got "+shorten(string(written)))
			}
			v.Kind, v.scalar = Float, x
			return nil
		}
		if v.Kind, v.scalar, err = parseNumber(string(t)); err != nil {
			return v.Errorf("%w", err)
		}
		if !strings.ContainsAny(string(t), "eE") && v.Written() != string(t) { // 1e6 is text in YAML 1.1
			v.written = string(t)
		}
	case string:
		v.Kind, v.scalar = String, t
	case bool:
		v.Kind, v.scalar = Bool, t
	}
	return nil // what is left is null
}

// fillElements reads the elements of a list, or the keys and values of a map, and the closing bracket.
func (r *jsonReader) fillElements(v *Value) error {
	for r.dec.More() {
		token, err := r.next()
		if err != nil {
			return err
		}
		var value *Value
		if v.Kind == List {
			value, err = v.item(r.line())
		} else if key, isText := token.(string); !isText {
			err = syntaxError(r.top, r.line(), "JSON", "a key must be text in double quotes")
		} else if value, err = v.entry(key, r.line()); err == nil {
			token, err = r.next()
		}
		if err == nil {
			err = r.fill(value, token)
		}
		if err != nil {
			return err
		}
	}
	_, err := r.next()
	return err
}

// parseNumber reads a decimal number that its format has found to be well
// formed: whole if it has neither fraction nor exponent and fits 64 bits. Larger
// ones become floats, as RFC 8259 (section 6) expects of a reader: writers drop
// the point and the exponent of a float such as 1e19.
func parseNumber(text string) (Kind, any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Int, i, nil
		}
	}
	f, err := parseFloat(text)
	return Float, f, err
}

// parseInt reads an integer that its format has found to be well formed.
func parseInt(digits string, base int) (int64, error) {
	i, err := strconv.ParseInt(digits, base, 64)
	if err != nil {
		return 0, fault.New(fault.Input, "the number %s does not fit 64 bits; in quotes it would be text",
			shorten(digits))
	}
	return i, nil
}

// parseFloat reads a finite decimal number that its format has found to be
// well formed.
func parseFloat(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return 0, fault.New(fault.Input, "the number %s does not fit a 64-bit float; in quotes it would be text",
			shorten(text))
	}
	return f, nil
}

// shorten keeps a number of a million digits out of a message.
func shorten(number string) string {
	const most = 40
	return plaintext.Cut(number, most)
}
