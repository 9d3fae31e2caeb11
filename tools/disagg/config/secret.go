package config

import (
	"regexp"
	"strings"

	"perigee/internal/conf"
	"perigee/internal/secret"
)

// mask stands for the value of a variable that looks secret, and for what may be part of one.
const mask = "***"

var (
	capitals = regexp.MustCompile(`^[A-Z0-9_]+$`)
	users    = regexp.MustCompile(`://[^/\s]*@`) // and passwords, in addresses
)

// scripts are the last parts of the keys whose commands stand in a result as they are.
var scripts = func() map[string]bool {
	m := map[string]bool{}
	for _, k := range schema {
		if k.kind == script {
			m[k.path[strings.LastIndexByte(k.path, '.')+1:]] = true
		}
	}
	return m
}()

// Masked returns a configuration without the values of variables that look secret, and without users and passwords in
// addresses. What cannot be variables where they have to be is masked, too: also invalid configurations have results.
// Elsewhere keys in capitals are taken for variables. A sweep holds values for any key, so it is left out.
func Masked(tree *conf.Value) (*conf.Value, error) {
	if tree.Kind != conf.Map {
		return conf.FromPlain(tree.File, mask)
	}
	tree = tree.Without("sweep").MapText(func(key, text string) any {
		if capitals.MatchString(key) && secret.Variable(key, text) {
			return mask
		}
		if !scripts[key] {
			text = secret.Arguments(text, mask)
		}
		return users.ReplaceAllString(text, "://")
	})
	for _, k := range schema {
		var masked any
		switch given := at(tree, k.path); {
		case given == nil || given.Kind == conf.Null || !k.variables() && (k.kind != section || given.Kind == conf.Map):
			continue
		case given.Kind == conf.String && k.kind == assignments:
			masked = maskedPairs(given.Text())
		case given.Kind == conf.Map:
			masked = maskedMap(given)
		default:
			masked = mask
		}
		var err error
		if tree, err = tree.With(strings.Split(k.path, "."), masked); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// variables reports whether a key holds variables of the environment.
func (k *key) variables() bool {
	return k.kind == assignments || k.path == "job.env" || strings.HasSuffix(k.path, ".env_var")
}

// maskedPairs masks K=V words. A word that is none may be the rest of a value, or one that was meant to be.
func maskedPairs(given string) string {
	words := strings.Fields(given)
	for i, word := range words {
		name, value, ok := strings.Cut(word, "=")
		switch {
		case !ok || !variable.MatchString(name):
			words[i] = mask
		case secret.Variable(name, value):
			words[i] = name + "=" + mask
		}
	}
	return strings.Join(words, " ")
}

func maskedMap(given *conf.Value) map[string]any {
	m := map[string]any{}
	for _, name := range given.Keys() {
		v := given.Get(name)
		switch {
		case !variable.MatchString(name):
			m[mask] = mask
		case v.Kind == conf.Map || v.Kind == conf.List || secret.Variable(name, v.Written()):
			m[name] = mask
		default:
			m[name] = v
		}
	}
	return m
}
