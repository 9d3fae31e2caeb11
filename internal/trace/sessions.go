package trace

import (
	"fmt"
	"math"

	"perigee/internal/cli"
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
		if err == nil && later && s.before(c.stamps[before]) {
			err = fault.New(fault.Input, "%s: wanted at least that of the turn before, in line %d, got %s", at.name,
				c.requests[before].Line, short(at.text)).WithHint("sort the turns of each session by their timestamps")
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
	turn := len(c.requests) - 1
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
	s := c.stamps[before].plus(d)
	switch {
	case !ok || d.whole < 0 || s.before(c.stamps[before]):
		return s, fault.New(fault.Input, "%s: wanted milliseconds from 0 that fit, got %s", delay.name, short(delay.text))
	case c.dates:
		return s, fault.New(fault.Input, "%s: wanted it with timestamps in milliseconds, got it with dates", delay.name)
	}
	c.format, c.last = sessions, short(delay.text)+" ms of delay"
	c.delays++
	return s, nil
}

// joinTurns makes whole prompts of turns that hold only what is new, as Dynamo's mooncake-delta has them: the prompt of
// the turn before, its output, and the tokens of the line. The files do not say whether they are such. They are not if
// most turns begin with the first block of the turn before or, where no prompt has a whole block, have at least as many
// tokens as the turn before and its output. It returns a note on which it is.
//
// Blocks of a joined prompt that are not a block of a line get an id of their own. They are the same for the same
// tokens after the same blocks.
func (c *collector) joinTurns() (note string, err error) {
	whole, of := c.wholePrompts()
	if turns := cli.Count(of, "turn"); 2*whole >= of {
		return fmt.Sprintf("%d of %s begin with the turn before, so every line has the whole prompt", whole, turns), nil
	} else {
		note = fmt.Sprintf("%d of %s begin with the turn before, so lines have only new tokens, here joined with the "+
			"prompts and outputs of the turns before", whole, turns)
	}
	c.blocks.turns = true
	made := newMint(c.requests, c.blocks.tokens)
	prompts := make(map[int][]piece) // of the last turn of each session
	for turn := range c.requests {
		before, later := c.before[turn]
		if !later {
			continue
		}
		r, last := &c.requests[turn], &c.requests[before]
		prompt, known := prompts[before], last.HashIDs != nil && r.HashIDs != nil
		delete(prompts, before)
		if prompt == nil {
			prompt = c.pieces(last, known)
		}
		prompt = append(prompt, piece{id: uint64(before), output: true, n: last.Output})
		prompt = append(prompt, c.pieces(r, known)...)
		if r.Input += last.Input + last.Output; r.Input > maxPrompt {
			c.line = r.Line
			return "", fault.New(fault.Input, "wanted at most %d tokens in the prompt with the turns before, got %d", maxPrompt,
				r.Input)
		}
		r.HashIDs = nil
		if known && c.blocks.broken == nil {
			r.HashIDs, prompts[turn] = made.ids(prompt), prompt
		}
	}
	return note, nil
}

// wholePrompts counts the later turns that begin with the turn before, and those of which that is known.
func (c *collector) wholePrompts() (whole, of int) {
	var byLength int
	for turn, before := range c.before {
		r, last := &c.requests[turn], &c.requests[before]
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

// mint makes ids that no line has.
type mint struct {
	size  int64
	taken map[uint64]bool
	made  map[string]uint64
	next  uint64
}

func newMint(requests []Request, size int64) *mint {
	m := &mint{size: size, taken: make(map[uint64]bool), made: make(map[string]uint64), next: math.MaxUint64}
	for _, r := range requests {
		for _, id := range r.HashIDs {
			m.taken[id] = true
		}
	}
	return m
}

// ids cuts a prompt into blocks.
func (m *mint) ids(prompt []piece) (ids []uint64) {
	var block []piece
	room, parent := m.size, uint64(0)
	end := func() {
		parent = m.id(parent, block)
		ids, block, room = append(ids, parent), block[:0], m.size
	}
	for _, p := range prompt {
		for p.n > 0 {
			n := min(p.n, room)
			block = append(block, piece{p.id, p.output, p.from, n})
			p.from, p.n, room = p.from+n, p.n-n, room-n
			if room == 0 {
				end()
			}
		}
	}
	if len(block) > 0 {
		end()
	}
	return ids
}

// id is that of the line where the block is one of a line.
func (m *mint) id(parent uint64, block []piece) uint64 {
	if p := block[0]; len(block) == 1 && !p.output && p.from == 0 {
		return p.id
	}
	key := fmt.Sprint(parent, block)
	id, ok := m.made[key]
	if !ok {
		for m.taken[m.next] {
			m.next--
		}
		id = m.next
		m.made[key] = id
		m.next--
	}
	return id
}
