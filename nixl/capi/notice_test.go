//go:build cgo

package capi

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestInbox delivers messages in any order, and wants each once and in the order of their numbers.
func TestInbox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const epoch = 5
		count := rapid.IntRange(0, 30).Draw(t, "count")
		var order []uint64
		for i := range count {
			order = append(order, uint64(i))
		}
		order = rapid.Permutation(order).Draw(t, "order")
		box, receivable := inbox{epoch: epoch}, 0
		for _, n := range order {
			if rapid.Bool().Draw(t, "late") {
				// Of an earlier connection: dropped.
				if box.add(epoch-1, 0, []byte("old")) != 0 {
					t.Fatal("a message of an earlier connection is received")
				}
			}
			receivable += box.add(epoch, n, fmt.Append(nil, n))
		}
		if receivable != count || len(box.queue) != count || len(box.early) != 0 {
			t.Fatalf("%d and %d receivable, %d waiting; want %d", receivable, len(box.queue), len(box.early), count)
		}
		for i, message := range box.queue {
			if string(message) != fmt.Sprint(i) {
				t.Fatalf("message %d is %q", i, message)
			}
		}
		// The next connection begins with 0 again.
		if box.add(epoch+1, 1, []byte("b")) != 0 || box.add(epoch+1, 0, []byte("a")) != 2 {
			t.Fatal("the messages of a new connection are not received")
		}
	})
}
