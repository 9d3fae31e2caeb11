package model

import (
	"path"
	"slices"
	"strings"

	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/value"
)

// aliases are other names of shipped models: those of NIXL's workload generator, and of models whose caches are the
// same.
var aliases = map[string]string{
	"llama-405b": "llama3.1-405b", "qwen3-30b": "qwen3-30b-a3b",
	"llama-3-3-nemotron-super-49b-v1": "llama-3.3-nemotron-super-49b-v1",
	"nemotron-3.5-lightning-30b-a3b":  "nemotron-3-nano-30b-a3b",
	"deepseek-v3.1":                   "deepseek-v3", "deepseek-v3.1-terminus": "deepseek-v3",
	"deepseek-v3.2-exp": "deepseek-v3.2", "deepseek-v3.2-speciale": "deepseek-v3.2",
	"glm-4.6": "glm-4.5", "glm-4.7": "glm-4.5", "glm-5.1": "glm-5",
	"kimi-k2.6": "kimi-k2.5", "kimi-k2.7-code": "kimi-k2.5",
	"minimax-m2": "minimax-m2.5", "minimax-m2.1": "minimax-m2.5", "minimax-m2.7": "minimax-m2.5",
	"qwen3.6-27b": "qwen3.5-27b", "qwen3.6-35b-a3b": "qwen3.5-35b-a3b", "step-3.7-flash": "step-3.5-flash",
}

// classesOnly are models whose class perigee reads, but of whose checkpoints no file was at hand. A name that begins
// with one of them means it.
var classesOnly = strings.Fields("mistral-small-4 sarvam-105b solar-open-100b hy3 hy4 glm-5.3-flash k-exaone a.x-k2")

// variants are words in the names of models that change nothing of the architecture.
var variants = strings.Fields("instruct chat base it pt hf thinking bf16 fp16 mlx unsloth meta nvidia")

var (
	// quantization matches a word for how weights are quantized, which changes nothing of the architecture, but may
	// go with another precision of the cache: fp8, AWQ, INT4, w8a8, Q4 of Q4_K_M.
	quantization = lazyre.New(`^(fp[468]|nvfp4(a16)?|mxfp[468]|nf4|u?int\d|w\d+a(fp|int)?\d+|\d(\.\d+)?(bit|bpw)|` +
		`i?q\d(f\d+)?|ud|i1|awq|gptq|gguf|ggml|bnb|exl[23]|hqq|aqlm|autoround|modelopt|torchao|qat|quant|` +
		`quantized(\.w\d+a\d+)?)$`)
	// detail matches a word that says more of a quantization before it: dynamic, v2, K and M of Q4_K_M.
	detail = lazyre.New(`^(v\d|dynamic|block|kv|dwq|ptq|qad|unquantized|gs?\d+|k|[xsml]{1,3}|nl|[01])$`)
	// date matches when a model came out. Other numbers are those of other models.
	date = lazyre.New(`^(\d{4}|\d{6}|\d{8})$`)
	// version matches the ends that a name, squeezed, may have without another architecture: a date, and the v0.1 to
	// v0.9 of Mistral's models.
	version = lazyre.New(`^(v0\.\d|\d{4}|\d{6}|\d{8})?$`)
	// size matches a size or a version in a word: 3.1, 405 of 405b, a22 of a22b, 8x7 of 8x7b.
	size = lazyre.New(`\b[ae]\d[\d.x]*|\d[\d.x]*`)
)

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

// classOnly reports whether a name is that of a model of which only the class is known.
func classOnly(name string) bool {
	given := words(path.Base(name))
	return slices.ContainsFunc(classesOnly, func(known string) bool {
		begin := words(known)
		return len(given) >= len(begin) && slices.Equal(given[:len(begin)], begin)
	})
}

// quantized reports whether a name says that the weights are quantized.
func quantized(name string) bool {
	return slices.ContainsFunc(split(path.Base(name)), quantization.MatchString)
}

// squeeze leaves only the letters, small, digits and points of a name, without what words leaves out.
func squeeze(name string) string { return strings.Join(words(name), "") }

// words are those of a name, small, without variants and quantizations.
func words(name string) (kept []string) {
	after := false // a quantization
	for _, w := range split(name) {
		after = quantization.MatchString(w) || after && detail.MatchString(w)
		if !after && !slices.Contains(variants, w) {
			kept = append(kept, w)
		}
	}
	return kept
}

func split(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_ ", r) })
}

// Suggestion is "; did you mean ...?" with the models that a name may mean: one with a letter wrong, or those that
// begin with it; "" if there are none. Models of another size or version are not meant.
func Suggestion(name string) string {
	given := words(path.Base(name))
	if undated := slices.DeleteFunc(slices.Clone(given), date.MatchString); len(sizes(undated)) > 0 {
		given = undated // of a name with a date alone that is a size
	}
	wanted := sizes(given)
	other := func(known string) bool { return !within(wanted, sizes(split(known))) }
	known := slices.DeleteFunc(Names(), other)
	spelt := slices.Clone(known)
	for alias := range aliases {
		if !other(alias) {
			spelt = append(spelt, alias)
		}
	}
	slices.Sort(spelt)
	if text := value.Suggestion(strings.Join(given, "-"), spelt); text != "" {
		return text
	}
	begin := strings.Join(given, "")
	known = slices.DeleteFunc(known, func(n string) bool { return !strings.HasPrefix(squeeze(n), begin) })
	if begin == "" || len(known) == 0 {
		return ""
	}
	return "; did you mean one of " + strings.Join(known, ", ") + "?"
}

// sizes are the sizes and versions in words, without points, which many leave out.
func sizes(words []string) (all []string) {
	for _, w := range words {
		for _, n := range size.Get().FindAllString(w, -1) {
			all = append(all, strings.ReplaceAll(n, ".", ""))
		}
	}
	return all
}

// within reports whether all of some stand in others, in the same order.
func within(some, others []string) bool {
	for _, o := range others {
		if len(some) > 0 && some[0] == o {
			some = some[1:]
		}
	}
	return len(some) == 0
}
