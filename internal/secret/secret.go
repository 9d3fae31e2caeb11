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

// proxy ends the names of variables whose values may hold a password without an address's "://".
const proxy = "proxy"

// IsProxy reports whether a variable holds a proxy, as its name says.
func IsProxy(name string) bool {
	return len(name) >= len(proxy) && strings.EqualFold(name[len(name)-len(proxy):], proxy)
}

// ByValue reports whether other users may not see a variable, which may be one of a proxy, because of its value.
func ByValue(isProxy bool, value string) bool {
	if isProxy {
		return Variable(proxy, value)
	}
	return Variable("x", value)
}

// before matches what may stand before the name of a variable in a line of a shell script, or an argument.
var before = regexp.MustCompile(`^\s*((export|declare|typeset|local|readonly)(\s+-\w+)*\s+|set(env)?\s+|env\s+|-e\s*|--env[=\s]\s*)?`)

// Name is a key for messages. Where a secret may follow the name of a variable in it, as in {HF_TOKEN:x} of YAML,
// which lacks a blank, "..." stands for what follows.
func Name(key string) string {
	if name, rest := Cut(key); rest != "" {
		return name + "..."
	}
	return Addresses(Arguments(key, "..."))
}

// Cut splits a text behind the name of a variable that it begins with, if the variable looks secret and something
// follows. Otherwise both parts are empty.
func Cut(text string) (name, rest string) {
	text = text[len(before.FindString(text)):]
	end := strings.IndexFunc(text, func(r rune) bool { return !isNamed(r) })
	if end > 0 && Variable(text[:end], "") {
		return text[:end], text[end:]
	}
	return "", ""
}

// Text is a text for messages: without the value of a variable that it begins with, or assigns, and without passwords
// in addresses.
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

// user matches a user and the beginning of a password, which is no port, and no variable or placeholder for one.
const user = `(?:[^/\s:@\[]*|[^/\s:\[?#]*):(?:[0-9]*[^/0-9\s,;${]|[0-9]{6})`

// users are those in addresses, and passwords. What is behind the colon is a password, with any slash and @ in it,
// unless it is a port and a slash: then what follows is a path, as it is behind an @ with a host and a port. A query or
// fragment may be in a password only where no @ is before it. Last come users without such a password.
var users = regexp.MustCompile(`://(?:[^/\s]*@([^/\s:@\[]+:[0-9]{1,5}/)|` +
	`(?:` + user + `[^\s?#]*|` + user + `\S*|[^/\s]*)@)`)

// Addresses is a text without the users and passwords of addresses in it.
func Addresses(text string) string { return users.ReplaceAllString(text, "://$1") }

// separators end a value that is not in quotes.
const separators = " \t\n,;"

// Arguments is a text in which programs find assignments, such as --export=ALL,NAME=VALUE, with a mask for the values
// of variables that look secret. A value ends at a blank, a comma or a semicolon; one in quotes, at the closing one.
// What follows it behind commas without an assignment may be the rest of it.
func Arguments(text, mask string) string {
	const looked = 100 // bytes of a value that may say what it is
	var b strings.Builder
	var open quotes // where the rest of the text begins
	for rest := text; rest != ""; {
		end := strings.IndexAny(rest, separators)
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
			if name != "" && Variable(name, telling(piece[at:min(len(piece), at+looked)])) {
				piece = piece[:at] + mask
				end = endOf(rest, at, at-1-len(name), open.after(rest[:at]), end)
				break
			}
		}
		b.WriteString(piece)
		if end < len(rest) {
			b.WriteByte(rest[end])
			end++
		}
		open = open.after(rest[:end])
		rest = rest[end:]
	}
	return b.String()
}

// telling is what in a value says what it is, to [Variable]: little of it, as there may be many.
func telling(value string) string {
	const authorization = "authorization:"
	if len(value) >= len(authorization) && strings.EqualFold(value[:len(authorization)], authorization) {
		return authorization
	}
	if i := strings.IndexAny(value, "/@"); i >= 0 && value[i] == '@' {
		return "@"
	}
	return ""
}

// assignment matches NAME=VALUE. Without a value it may be the end of Base64, which = fills up.
var assignment = regexp.MustCompile(`^['"]?[A-Za-z_][A-Za-z0-9_]*=+[^=]`)

// quotes is the quotation mark that is open somewhere in a text, 0 if none is.
type quotes byte

// after is what is open behind more of the text.
func (q quotes) after(text string) quotes {
	for i := range len(text) {
		switch c := quotes(text[i]); {
		case q == c:
			q = 0
		case q == 0 && (c == '\'' || c == '"'):
			q = c
		}
	}
	return q
}

// endOf is where a value of a text ends that begins at an index and is over at end, if it is not in quotes and has no
// comma. Its name begins at another index. A quotation mark may be open there, as in '--export=NAME=VALUE', or an
// apostrophe has been taken for one: so the value ends at the last of the marks that may close it.
func endOf(text string, at, name int, open quotes, end int) int {
	if open != 0 {
		end = max(end, closing(text, at, byte(open)))
	}
	if name > 0 && (text[name-1] == '\'' || text[name-1] == '"') {
		end = max(end, closing(text, at, text[name-1]))
	}
	if at < len(text) && (text[at] == '\'' || text[at] == '"') {
		end = max(end, closing(text, at+1, text[at]))
	}
	for end < len(text) && (text[end] == ',' || text[end] == ';') {
		next := text[end+1:]
		if i := strings.IndexAny(next, separators); i >= 0 {
			next = next[:i]
		}
		if assignment.MatchString(next) {
			break
		}
		end += 1 + len(next)
	}
	return end
}

// closing is where a word ends that is in quotes at an index.
func closing(text string, at int, quote byte) int {
	i := strings.IndexByte(text[at:], quote)
	if i < 0 {
		return len(text)
	}
	end := at + i + 1
	if i := strings.IndexAny(text[end:], separators); i >= 0 {
		return end + i
	}
	return len(text)
}
