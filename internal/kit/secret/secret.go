// Package secret finds variables of the environment whose names look secret, and leaves their values out of texts.
package secret

import (
	"regexp"
	"strings"
)

// names matches the names of variables that hold secrets, in letters of either case: HF_TOKEN, but not MAX_TOKENS or
// TOKENIZER.
const names = `(` + word + `*(secret|pass|_pwd|credential|(_|api|access|private|ssh)key|auth|cookie)` + word + `*|` +
	`(` + word + `*_)?(jwt|pat|key)(_` + word + `*)?|` +
	word + `*token([0-9a-hj-rt-z_]` + word + `*|i[0-9a-y_]` + word + `*)?)`

const word = `[0-9A-Za-z_]`

// Pattern matches NAME=VALUE of a variable whose name looks secret. Scripts of jobs give it to grep -iE, so it is
// written for both.
const Pattern = `^` + names + `=`

var (
	pattern = regexp.MustCompile(`(?i)` + Pattern)
	named   = regexp.MustCompile(`(` + word + `+)(=|:[ \t]*)`)
	value   = regexp.MustCompile(`^("[^"]*"|'[^']*'|[^\s,;]+)`)
	address = regexp.MustCompile(`://[^/\s@]*@`)
)

// Variable reports whether a variable looks secret by its name.
func Variable(name string) bool { return pattern.MatchString(name + "=") }

// Mask is a text with a mask for the values of variables that look secret, as in NAME=VALUE or NAME: VALUE, and without
// users and passwords in addresses. A value ends at a blank, a comma or a semicolon; one in quotes, at the closing one.
func Mask(text, mask string) string {
	text = Addresses(text)
	var b strings.Builder
	done := 0 // of the text
	for _, at := range named.FindAllStringSubmatchIndex(text, -1) {
		begin := at[1]
		if at[0] < done || !Variable(text[at[2]:at[3]]) {
			continue
		}
		if length := len(value.FindString(text[begin:])); length > 0 {
			b.WriteString(text[done:begin] + mask)
			done = begin + length
		}
	}
	return b.String() + text[done:]
}

// Addresses is a text without the users and passwords of addresses in it.
func Addresses(text string) string { return address.ReplaceAllString(text, "://") }

// Text is a text for messages, without the values of variables that look secret.
func Text(text string) string { return Mask(text, "...") }
