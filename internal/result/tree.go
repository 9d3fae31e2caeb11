package result

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
)

// node is what is remembered of plain data that a journal holds: enough to see what is new in later data of the same
// place, without the data.
type node struct {
	sum   uint64           // of a single value, or of the n numbers of a list
	n     int              // elements of a list
	kind  byte             // of nodeKinds
	names map[string]*node // of a map
	list  []*node          // of a list of anything but numbers
	of    *Numbers         // of which there were n
}

// The kinds of nodes.
const (
	single  = 's'
	numbers = 'n' // a list of numbers, which may be long and only grows
	mixed   = 'l'
	mapped  = 'm'
	growing = 'g'
)

var seed = maphash.MakeSeed()

// hash is one that is not kept.
func hash(text []byte) uint64 { return maphash.Bytes(seed, text) }

// remember makes the node of data.
func remember(v any) *node {
	switch v := v.(type) {
	case map[string]any:
		n := &node{kind: mapped, names: make(map[string]*node, len(v))}
		for name, e := range v {
			n.names[name] = remember(e)
		}
		return n
	case []any:
		if all(v) {
			return &node{kind: numbers, n: len(v), sum: sumOf(v)}
		}
		n := &node{kind: mixed, n: len(v)}
		for _, e := range v {
			n.list = append(n.list, remember(e))
		}
		return n
	case *Numbers:
		return &node{kind: growing, of: v, n: len(v.list)}
	}
	return &node{kind: single, sum: sumOf([]any{v})}
}

// all reports whether a list has numbers only. One without elements has none yet.
func all(list []any) bool {
	for _, e := range list {
		switch e.(type) {
		case float64, int64, int:
		default:
			return false
		}
	}
	return true
}

// sumOf is the hash of single values.
func sumOf(list []any) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, e := range list {
		switch e := e.(type) {
		case nil, bool, string:
			fmt.Fprintf(&h, "%T %v;", e, e)
		default:
			maphash.WriteComparable(&h, e)
		}
	}
	return h.Sum64()
}

// diff notes what is new in data of a place since before, nil for none, and returns what is known then.
func (w *teller) diff(at []any, v any, before *node) *node {
	if before == nil {
		if v == nil && len(at) == 1 {
			return nil // a member that need not be there
		}
		w.changes = append(w.changes, change{At: slices.Clone(at), Set: w.encode(v)})
		return remember(v)
	}
	switch v := v.(type) {
	case map[string]any:
		if before.kind == mapped && before.within(v) {
			return w.diffMap(at, v, before)
		}
	case []any:
		if n := before.grown(w, at, v); n != nil {
			return n
		}
	case *Numbers:
		if before.of == v {
			w.add(v.list[before.n:], len(v.list)-before.n, slices.Clone(at)...)
			return remember(v)
		}
	default:
		if n := remember(v); before.kind == single && n.sum == before.sum {
			return n
		}
	}
	text := w.encode(v)
	w.old += int64(len(text))
	w.changes = append(w.changes, change{At: slices.Clone(at), Set: text})
	return remember(v)
}

// within reports whether a map still has all names that it had.
func (n *node) within(m map[string]any) bool {
	for name := range n.names {
		if _, ok := m[name]; !ok {
			return false
		}
	}
	return true
}

func (w *teller) diffMap(at []any, m map[string]any, before *node) *node {
	n := &node{kind: mapped, names: make(map[string]*node, len(m))}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		n.names[name] = w.diff(append(slices.Clone(at), name), m[name], before.names[name])
	}
	return n
}

// grown notes what a list has more than before; nil if it does not begin as it was.
func (n *node) grown(w *teller, at []any, list []any) *node {
	if len(list) < n.n {
		return nil
	}
	rest := list[n.n:]
	switch {
	case n.kind == numbers && all(list) && sumOf(list[:n.n]) == n.sum:
		w.add(rest, len(rest), slices.Clone(at)...)
		return &node{kind: numbers, n: len(list), sum: sumOf(list)}
	case n.kind == mixed:
		now := &node{kind: mixed, n: len(list)}
		for i, before := range n.list {
			now.list = append(now.list, w.diff(append(slices.Clone(at), i), list[i], before))
		}
		w.add(rest, len(rest), slices.Clone(at)...)
		for _, e := range rest {
			now.list = append(now.list, remember(e))
		}
		return now
	}
	return nil
}
