// Package secret finds variables of the environment that hold secrets, by their names and by what is in them.
package secret

import (
	"regexp"
	"strings"
)

// Pattern matches NAME=VALUE, in letters of either case, of a variable that other users may not see: HF_TOKEN, but not
// MAX_TOKENS or TOKENIZER. Scripts of jobs give it to grep -E, so it is written for both.
const Pattern = `^[^=]*(secret|pass|_pwd|credential|(_|api|access|private|ssh)key|auth|cookie)[^=]*=|^([^=]*_)?jwt=|` +
	`^[^=]*token([^si=][^=]*|i[^z=][^=]*)?=|` +
	`^([^=]*_)?(pat|key)(_[^=]*)?=|^[^=]*=(bearer |authorization:)|^[^=]*proxy=[^/]*@`

var pattern = regexp.MustCompile("(?i)" + Pattern)

// Variable reports whether other users may not see a variable.
func Variable(name, value string) bool { return pattern.MatchString(name + "=" + value) }

// Name is a key for messages. Where a secret may follow the name of a variable in it, as in {HF_TOKEN:x} of YAML, which
// lacks a blank, "..." stands for what follows.
func Name(key string) string {
	key = strings.TrimPrefix(key, "export ") // a line of a shell script
	end := strings.IndexFunc(key, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if end > 0 && Variable(key[:end], "") {
		return key[:end] + "..."
	}
	return key
}

// Text is a text for messages: without the value of a variable that it begins with.
func Text(text string) string {
	if name, value, ok := strings.Cut(text, "="); ok && Variable(name, value) {
		return name + "=..."
	}
	return Name(text)
}

// assigned matches an assignment within the arguments of a program, such as --export=ALL,NAME=VALUE.
var assigned = regexp.MustCompile(`\b([A-Za-z_][A-Za-z0-9_]*)=([^,\s]+)`)

// Arguments is a text of arguments with the values of variables masked that they assign.
func Arguments(text, mask string) string {
	return assigned.ReplaceAllStringFunc(text, func(pair string) string {
		name, value, _ := strings.Cut(pair, "=")
		if rest := Arguments(value, mask); rest != value || !Variable(name, value) {
			return name + "=" + rest
		}
		return name + "=" + mask
	})
}
