package vm

import (
	"fmt"
	"math/rand/v2"

	glua "github.com/yuin/gopher-lua"
)

// generator is what math.random draws from.
type generator struct{ *rand.Rand }

func (g *generator) seed(n uint64) { g.Rand = rand.New(rand.NewPCG(n, 0)) }

// openRandom replaces math.random by one that gives the same numbers at all
// ranks and in every run with the same --seed.
func openRandom(L *glua.LState) *generator {
	g := new(generator)
	g.seed(0)
	mathTable := L.GetGlobal(glua.MathLibName).(*glua.LTable)
	mathTable.RawSetString("random", L.NewFunction(func(L *glua.LState) int {
		switch L.GetTop() {
		case 0:
			L.Push(glua.LNumber(g.Float64()))
		case 1:
			L.Push(g.pick(L, 1, bound(L, 1)))
		default:
			L.Push(g.pick(L, bound(L, 1), bound(L, 2)))
		}
		return 1
	}))
	mathTable.RawSetString("randomseed", L.NewFunction(func(L *glua.LState) int {
		g.seed(uint64(L.CheckInt64(1)))
		return 0
	}))
	return g
}

// bound is a bound of math.random, without its fraction.
func bound(L *glua.LState, arg int) int64 {
	n := float64(L.CheckNumber(arg))
	if !(-ExactBelow <= n && n <= ExactBelow) {
		L.ArgError(arg, fmt.Sprintf("wanted a number from -2^53 to 2^53, got %v", n))
	}
	return int64(n)
}

// pick draws from low to high.
func (g *generator) pick(L *glua.LState, low, high int64) glua.LNumber {
	if high < low {
		L.RaiseError("random: the interval from %d to %d is empty", low, high)
	}
	return glua.LNumber(low + g.Int64N(high-low+1))
}
