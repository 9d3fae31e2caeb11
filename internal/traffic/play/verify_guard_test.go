package play

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// A byte that is written beside a message is found, before the first and behind the last, also where a larger plan has
// its messages, and far from messages it is not looked for.
func TestVerifyFindsBytesBesideMessages(t *testing.T) {
	small := fromRows(t, []int64{0, 100}, []int64{0, 50})
	large := fromRows(t, []int64{0, 20_000}, []int64{0, 50})
	for at, found := range map[int64]bool{-1: true, -session.Guard: true, 150: true, 149 + session.Guard: true, 150 + session.Guard: false} {
		d := &traffictest.Damaged{Lost: -9, Rank: 1, Buffer: recvBuffer, Flips: map[int64]byte{session.Guard + at: 1}}
		errs := try(t, 2, d, func(w *spmd.World, s *session.Session) error {
			if _, err := prepareOne(s, load.Pattern{Matrix: large, Shards: 1}); err != nil {
				return err
			}
			p, err := prepareOne(s, load.Pattern{Name: "kv", Matrix: small, Shards: 1})
			if err != nil {
				return err
			}
			return Verify(p)
		})
		want := fmt.Sprintf("verification failed: kv: rank 1, the memory beside what it receives: byte %d is 0x", at)
		if found != (errs[1] != nil) || found && !strings.HasPrefix(errs[1].Error(), want) {
			t.Errorf("byte %d: got %v", at, errs[1])
		}
	}
}

func TestGuards(t *testing.T) {
	const g = session.Guard
	for _, c := range []struct{ pieces, want []nixl.Desc }{
		{[]nixl.Desc{{Off: 0, Len: 10}}, []nixl.Desc{{Off: -g, Len: g}, {Off: 10, Len: g}}},
		{[]nixl.Desc{{Off: 30, Len: 5}, {Off: 10, Len: 10}, {Off: 20, Len: 5}},
			[]nixl.Desc{{Off: -g, Len: g + 10}, {Off: 25, Len: 5}, {Off: 35, Len: g}}},
		{[]nixl.Desc{{Off: 0, Len: 1}, {Off: 10 * g, Len: 1}},
			[]nixl.Desc{{Off: -g, Len: g}, {Off: 1, Len: g}, {Off: 9 * g, Len: g}, {Off: 10*g + 1, Len: g}}},
	} {
		if d := cmp.Diff(c.want, guards(c.pieces)); d != "" {
			t.Errorf("%v (-want +got):\n%s", c.pieces, d)
		}
	}
}
