package resulttest

import (
	"encoding/json"
	"maps"
	"slices"
)

// odd are values that replace others: of each kind, small, large and empty.
var odd = []any{
	nil, true, -1, 0, 1, 2, int64(1) << 53, -(int64(1) << 62), 1e308, 0.5, "", "x", "\x1b]0;x\a", "=1+1", []any{},
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
	const most = 64
	for n := 0; len(script) >= 3 && n < most; n, script = n+1, script[3:] {
		places := placesOf(&doc, nil)
		places[int(script[0])%len(places)].change(script[1], script[2])
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
					double: func() { parent.put(slices.Insert(slices.Clone(v), k, element)) },
				})
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				element := v[name]
				list = append(list, place{
					value: element, put: func(x any) { v[name] = x }, remove: func() { delete(v, name) },
					double: func() { v[name+name] = element },
					rename: func(other string) { delete(v, name); v[other] = element },
				})
			}
		}
	}
	return list
}

func (p place) change(how, by byte) {
	switch how % 6 {
	case 0:
		p.remove()
	case 1:
		p.double()
	case 2:
		p.put(odd[int(by)%len(odd)])
	case 3:
		if x, ok := p.value.(float64); ok {
			p.put(x + float64(int8(by)))
		}
	case 4:
		if s, ok := p.value.(string); ok {
			p.put(s + string(rune(by)))
		}
	case 5:
		p.rename([]string{"schema", "status", "patterns", "x", "Status", "measurements"}[int(by)%6])
	}
}
