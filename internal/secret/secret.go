// Package secret finds variables of the environment that hold secrets, by their names and by what is in them.
package secret

import "regexp"

// Pattern matches NAME=VALUE, in letters of either case, of a variable that other users may not see: HF_TOKEN, but not
// MAX_TOKENS or TOKENIZER. Scripts of jobs give it to grep -E, so it is written for both.
const Pattern = `^[^=]*(secret|pass|_pwd|credential|_key|apikey|auth|cookie|_jwt)[^=]*=|` +
	`^[^=]*token([^si=][^=]*|i[^z=][^=]*)?=|` +
	`^([^=]*_)?(pat|key)(_[^=]*)?=|^[^=]*=(bearer |authorization:)|^[^=]*proxy=[^/]*@`

var pattern = regexp.MustCompile("(?i)" + Pattern)

// Variable reports whether other users may not see a variable.
func Variable(name, value string) bool { return pattern.MatchString(name + "=" + value) }
