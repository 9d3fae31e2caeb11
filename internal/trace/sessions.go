package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"perigee/internal/fault"
)

// maxPrompt is how many tokens a turn may have with those before it: no model takes as many.
const maxPrompt = 1 << 24

// addTurn takes a line with a session_id. Later turns may have a delay in place of a timestamp.
func (c *collector) addTurn(session string, values [contents]field, ids []uint64) error {
	before, later := c.sessions[session]
	var s stamp
	var err error
	switch at := values[timestamps]; {
	case at.text == "" && !later:
		return fault.New(fault.Input, "the key %s is missing: the first turn of a session wants it", at.name)
	case at.text == "":
		s, err = c.delayed(before)
	default:
		s, err = c.stamp(at)
		if err == nil && later && s.before(c.arrivals[before].at) {
			err = fault.New(fault.Input, "%s: wanted at least that of the turn before, in line %d, got %s", at.name,
				c.arrivals[before].Line, short(at.text)).WithHint("sort the turns of each session by their timestamps")
		}
	}
	if err != nil {
		return err
	}
	if err := c.addAt(s, values[inputs], values[outputs], ids); err != nil {
		return err
	}
	if c.sessions == nil {
		c.sessions, c.before = make(map[string]int), make(map[int]int)
	}
	turn := len(c.arrivals) - 1
	if c.sessions[session] = turn; later {
		c.before[turn] = before
	}
	return nil
}

// delayed is the time of a turn that has a delay after another.
func (c *collector) delayed(before int) (stamp, error) {
	delay := field{"delay", value(c.object["delay"])}
	if delay.text == "" {
		delay = field{"delay_ms", value(c.object["delay_ms"])}
	}
	if delay.text == "" {
		return stamp{}, fault.New(fault.Input, "the keys %s and delay are missing: wanted one of them", c.keys[timestamps])
	}
	d, ok := parseNumber(delay.text)
	s := c.arrivals[before].at.plus(d)
	switch {
	case !ok || d.whole < 0 || s.before(c.arrivals[before].at):
		return s, fault.New(fault.Input, "%s: wanted milliseconds from 0 that fit, got %s", delay.name, short(delay.text))
	case c.dates:
		return s, fault.New(fault.Input, "%s: wanted it with timestamps in milliseconds, got it with dates", delay.name)
	}
	c.format = sessions
	c.delays++
	return s, nil
}

// joinTurns makes whole prompts of turns that hold only what is new, as Dynamo's mooncake-delta has them: the prompt of
// the turn before, its output, and the tokens of the line. The files do not say whether they are such. They are not if
// most turns begin with the first block of the turn before or, where no prompt has a whole block, have at least as many
// tokens as the turn before and its output. It returns a note on which it is.
//
// Blocks of a joined prompt that are not a block of a line get new ids, the same for the same tokens after the same
// blocks.
func (c *collector) joinTurns() (note string, err error) {
	whole, of := c.wholePrompts()
	note = fmt.Sprintf("turns that begin with the turn before: %d of %d, so ", whole, of)
	if 2*whole >= of {
		return note + "every line has the whole prompt", nil
	}
	note += "lines have only new tokens, here joined with the prompts and outputs of the turns before"
	size := c.blocks.tokens
	prompts := make(map[int]*prompt) // of the last turn of each session
	for turn := range c.arrivals {
		before, later := c.before[turn]
		if !later {
			continue
		}
		r, last := &c.arrivals[turn].Request, &c.arrivals[before].Request
		tokens := last.Input + last.Output + r.Input
		if tokens > maxPrompt {
			c.line = r.Line
			return "", fault.New(fault.Input, "wanted at most %d tokens in the prompt with the turns before, got %d", maxPrompt,
				tokens)
		}
		known := last.HashIDs != nil && r.HashIDs != nil
		p := prompts[before]
		if p == nil {
			p = new(prompt)
			p.add(size, c.pieces(last, known)...)
		}
		p.add(size, piece{id: uint64(before), output: true, n: last.Output})
		p.add(size, c.pieces(r, known)...)
		r.Input, r.HashIDs = tokens, nil
		if known && c.blocks.broken == nil {
			r.HashIDs, prompts[turn] = slices.Clone(p.all()), p
		}
	}
	return note, nil
}

// wholePrompts counts the later turns that begin with the turn before, and those of which that is known.
func (c *collector) wholePrompts() (whole, of int) {
	var byLength int
	for turn, before := range c.before {
		r, last := &c.arrivals[turn].Request, &c.arrivals[before].Request
		if r.Input >= last.Input+last.Output {
			byLength++
		}
		if len(r.HashIDs) > 0 && len(last.HashIDs) > 0 && last.Input >= c.blocks.tokens {
			if of++; r.HashIDs[0] == last.HashIDs[0] {
				whole++
			}
		}
	}
	if of == 0 {
		return byLength, len(c.before)
	}
	return whole, of
}

// piece is a run of tokens of a prompt: n of a block from token from on, or of the output of a request.
type piece struct {
	id      uint64 // of the block, or index of the request
	output  bool
	from, n int64
}

// pieces are the blocks of a line. The first line whose ids do not fit its tokens is kept for CheckBlocks.
func (c *collector) pieces(r *Request, known bool) []piece {
	size := c.blocks.tokens
	if !known {
		return nil
	}
	if int64(len(r.HashIDs)) != ceil(r.Input, size) {
		if c.blocks.broken == nil {
			c.blocks.broken, c.blocks.brokenLine = c.blocks.wrongIDs(size, r.Input, len(r.HashIDs)), r.Line
		}
		return nil
	}
	list := make([]piece, len(r.HashIDs))
	for i, id := range r.HashIDs {
		list[i] = piece{id: id, n: min(size, r.Input-int64(i)*size)}
	}
	return list
}

// prompt is one in blocks.
type prompt struct {
	ids  []uint64 // of whole blocks
	rest []piece  // after them
	room int64    // that the rest leaves in its block
}

// add appends tokens.
func (p *prompt) add(size int64, more ...piece) {
	for _, m := range more {
		for m.n > 0 {
			if p.room == 0 {
				p.rest, p.room = nil, size
			}
			n := min(m.n, p.room)
			p.rest = append(p.rest, piece{m.id, m.output, m.from, n})
			m.from, m.n, p.room = m.from+n, m.n-n, p.room-n
			if p.room == 0 {
				p.ids, p.rest = p.all(), nil
			}
		}
	}
}

// all returns the ids of all blocks.
func (p *prompt) all() []uint64 {
	if len(p.rest) == 0 {
		return p.ids
	}
	parent := uint64(0)
	if n := len(p.ids); n > 0 {
		parent = p.ids[n-1]
	}
	return append(p.ids, blockID(parent, p.rest))
}

// blockID is the id of the line where the block is one of a line, otherwise the first 64 bits of a SHA-256.
func blockID(parent uint64, block []piece) uint64 {
	if p := block[0]; len(block) == 1 && !p.output && p.from == 0 {
		return p.id
	}
	sum := sha256.Sum256(fmt.Append(nil, parent, block))
	return binary.BigEndian.Uint64(sum[:])
}
