package config

import (
	"regexp"
	"slices"
	"strings"

	"perigee/internal/conf"
	"perigee/internal/secret"
)

// mask stands for the value of a variable that looks secret, and for what may be part of one.
const mask = "***"

var (
	capitals = regexp.MustCompile(`^[A-Z0-9_]+$`)
	// names are keys that no text is in.
	names = regexp.MustCompile(`^[A-Za-z0-9_.+/@-]*$`)
)

// open are keys of the schema below which any key may be. The schema lacks those, as it lacks the ones of worker_config
// that pass through, but these have many names, such as auth, that are no secrets.
var open = []string{"metadata.references", "metadata.accuracy.datasets", "accuracy.tasks", "resources"}

// keyAt is the kind of the key of the schema that a path of keys leads to, or into, unless anything may be there.
func keyAt(path []string) (k kind, known bool) {
	for i := range path {
		if strings.Contains(path[i], ".") {
			return 0, false
		}
		full := strings.Join(path[:i+1], ".")
		if k, known = kindOf[full]; !known || k != section {
			return k, known && !slices.Contains(open, full)
		}
	}
	return k, known
}

// Masked returns a configuration without the values of variables that look secret, and without users and passwords in
// addresses. What cannot be variables where they have to be is masked, too: also invalid configurations have results.
// Elsewhere keys in capitals are taken for variables, and all that the schema lacks. A sweep holds values for any key,
// so it is left out.
func Masked(tree *conf.Value) (*conf.Value, error) {
	if tree.Kind != conf.Map {
		return conf.FromPlain(tree.File, mask)
	}
	tree = tree.Without("sweep")
	var seen keys
	tree = tree.MapScalars(func(path []string, v *conf.Value) any {
		k, known := keyAt(path)
		own := seen.last(path)
		is := own.capital // also below such a key, as in HF_TOKEN: {value: x}
		if !known {
			is = own.any
		}
		switch {
		case v.Kind == conf.Null || isFigure(tree, path, v):
			return v
		case is.secret, is.variable && secret.ByValue(is.proxy, v.Written()), !known && hides(v.Text()):
			return mask
		case v.Kind != conf.String:
			return v
		}
		text := v.Text()
		if k != script || at(tree, strings.Join(path, ".")) != v {
			text = secret.Arguments(text, mask)
		}
		return secret.Addresses(text)
	}).MapKeys(func(key string) string {
		if names.MatchString(key) {
			return key
		}
		return secret.Name(key)
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

// keys are those on the way to a value. Each is looked at once for all that is below it, since keys are long, and
// many values may be deep below many of them.
type keys []seenKey

// seenKey is a key, and what it and those before it may be: all of them, and those in capitals alone.
type seenKey struct {
	name         string
	any, capital variables
}

// variables are what keys may be that stand within each other.
type variables struct {
	variable bool // there is one
	secret   bool // one looks secret by its name
	proxy    bool // one is of a proxy
}

// and are those with others.
func (v variables) and(other variables) variables {
	return variables{v.variable || other.variable, v.secret || other.secret, v.proxy || other.proxy}
}

// last is the last key of a path, of which those that the path before had in the same places are known.
func (k *keys) last(path []string) seenKey {
	same := 0
	for same < min(len(*k), len(path)) && (*k)[same].name == path[same] {
		same++
	}
	*k = (*k)[:same]
	for _, name := range path[same:] {
		var one seenKey
		if len(*k) > 0 {
			one = (*k)[len(*k)-1]
		}
		own := variables{true, secret.Variable(name, ""), secret.IsProxy(name)}
		one.name, one.any = name, one.any.and(own)
		if capitals.MatchString(name) {
			one.capital = one.capital.and(own)
		}
		*k = append(*k, one)
	}
	return (*k)[len(path)-1]
}

// isFigure reports whether a value is a number of a reference, which has the name of a metric: TOKEN_RATE.
func isFigure(tree *conf.Value, path []string, v *conf.Value) bool {
	isNumber := v.Kind == conf.Int || v.Kind == conf.Float
	return isNumber && len(path) == 3 && path[0] == "metadata" && path[1] == "references" &&
		tree.Get("metadata").Get("references").Get(path[2]).Kind == conf.List
}

// hides reports whether a text, or a word in it, begins with the name of a variable that looks secret, and goes on
// otherwise than an assignment, as HF_TOKEN:x does. Of assignments no more is masked than the value.
func hides(text string) bool {
	isSecret := func(text string) bool {
		_, rest := secret.Cut(text)
		return rest != "" && rest[0] != '='
	}
	if isSecret(text) {
		return true
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\n,;", r) }) {
		if isSecret(word) {
			return true
		}
	}
	return false
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
