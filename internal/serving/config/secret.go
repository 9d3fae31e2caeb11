package config

import (
	"slices"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/secret"
)

// mask stands for the value of a variable that looks secret.
const mask = "***"

// Masked returns a configuration without the values of keys and variables that look secret by their names, and without
// users and passwords in addresses. The commands of job stay otherwise as they are. A sweep holds values for any key,
// so it is left out.
func Masked(tree *conf.Value) (*conf.Value, error) {
	if tree.Kind != conf.Map {
		return conf.FromPlain(tree.File, mask)
	}
	return tree.Without("sweep").MapScalars(func(path []string, v *conf.Value) any {
		k := table.find(strings.Join(path, "."))
		switch {
		case v.Kind == conf.Null || isFigure(tree, path, v):
			return v
		case k == nil && slices.ContainsFunc(path, secret.Variable):
			return mask
		case v.Kind != conf.String:
			return v
		case k != nil && isScript(k):
			return secret.Addresses(v.Text())
		}
		return secret.Mask(v.Text(), mask)
	}), nil
}

func isScript(k *key) bool {
	_, is := k.to.(script)
	return is
}

// isFigure reports whether a value is a number of a reference, which has the name of a metric: TOKEN_RATE.
func isFigure(tree *conf.Value, path []string, v *conf.Value) bool {
	isNumber := v.Kind == conf.Int || v.Kind == conf.Float
	return isNumber && len(path) == 3 && path[0] == "metadata" && path[1] == "references" &&
		tree.Get("metadata").Get("references").Get(path[2]).Kind == conf.List
}
