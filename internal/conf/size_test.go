package conf

import (
	"testing"
	"unsafe"
)

// Documents have millions of values.
func TestSizeOfAValue(t *testing.T) {
	const most = valueBytes - 8 /* in the list */ - 16 /* of a number that is boxed, and what a growing list leaves behind */
	if n := unsafe.Sizeof(Value{}); n > most {
		t.Errorf("a value takes %d bytes, want %d at most: valueBytes would be wrong", n, most)
	}
}
