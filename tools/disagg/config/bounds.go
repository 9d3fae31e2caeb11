package config

import (
	"fmt"
	"slices"
	"strings"

	"perigee/internal/conf"
)

// What a configuration may hold: what its values become, such as a program to find a pattern or a file for a server,
// may be far larger.
const (
	mostHeld     = 100_000  // values
	mostKey      = 1 << 10  // bytes of a key
	mostText     = 64 << 10 // bytes of a text that is no script
	mostElements = 10_000   // of a list, a map, and words of a text that is split
)

// oversized looks for the first of what a document has too much of, nil if there is none.
func oversized(tree *conf.Value) *Problem {
	held := 0
	var look func(v *conf.Value, path string) *Problem
	look = func(v *conf.Value, path string) *Problem {
		if held++; held > mostHeld {
			return &Problem{"", 1, fmt.Sprintf("wanted a configuration of at most %d values, got more", mostHeld)}
		}
		if n := len(v.Text()); n > mostText && !isScript(path) {
			return &Problem{path, v.Line, tooLong(n)}
		}
		for _, element := range v.List() {
			if p := look(element, path); p != nil {
				return p
			}
		}
		for _, name := range v.Keys() {
			if len(name) > mostKey {
				return &Problem{path, v.Get(name).Line, fmt.Sprintf("wanted keys of at most %d bytes, got %q with %d", mostKey,
					clip(name), len(name))}
			}
			if p := look(v.Get(name), strings.TrimPrefix(path+"."+name, ".")); p != nil {
				return p
			}
		}
		return nil
	}
	return look(tree, "")
}

func tooLong(bytes int) string {
	return fmt.Sprintf("wanted a text of at most %d KiB, got %d bytes", mostText>>10, bytes)
}

// isScript reports whether a key holds a script, which may be long; so may values of a sweep for it.
func isScript(path string) bool {
	path = strings.TrimPrefix(path, "sweep.")
	path = strings.TrimPrefix(strings.TrimPrefix(path, "grid."), "zip.")
	return slices.ContainsFunc(schema, func(k key) bool { return k.kind == script && k.path == path })
}

// elements is how many of them a value has, or one more than there may be.
func elements(k *key, v *conf.Value) (n int) {
	if v.Kind != conf.String {
		return v.Len()
	}
	if k.kind == assignments || k.kind == levels || k.path == "slurm.extra_args" {
		for range strings.FieldsSeq(v.Text()) {
			if n++; n > mostElements {
				break
			}
		}
	}
	return n
}
