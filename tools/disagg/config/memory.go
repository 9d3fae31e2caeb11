package config

import (
	"reflect"
	"strings"

	"perigee/internal/conf"
	"perigee/tools/disagg/pattern"
)

// What a case, a problem beside its texts, a map and a key in it take in memory.
const (
	caseBytes    = 4 << 10
	problemBytes = 100
	mapBytes     = 600
	keyBytes     = 100
	levelBytes   = 64 // with the texts that lists of cases show
)

// memory is what a case takes beside its tree as a sweep has made it, in bytes, as estimated: what was read of the tree
// may be many times as large, as a thousand empty data sets are.
func (c *Config) memory() int {
	n := caseBytes + contents(reflect.ValueOf(c).Elem()) + levelBytes*len(c.Benchmark.Levels)
	copied := map[*conf.Value]bool{} // the maps on the way to what the environment has replaced
	for _, r := range c.Replaced {
		at := c.Tree
		for part := range strings.SplitSeq(r.Path, ".") {
			if !copied[at] {
				copied[at] = true
				n += mapBytes + keyBytes*at.Len()
			}
			at = at.Get(part)
		}
	}
	for _, problems := range [][]Problem{c.Problems, c.Warnings} {
		for _, p := range problems {
			n += problemBytes + len(p.Path) + len(p.Message)
		}
	}
	return n
}

// shared are the types of what other cases have, too, or what has a bound of its kind.
var shared = map[reflect.Type]bool{reflect.TypeFor[*conf.Value](): true, reflect.TypeFor[*pattern.Pattern](): true}

// contents is what a value takes beside itself. Texts count as nothing: they are the tree's.
func contents(v reflect.Value) int {
	n := 0
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || shared[v.Type()] {
			return 0
		}
		n = int(v.Type().Elem().Size()) + contents(v.Elem())
	case reflect.Slice:
		n = v.Cap() * int(v.Type().Elem().Size())
		if k := v.Type().Elem().Kind(); k == reflect.Struct || k == reflect.Pointer {
			for i := range v.Len() {
				n += contents(v.Index(i))
			}
		}
	case reflect.Map:
		n = mapBytes + keyBytes*v.Len()
	case reflect.Struct:
		for i := range v.NumField() {
			n += contents(v.Field(i))
		}
	}
	return n
}
