package play

import (
	"cmp"
	"slices"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/nixl"
)

// guards returns the pieces of receive memory, at most session.Guard bytes long, that lie before and behind those of
// messages. Nothing belongs there. Offsets are as in pieces, so that the first may be negative.
func guards(pieces []nixl.Desc) (list []nixl.Desc) {
	slices.SortFunc(pieces, func(a, b nixl.Desc) int { return cmp.Compare(a.Off, b.Off) })
	free := int64(-session.Guard) // from here on
	if len(pieces) > 0 && pieces[0].Off > 2*session.Guard {
		free = pieces[0].Off - session.Guard // what lies farther in front may be another plan's
	}
	for _, p := range pieces {
		if gap := p.Off - free; gap > 2*session.Guard {
			list = append(list, nixl.Desc{Off: free, Len: session.Guard},
				nixl.Desc{Off: p.Off - session.Guard, Len: session.Guard})
		} else if gap > 0 {
			list = append(list, nixl.Desc{Off: free, Len: gap})
		}
		free = max(free, p.Off+p.Len)
	}
	return append(list, nixl.Desc{Off: free, Len: session.Guard})
}

// eachGuard calls f for all guards of this rank, with the bytes that belong there and room for as many.
func (c *check) eachGuard(f func(buffer nixl.Buffer, at int64, want, room []byte) error) error {
	me := c.Session().World().Rank()
	key := newStream(c.Session().Seed(), c.Number, -1, me, c.round)
	var want, room [2 * session.Guard]byte
	for _, b := range c.Reserved.Lanes {
		if b.Lane == nil {
			continue
		}
		_, received := c.Messages(me, b.Number)
		pieces := map[load.Place][]nixl.Desc{}
		for _, m := range received {
			if m.Mem != nixl.FILE {
				pieces[m.Place] = append(pieces[m.Place], m.Pieces...)
			}
		}
		for place, list := range pieces {
			buffer, from := b.Buffer(place)
			for _, g := range guards(list) {
				key.Fill(want[:g.Len], g.Off+session.Guard, false)
				if err := f(buffer, from+g.Off, want[:g.Len], room[:g.Len]); err != nil {
					return fault.New(fault.Engine, "guard %s for %s: %w", place.Mem, c.Label(), err)
				}
			}
		}
	}
	return nil
}

// compareGuards returns nil if all guards are as Fill left them.
func (c *check) compareGuards() (found *Corruption, err error) {
	me := c.Session().World().Rank()
	err = c.eachGuard(func(buffer nixl.Buffer, at int64, want, got []byte) error {
		if _, err := buffer.ReadAt(got, at); err != nil {
			return err
		}
		wrong, first := differ(want, got)
		if wrong == 0 {
			return nil
		}
		if found == nil {
			found = &Corruption{
				Label: c.Label(), Sender: me, Receiver: me, Where: around, Block: -1,
				Offset: at - session.Guard + int64(first), Want: want[first], Got: got[first],
			}
		}
		found.WrongBytes += wrong
		return nil
	})
	return found, err
}
