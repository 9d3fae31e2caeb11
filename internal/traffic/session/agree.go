package session

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"perigee/internal/fault"
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

func digest(loads []load.Load) [sha256.Size]byte {
	h := sha256.New()
	for _, d := range loads {
		fmt.Fprintf(h, "%q\n", d.Digest())
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
		leading, other, rank, err := firstDifferent(s.world, d.Digest())
		if err != nil {
			return err
		}
		if rank >= 0 {
			return fault.New(fault.Script, "prepare: %s (number %d) differs between ranks: rank 0 has %s, rank %d has %s",
				d.Label(), i+1, brief(leading), rank, brief(other)).WithHint(sameEverywhere)
		}
	}
	return fault.New(fault.Script, "prepare: the ranks hold different loads").WithHint(sameEverywhere)
}

const sameEverywhere = "every rank must prepare the same traffic: build matrices and options from values that are equal on all ranks"

// brief shortens a digest for people.
func brief(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
