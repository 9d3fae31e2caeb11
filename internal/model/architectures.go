package model

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/lazyre"
)

// This file finds the family of a config.json that lacks model_type by the class that architectures names.

// classEnd is what follows the family in the name of a class: LongcatFlashForCausalLM, ChatGLMModel.
var classEnd = lazyre.New(`(For[A-Z]\w*|LMHeadModel|Model)$`)

// otherClasses are the families of classes with another name than theirs, which is in small letters here.
var otherClasses = map[string]string{"decilm": "nemotron-nas", "rw": "refinedweb", "minimaxm3sparse": "minimax_m3"}

// withoutHyphens makes the name of a class, in small letters, and that of its family the same.
var withoutHyphens = strings.NewReplacer("_", "", "-", "")

// byClass are all families that have their own rules or defaults, by the name of their class. Families whose caches are
// refused are among them.
var byClass = sync.OnceValue(func() map[string]string {
	names := slices.Concat(slices.Collect(maps.Keys(families)), slices.Collect(maps.Keys(defaults)), newer, notServed)
	slices.Sort(names) // minimaxtext01 and minimax_text_01 have the same class
	classes := maps.Clone(otherClasses)
	for _, name := range append(names, "phi4flash") {
		classes[withoutHyphens.Replace(name)] = name
	}
	return classes
})

// familyOfClass returns the family of the first class of architectures that perigee knows; empty: it knows none.
func familyOfClass(architectures *conf.Value) string {
	for _, v := range architectures.List() {
		class := strings.TrimSuffix(v.Text(), classEnd.FindString(v.Text()))
		if family := byClass()[withoutHyphens.Replace(strings.ToLower(class))]; family != "" {
			return family
		}
	}
	return ""
}
