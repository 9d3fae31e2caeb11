package fuzztest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"go.yaml.in/yaml/v4"
)

// RunDocuments fuzzes check with texts, and with documents that are edited as [Edit] does: the first byte of an input
// chooses one. The documents are YAML or JSON; what is checked is JSON, which readers of YAML take too.
func RunDocuments[T string | []byte](f *testing.F, documents []string, check func(t *testing.T, text T)) {
	var texts [][]byte
	for _, d := range documents {
		var v any
		if err := yaml.Unmarshal([]byte(d), &v); err != nil {
			f.Fatal(err)
		}
		if text, err := json.Marshal(v); err == nil { // not with an infinite number
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		f.Fatal("there is no document")
	}
	f.Add(T([]byte{0, 9, 0, 0, 30, 1, 0, 40, 2, 3, 50, 3, 200}))
	f.Fuzz(func(t *testing.T, text T) {
		check(t, text)
		each([]byte(text), documentVariants, func(script []byte) {
			if len(script) > 0 {
				check(t, T(Edit(texts[int(script[0])%len(texts)], script[1:])))
			}
		})
	})
}

// odd are values that replace others: of each kind, small, large and empty.
var odd = []any{
	nil, true, -1, 0, 1, 2, 3, 7, 16, int64(1) << 53, -(int64(1) << 62), 1e308, 0.5, "", "x", "\x1b]0;x\a", "=1+1",
	[]any{},
	[]any{nil}, []any{[]any{1, 0, 5}}, map[string]any{}, map[string]any{"a": 1},
}

// Edit changes a JSON text as a fuzz target's bytes say, three for each change: which value, how, and by what. What
// comes out is JSON again, so that a fuzzer gets beyond the grammar: into what readers make of values that nothing
// has written.
func Edit(text, script []byte) []byte {
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		return text
	}
	const most, mostPlaces = 64, 1 << 12 // lists that are repeated again and again grow fast
	names := namesIn(doc, nil)
	for n := 0; len(script) >= 3 && n < most; n, script = n+1, script[3:] {
		places := placesOf(&doc, nil)
		if len(places) > mostPlaces {
			break
		}
		places[int(script[0])%len(places)].change(script[1], script[2], names)
	}
	edited, err := json.Marshal(doc)
	if err != nil {
		return text
	}
	return edited
}

// place is where a value stands, and how another one gets there.
type place struct {
	value  any
	put    func(any)
	remove func()
	double func()
	rename func(string)
}

// placesOf lists all values in a document, outer ones first.
func placesOf(doc *any, list []place) []place {
	nothing := func() {}
	list = append(list, place{*doc, func(v any) { *doc = v }, nothing, nothing, func(string) {}})
	for i := 0; i < len(list); i++ {
		parent := list[i]
		switch v := parent.value.(type) {
		case []any:
			for k, element := range v {
				list = append(list, place{
					value: element, put: func(x any) { v[k] = x }, rename: func(string) {},
					remove: func() { parent.put(slices.Delete(slices.Clone(v), k, k+1)) },
					double: func() { parent.put(slices.Insert(slices.Clone(v), k, copyOf(element))) },
				})
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				element := v[name]
				list = append(list, place{
					value: element, put: func(x any) { v[name] = x }, remove: func() { delete(v, name) },
					double: func() { v[name+"2"] = copyOf(element) },
					rename: func(other string) { delete(v, name); v[other] = element },
				})
			}
		}
	}
	return list
}

// copyOf copies a value with what it holds, as a JSON text would: changes of the one are none of the other.
func copyOf(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = copyOf(element)
		}
		return list
	case map[string]any:
		m := map[string]any{}
		for name, element := range v {
			m[name] = copyOf(element)
		}
		return m
	case int:
		return float64(v)
	case int64:
		return float64(v)
	}
	return v
}

// namesIn lists the names in a document.
func namesIn(doc any, names []string) []string {
	switch v := doc.(type) {
	case []any:
		for _, element := range v {
			names = namesIn(element, names)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			names = namesIn(v[name], append(names, name))
		}
	}
	return names
}

func (p place) change(how, by byte, names []string) {
	switch how % 6 {
	case 0:
		p.remove()
	case 1:
		p.double()
	case 2:
		p.put(copyOf(odd[int(by)%len(odd)]))
	case 3:
		if x, ok := p.value.(float64); ok {
			p.put(x + float64(int8(by)))
		}
	case 4:
		if s, ok := p.value.(string); ok {
			p.put(s + string(rune(by)))
		}
	case 5:
		if len(names) > 0 {
			p.rename(names[int(by)%len(names)])
		}
	}
}
