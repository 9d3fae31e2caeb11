package vm

import (
	"fmt"
	"strconv"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/plaintext"
)

// maxQuoted bounds what messages quote of a text: one of a script's may have 64 MiB, and be four times as long when it
// is escaped.
const maxQuoted = 256

// Quoted is a text between quotation marks, cut where it is long.
func Quoted(text string) string {
	if len(text) <= maxQuoted {
		return strconv.Quote(text)
	}
	return fmt.Sprintf("%q (%d bytes)", plaintext.Cut(text, maxQuoted), len(text))
}

// Describe names a value in a message.
func Describe(v glua.LValue) string {
	switch v.Type() {
	case glua.LTNil:
		return "missing"
	case glua.LTString:
		return "the string " + Quoted(v.String())
	case glua.LTNumber, glua.LTBool:
		return v.String()
	}
	return "a " + v.Type().String()
}
