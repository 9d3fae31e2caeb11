package model

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// variants are words in the names of models that change nothing of the
// architecture.
var variants = []string{"instruct", "chat", "base", "it", "hf", "thinking", "fp8", "bf16"}

// version is what may follow a name, squeezed, without another architecture:
// v0.1, 3.1's last digit, a date.
var version = regexp.MustCompile(`^(v?\d+)?$`)

// Similar returns the shipped model that a name from elsewhere means, such as
// meta-llama/Llama-3.1-8B-Instruct.
func Similar(name string) (shipped string, ok bool) {
	given := squeeze(path.Base(name))
	for _, n := range Names() {
		rest, fits := strings.CutPrefix(given, squeeze(n))
		if fits && version.MatchString(rest) && len(n) > len(shipped) {
			shipped = n
		}
	}
	return shipped, shipped != ""
}

// squeeze leaves only the letters, small, and digits of a name, without the
// words of variants.
func squeeze(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_. ", r) })
	words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains(variants, w) })
	return strings.Join(words, "")
}
