package heap

import (
	"runtime/debug"
	"testing"
)

func TestLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	check := func(want int64) {
		t.Helper()
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("the limit is %d, want %d", got, want)
		}
	}
	large, small, again := Limit(8<<30), Limit(4<<30), Limit(4<<30)
	check(4 << 30)
	small()
	small() // no other one's
	check(4 << 30)
	again()
	check(8 << 30)
	large()
	check(before)
}
