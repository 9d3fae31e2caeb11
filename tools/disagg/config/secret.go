package config

import (
	"fmt"
	"regexp"
	"strings"

	"perigee/internal/conf"
)

// Secret matches NAME=VALUE, in letters of either case, of a variable that other users may not see: HF_TOKEN, but not
// MAX_TOKENS or TOKENIZER. Scripts of jobs give it to grep -E, so it is written for both.
const Secret = `^[^=]*(secret|pass|_pwd|credential|_key|apikey|auth|cookie|_jwt)[^=]*=|` +
	`^[^=]*token([^si=][^=]*|i[^z=][^=]*)?=|` +
	`^([^=]*_)?(pat|key)(_[^=]*)?=|^[^=]*=(bearer |authorization:)|^[^=]*proxy=[^/]*@`

// mask stands for the value of such a variable.
const mask = "***"

var (
	secret   = regexp.MustCompile("(?i)" + Secret)
	capitals = regexp.MustCompile(`^[A-Z0-9_]+$`)
	users    = regexp.MustCompile(`://[^/\s]*@`) // and passwords, in addresses
)

// Masked returns a configuration without the values of variables that look secret, and without users and passwords in
// addresses. What cannot be variables where they have to be is masked, too: also invalid configurations have results.
// Elsewhere keys in capitals are taken for variables.
func Masked(tree *conf.Value) (*conf.Value, error) {
	tree = tree.MapText(func(key, text string) any {
		if capitals.MatchString(key) && secret.MatchString(key+"="+text) {
			return mask
		}
		return users.ReplaceAllString(text, "://")
	})
	for _, k := range schema {
		if k.kind != assignments && k.path != "job.env" && !strings.HasSuffix(k.path, ".env_var") {
			continue
		}
		var masked any = mask
		switch given := at(tree, k.path).Plain().(type) {
		case nil:
			continue
		case string:
			words := strings.Fields(given)
			for i, word := range words {
				if secret.MatchString(word) {
					name, _, _ := strings.Cut(word, "=")
					words[i] = name + "=" + mask
				}
			}
			masked = strings.Join(words, " ")
		case map[string]any:
			for name, value := range given {
				switch value.(type) {
				case map[string]any, []any:
					given[name] = mask
				}
				if secret.MatchString(name + "=" + fmt.Sprint(value)) {
					given[name] = mask
				}
			}
			masked = given
		}
		var err error
		if tree, err = tree.With(strings.Split(k.path, "."), masked); err != nil {
			return nil, err
		}
	}
	return tree, nil
}
