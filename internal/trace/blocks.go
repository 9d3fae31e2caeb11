package trace

import (
	"slices"

	"perigee/internal/kit/fault"
)

func ceil(n, divisor int64) int64 { return n/divisor + min(n%divisor, 1) }

// wrongBlocks is the error of the first line whose hash ids are not one for each block of its prompt, or of all lines
// if the size of a block is not known.
func (c *collector) wrongBlocks() error {
	fits := func(a arrival, size int64) bool {
		return a.HashIDs == nil || int64(len(a.HashIDs)) == ceil(a.Input, size)
	}
	misfit := func(size int64) int {
		return slices.IndexFunc(c.arrivals, func(a arrival) bool { return !fits(a, size) })
	}
	var err *fault.Error
	switch size := c.blockTokens; {
	case c.withIDs == 0:
		return nil
	case size == 0:
		err = fault.New(fault.Usage, "%s: wanted --block-size, since its format does not say the tokens of a hash id, got none",
			c.name)
	case misfit(size) < 0:
		return nil
	default:
		a := c.arrivals[misfit(size)]
		err = fault.New(fault.Input, "%s:%d: wanted ceil(%d tokens / %d of a block) = %d hash ids, got %d tokens with %d ids",
			c.name, a.Line, a.Input, size, ceil(a.Input, size), a.Input, len(a.HashIDs))
	}
	for size := int64(1); size <= maxBlock; size *= 2 {
		if misfit(size) < 0 {
			return err.WithHint("all lines fit --block-size %d", size)
		}
	}
	return err.WithHint("no power of two as --block-size fits all lines: look for requests of several traces, or cut off ids")
}

// CheckBlocks checks that each request with hash ids has one for each [Trace.BlockTokens] tokens of its prompt and one
// for the rest, as Mooncake's traces have.
func (t *Trace) CheckBlocks() error { return t.wrongBlocks }
