package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/spmd"
)

// agree fails at all ranks if two ranks hold different loads. Offsets, sizes and
// peers follow from the loads, so such ranks would write over each other's bytes.
func (s *Session) agree(loads []load.Load) error {
	mine := digest(loads)
	number := int64(binary.LittleEndian.Uint64(mine[:]) >> 12) // exact in every number format
	got, err := spmd.AllReduce(s.world.All(), []int64{number, -number}, spmd.Min)
	if err != nil || got[0] == -got[1] {
		return err
	}
	return s.different(loads)
}

// digest is the same for equal lists of loads only: the length of each load's digest goes before it.
func digest(loads []load.Load) [sha256.Size]byte {
	h := sha256.New()
	var b []byte
	for _, d := range loads {
		b = d.Digest(append(b[:0], make([]byte, 8)...))
		binary.LittleEndian.PutUint64(b, uint64(len(b)))
		h.Write(b)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// different words the first difference.
func (s *Session) different(loads []load.Load) error {
	counts, err := spmd.AllGatherValue(s.world.All(), len(loads))
	if err != nil {
		return err
	}
	for rank, n := range counts {
		if n != counts[0] {
			return fault.New(fault.Script, "prepare: rank 0 has %d loads, rank %d has %d", counts[0], rank, n).
				WithHint(sameEverywhere)
		}
	}
	for i, d := range loads {
		leading, other, rank, err := FirstDifferent(s.world, brief(d))
		if err != nil {
			return err
		}
		if rank >= 0 {
			return fault.New(fault.Script, "prepare: %s (number %d) differs between ranks: rank 0 has %s, rank %d has %s",
				d.Label(), i+1, leading, rank, other).WithHint(sameEverywhere)
		}
	}
	return fault.New(fault.Script, "prepare: the ranks hold different loads").WithHint(sameEverywhere)
}

const sameEverywhere = "every rank must prepare the same traffic: build matrices and options from values that are equal on all ranks"

// brief is a load's digest for people.
func brief(d load.Load) string {
	const most = 120
	b := d.Digest(nil)
	words, _, _ := bytes.Cut(b, []byte{0})
	more := ""
	if len(words) > most {
		words, more = words[:most], "..."
	}
	return fmt.Sprintf("%s%s (%.8x)", words, more, sha256.Sum256(b))
}
