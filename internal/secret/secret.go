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

// before matches what may stand before the name of a variable in a line of a shell script, or an argument.
var before = regexp.MustCompile(`^\s*(export\s+|env\s+|-e\s*|--env[=\s]\s*)?`)

// Name is a key for messages. Where a secret may follow the name of a variable in it, as in {HF_TOKEN:x} of YAML,
// which lacks a blank, "..." stands for what follows.
func Name(key string) string {
	name := key[len(before.FindString(key)):]
	end := strings.IndexFunc(name, func(r rune) bool { return !isNamed(r) })
	if end > 0 && Variable(name[:end], "") {
		return name[:end] + "..."
	}
	return Arguments(key, "...")
}

// Text is a text for messages: without the value of a variable that it begins with, or assigns.
func Text(text string) string {
	if name, value, ok := strings.Cut(text, "="); ok && Variable(name, value) {
		return name + "=..."
	}
	return Name(text)
}

// isNamed reports whether a name of a variable may hold a character.
func isNamed(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}

// Arguments is a text in which programs find assignments, such as --export=ALL,NAME=VALUE, with a mask for the values
// of variables that look secret. A value ends at a blank, a comma or a semicolon.
func Arguments(text, mask string) string {
	const looked = 100 // bytes of a value that may say what it is
	var b strings.Builder
	for rest := text; rest != ""; {
		end := strings.IndexAny(rest, " \t\n,;")
		if end < 0 {
			end = len(rest)
		}
		piece := rest[:end]
		for at := 0; at < len(piece); {
			i := strings.IndexByte(piece[at:], '=')
			if i < 0 {
				break
			}
			name := piece[at : at+i]
			name = name[strings.LastIndexFunc(name, func(r rune) bool { return !isNamed(r) })+1:]
			at += i + 1
			value := piece[at:min(len(piece), at+looked)]
			if !strings.Contains(value, "@") && !strings.HasPrefix(strings.ToLower(value), "authorization:") {
				value = "" // it does not say what it is
			}
			if name != "" && Variable(name, value) {
				piece = piece[:at] + mask
				break
			}
		}
		b.WriteString(piece)
		if end < len(rest) {
			b.WriteByte(rest[end])
			end++
		}
		rest = rest[end:]
	}
	return b.String()
}
