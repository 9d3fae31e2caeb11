package spmd

import "context"

// Data goes to and from the root of a group along a binary tree whose every
// subtree is a row of consecutive members: the first of a row is the parent of
// the first of either half of the others. With ranks placed host by host most of
// it stays inside a host. No member sends more than two copies of what is
// broadcast, and none is more than log2 of the members away from the root.

// branch is a member's place in the tree.
type branch struct {
	parent   int // -1 at the root
	children []int
}

// branchOf finds the place of member me of n. The root is member 0.
func branchOf(n, me int) branch {
	b := branch{parent: -1}
	low, high := 0, n
	for me != low {
		b.parent = low
		if half := middle(low+1, high); me < half {
			low, high = low+1, half
		} else {
			low = half
		}
	}
	if low+1 < high {
		b.children = append(b.children, low+1)
		if half := middle(low+1, high); half < high {
			b.children = append(b.children, half)
		}
	}
	return b
}

// middle is where the second half of a row begins; the first is never shorter.
func middle(low, high int) int { return low + (high-low+1)/2 }

// branch is this member's place in the tree with some root, in places of the group.
func (g *Group) branch(root int) branch {
	n := len(g.ranks)
	b := branchOf(n, (g.me-root+n)%n)
	if b.parent >= 0 {
		b.parent = (b.parent + root) % n
	}
	for i := range b.children {
		b.children[i] = (b.children[i] + root) % n
	}
	return b
}

// up joins what the members have to give, in the order of the group from the
// root on. What it returns is the whole at the root only.
func (g *Group) up(ctx context.Context, root int, op byte, seq uint32, data []byte,
	join func(mine, theirs []byte) ([]byte, error)) ([]byte, error) {
	b := g.branch(root)
	for _, child := range b.children {
		more, err := g.recv(ctx, child, op, seq)
		if err != nil {
			return nil, err
		}
		if data, err = join(data, more); err != nil {
			return nil, err
		}
	}
	if b.parent < 0 {
		return data, nil
	}
	return nil, g.send(ctx, b.parent, op, seq, data)
}

// down returns the root's data.
func (g *Group) down(ctx context.Context, root int, op byte, seq uint32, data []byte) ([]byte, error) {
	b := g.branch(root)
	if b.parent >= 0 {
		var err error
		if data, err = g.recv(ctx, b.parent, op, seq); err != nil {
			return nil, err
		}
	}
	for _, child := range b.children {
		if err := g.send(ctx, child, op, seq, data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// upAndDown joins what all members have to give, everywhere.
func (g *Group) upAndDown(ctx context.Context, op byte, seq uint32, data []byte,
	join func(mine, theirs []byte) ([]byte, error)) ([]byte, error) {
	data, err := g.up(ctx, 0, op, seq, data, join)
	if err != nil {
		return nil, err
	}
	return g.down(ctx, 0, op, seq, data)
}
