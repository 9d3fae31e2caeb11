package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"perigee/internal/kit/fault"
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
	delay := field{"delay", valueText(c.object["delay"])}
	if delay.text == "" {
		delay = field{"delay_ms", valueText(c.object["delay_ms"])}
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
// A joined prompt begins with the full blocks of the turn before. Its other blocks get new ids: no other session has
// the same output before them.
func (c *collector) joinTurns() (note string, err error) {
	whole, of := c.wholePrompts()
	note = fmt.Sprintf("turns that begin with the turn before: %d of %d, so ", whole, of)
	if 2*whole >= of {
		return note + "every line has the whole prompt", nil
	}
	for turn := range c.arrivals {
		before, later := c.before[turn]
		if !later {
			continue
		}
		r, last := &c.arrivals[turn].Request, &c.arrivals[before].Request
		if r.Input += last.Input + last.Output; r.Input > maxPrompt {
			return "", fault.New(fault.Input, "%s:%d: wanted at most %d tokens in the prompt with the turns before, got %d", c.name,
				r.Line, maxPrompt, r.Input)
		}
		if last.HashIDs == nil || r.HashIDs == nil || c.blockTokens == 0 {
			r.HashIDs = nil
			continue
		}
		full := min(int(last.Input/c.blockTokens), len(last.HashIDs))
		r.HashIDs = slices.Clone(last.HashIDs[:full])
		for block := full; block < int(ceil(r.Input, c.blockTokens)); block++ {
			sum := sha256.Sum256(fmt.Append(nil, r.Line, block))
			r.HashIDs = append(r.HashIDs, binary.BigEndian.Uint64(sum[:]))
		}
	}
	return note + "lines have only new tokens, here joined with the prompts and outputs of the turns before", nil
}

// wholePrompts counts the later turns that begin with the turn before, and those of which that is known.
func (c *collector) wholePrompts() (whole, of int) {
	var byLength int
	for turn, before := range c.before {
		r, last := &c.arrivals[turn].Request, &c.arrivals[before].Request
		if r.Input >= last.Input+last.Output {
			byLength++
		}
		if len(r.HashIDs) > 0 && len(last.HashIDs) > 0 && last.Input >= c.blockTokens {
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
