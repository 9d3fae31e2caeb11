package model

import (
	"path"
	"slices"
	"strings"

	"perigee/internal/lazyre"
)

// aliases are other names of shipped models: those of NIXL's workload generator, and of models whose caches are the
// same.
var aliases = map[string]string{
	"llama-405b": "llama3.1-405b", "qwen3-30b": "qwen3-30b-a3b",
	"llama-3-3-nemotron-super-49b-v1": "llama-3.3-nemotron-super-49b-v1",
	"deepseek-v3.1":                   "deepseek-v3", "deepseek-v3.2-exp": "deepseek-v3.2", "glm-5.1": "glm-5",
	"kimi-k2.6": "kimi-k2.5", "kimi-k2.7-code": "kimi-k2.5", "minimax-m2.7": "minimax-m2.5",
	"qwen3.6-27b": "qwen3.5-27b", "qwen3.6-35b-a3b": "qwen3.5-35b-a3b", "step-3.7-flash": "step-3.5-flash",
}

// variants are words in the names of models that change nothing of the architecture.
var variants = strings.Fields("instruct chat base it hf thinking fp8 bf16 nvfp4 awq meta nvidia")

// version matches the ends that a name, squeezed, may have without another architecture: a date of four to eight
// digits, and the v0.1 to v0.9 of Mistral's models. Other numbers are those of other models.
var version = lazyre.New(`^(v0\.\d|\d{4}|\d{6}|\d{8})?$`)

// Similar returns the shipped model that a name from elsewhere means, such as meta-llama/Llama-3.1-8B-Instruct.
func Similar(name string) (shipped string, ok bool) {
	given, longest := squeeze(path.Base(name)), 0
	try := func(known, means string) {
		rest, fits := strings.CutPrefix(given, squeeze(known))
		if fits && version.MatchString(rest) && len(known) > longest {
			shipped, longest = means, len(known)
		}
	}
	for _, n := range Names() {
		try(n, n)
	}
	for alias, means := range aliases {
		try(alias, means)
	}
	return shipped, shipped != ""
}

// squeeze leaves only the letters, small, digits and points of a name, without the words of variants.
func squeeze(name string) string { return strings.Join(words(name), "") }

// words are those of a name, small, without those of variants.
func words(name string) []string {
	all := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_ ", r) })
	return slices.DeleteFunc(all, func(w string) bool { return slices.Contains(variants, w) })
}
