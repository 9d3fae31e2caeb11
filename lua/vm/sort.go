package vm

import (
	"sort"

	glua "github.com/yuin/gopher-lua"
)

// tableSort is table.sort(list, less). The interpreter's takes nils behind the last element for elements, and says
// nothing of an order in which two elements are each before the other, which leaves the list in any.
func tableSort(L *glua.LState) int {
	t := L.CheckTable(1)
	s := &sorter{L: L, list: make([]glua.LValue, t.Len())}
	if L.Get(2) != glua.LNil {
		s.less = L.CheckFunction(2)
	}
	for i := range s.list {
		s.list[i] = t.RawGetInt(i + 1)
	}
	sort.Sort(s)
	for i := 1; i < len(s.list); i++ {
		if s.Less(i, i-1) {
			L.RaiseError("invalid order function for sorting: it must return true where the first is before the second, not where they are equal")
		}
	}
	for i, v := range s.list {
		t.RawSetInt(i+1, v)
	}
	return 0
}

// sorter sorts values of Lua by <, or by a function of the script.
type sorter struct {
	L    *glua.LState
	list []glua.LValue
	less *glua.LFunction // nil for <
}

func (s *sorter) Len() int { return len(s.list) }

func (s *sorter) Swap(i, j int) { s.list[i], s.list[j] = s.list[j], s.list[i] }

func (s *sorter) Less(i, j int) bool {
	if s.less == nil {
		return s.L.LessThan(s.list[i], s.list[j])
	}
	push(s.L, s.less, s.list[i], s.list[j])
	s.L.Call(2, 1)
	less := glua.LVAsBool(s.L.Get(-1))
	s.L.Pop(1)
	return less
}
