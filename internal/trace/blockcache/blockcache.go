// Package blockcache keeps the blocks of prompts that a worker has seen, as prefix caches of inference engines do: all
// of them, or so many that were used last.
//
// A block is known by its hash id, which stands for the tokens of the block and for all before it. So only leading
// blocks of a prompt count as found: see [Cache.Prefix].
package blockcache

// Cache is a prefix cache. Its zero value keeps all blocks.
type Cache struct {
	capacity int
	place    map[uint64]int32 // of a block in uses
	uses     []use            // a ring of the blocks in the order of their last use, from uses[0], which is no block
}

// use is a block between the one used before it and the one used after it.
type use struct {
	id            uint64
	before, after int32
}

// New makes an empty cache of so many blocks, the least recently used going first; of 0 blocks, it keeps all of them.
func New(capacity int) *Cache { return &Cache{capacity: capacity} }

// Len is how many blocks there are.
func (c *Cache) Len() int { return len(c.place) }

// Prefix returns how many leading blocks are there. It changes nothing.
func (c *Cache) Prefix(ids []uint64) int {
	for i, id := range ids {
		if _, ok := c.place[id]; !ok {
			return i
		}
	}
	return len(ids)
}

// Touch uses blocks or inserts them, the first one first. So the tail of a prompt is the last to go, and of a prompt
// that is longer than the cache the tail stays. An inserted block takes the place of the least recently used one.
func (c *Cache) Touch(ids []uint64) {
	if c.place == nil {
		c.place, c.uses = map[uint64]int32{}, make([]use, 1)
	}
	for _, id := range ids {
		at, ok := c.place[id]
		switch {
		case ok && c.capacity == 0:
			continue // in no order, as none goes
		case ok:
			c.unlink(at)
		case c.capacity > 0 && len(c.place) == c.capacity:
			at = c.uses[0].after
			c.unlink(at)
			delete(c.place, c.uses[at].id)
		default:
			at = int32(len(c.uses))
			c.uses = append(c.uses, use{})
		}
		c.place[id] = at
		last := c.uses[0].before
		c.uses[at] = use{id: id, before: last}
		c.uses[last].after, c.uses[0].before = at, at
	}
}

// unlink takes a block out of the ring.
func (c *Cache) unlink(at int32) {
	u := c.uses[at]
	c.uses[u.before].after, c.uses[u.after].before = u.after, u.before
}
