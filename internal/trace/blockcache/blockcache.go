// Package blockcache keeps the blocks of prompts that a worker has seen, as prefix caches of inference engines do: all
// of them, or so many that were used last.
//
// A block is known by its hash id, which stands for the tokens of the block and for all before it. So only leading
// blocks of a prompt count as found: see [Cache.Prefix].
package blockcache

import "container/list"

// Cache is a prefix cache.
type Cache struct {
	capacity int
	place    map[uint64]*list.Element // of a block in order, nil of a cache without end
	order    list.List                // of the ids, the least recently used first
}

// New makes an empty cache of so many blocks, the least recently used going first; of 0 blocks, it keeps all of them.
func New(capacity int) *Cache { return &Cache{capacity: capacity, place: map[uint64]*list.Element{}} }

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
	for _, id := range ids {
		use, ok := c.place[id]
		switch {
		case c.capacity == 0:
			c.place[id] = nil
			continue
		case ok:
			c.order.MoveToBack(use)
			continue
		case len(c.place) == c.capacity:
			delete(c.place, c.order.Remove(c.order.Front()).(uint64))
		}
		c.place[id] = c.order.PushBack(id)
	}
}
