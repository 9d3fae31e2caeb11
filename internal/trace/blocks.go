package trace

import (
	"fmt"
	"math"
	"math/bits"

	"perigee/internal/fault"
)

// blocks say how the hash ids of prompts fit their tokens.
type blocks struct {
	tokens int64 // of a hash id; 0: not known
	lines  int   // that have hash ids

	// The sizes of blocks of which ceil(tokens / size) is the number of ids in all lines; none if least > most.
	least, most int64
	// The first line of whose turn no ids could be made, and why; nil: none.
	brokenLine int
	broken     *fault.Error
}

// add takes the tokens and the number of ids of a line: ceil(tokens / size) = n holds for sizes of at least
// ceil(tokens / n) and at most floor((tokens-1) / (n-1)).
func (b *blocks) add(tokens, n int64) {
	if b.lines++; b.lines == 1 {
		b.least, b.most = 1, math.MaxInt64
	}
	switch {
	case n == 0 && tokens == 0:
	case n == 0 || tokens == 0:
		b.most = 0
	default:
		b.least = max(b.least, ceil(tokens, n))
		if n > 1 {
			b.most = min(b.most, (tokens-1)/(n-1))
		}
	}
}

func ceil(n, divisor int64) int64 { return n/divisor + min(n%divisor, 1) }

// fits is a size that fits all lines, a power of two if one does; 0: none fits.
func (b *blocks) fits() int64 {
	if b.least > b.most {
		return 0
	}
	if power := int64(1) << bits.Len64(uint64(b.least-1)); power <= b.most {
		return power
	}
	return b.least
}

func (b *blocks) hint() string {
	if size := b.fits(); size != 0 {
		return fmt.Sprintf("all lines fit --block-size %d", size)
	}
	return "no --block-size fits all lines: look for requests of several traces, or cut off ids"
}

// wrongIDs is the error of a line whose ids do not fit its tokens.
func (b *blocks) wrongIDs(size, tokens int64, ids int) *fault.Error {
	return fault.New(fault.Input, "wanted ceil(%d tokens / %d of a block) = %d hash ids, got %d tokens with %d ids", tokens,
		size, ceil(tokens, size), tokens, ids).WithHint("%s", b.hint())
}

// CheckBlocks checks that each request with hash ids has one for each blockTokens tokens of its prompt and one for the
// rest, as Mooncake's traces have. 0 takes [Trace.BlockTokens]; callers that know the size say it in [Options] too,
// since joined turns need it. name is the file's, for the error.
func (t *Trace) CheckBlocks(blockTokens int64, name string) error {
	b := &t.blocks
	switch {
	case b.lines == 0:
		return nil
	case blockTokens == 0 && t.BlockTokens == 0:
		return fault.New(fault.Usage, "%s: wanted --block-size, since its format does not say the tokens of a hash id, got "+
			"none", name).WithHint("%s", b.hint())
	case blockTokens == 0:
		blockTokens = t.BlockTokens
	}
	if b.broken != nil {
		return fault.Wrap(b.broken, "%s:%d", name, b.brokenLine)
	}
	for _, r := range t.Requests {
		if r.HashIDs != nil && int64(len(r.HashIDs)) != ceil(r.Input, blockTokens) {
			return fault.Wrap(b.wrongIDs(blockTokens, r.Input, len(r.HashIDs)), "%s:%d", name, r.Line)
		}
	}
	return nil
}
