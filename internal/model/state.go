package model

// The kinds of states of fixed size. Their formulas, per layer, are in [State].
const (
	Mamba1    Kind = "mamba1"
	Mamba2    Kind = "mamba2"
	GDN       Kind = "gdn" // Gated DeltaNet
	KDA       Kind = "kda" // Kimi Delta Attention
	Lightning Kind = "lightning"
	ShortConv Kind = "shortconv"
	CCA       Kind = "cca"  // of ZAYA's attention: the last queries, keys and a delayed value
	Ring      Kind = "ring" // the last tokens of a pooled indexer
)

// State describes what a layer keeps of a request whatever its tokens: the last inputs of a short convolution, in 16
// bit, and the state of a recurrence. Values:
//
//	          convolution              recurrence
//	mamba1    I (c-1)                  I N
//	mamba2    (I + 2 G N) (c-1)        H P N
//	gdn       (2 Hk Dk + Hv Dv) (c-1)  Hv Dv Dk
//	kda       3 H D (c-1)              H D D
//	lightning 0                        H D D
//	shortconv hidden (c-1)             0
//	cca       (Hq + Hk) D n + D        0
//
// with an inner size I, H heads of size P or D, a state size N, G groups, a kernel of c and n columns. Tensor
// parallelism cuts the heads; the one group of a Mamba 2 with G = 1, and the last D of a cca, are copied to every rank.
// A ring is a number of bytes that every rank holds whole.
type State struct {
	Conv       int64 // values of the convolution that ranks share out
	ConvCopied int64 // values of it that each rank holds
	SSM        int64 // values of the recurrence
	Ring       int64 // bytes of a ring
	CutA, CutB int64 // numbers that tensor parallelism must divide; 0: none
}

// Any reports whether there is a state.
func (s State) Any() bool { return s != State{} }

// convBytes are the bytes of a value of the convolution, in all engines.
const convBytes = 2

func mamba1(inner, state, kernel int64) State {
	return State{Conv: inner * (kernel - 1), SSM: inner * state, CutA: inner}
}

func mamba2(inner, heads, head, groups, state, kernel int64) State {
	s := State{Conv: (inner + 2*groups*state) * (kernel - 1), SSM: heads * head * state, CutA: heads, CutB: groups}
	if groups == 1 {
		s.Conv, s.ConvCopied, s.CutB = inner*(kernel-1), 2*state*(kernel-1), 0
	}
	return s
}

func gatedDelta(keyHeads, key, valueHeads, value, kernel int64) State {
	return State{
		Conv: (2*keyHeads*key + valueHeads*value) * (kernel - 1), SSM: valueHeads * value * key,
		CutA: keyHeads, CutB: valueHeads,
	}
}

func kimiDelta(heads, head, kernel int64) State {
	return State{Conv: 3 * heads * head * (kernel - 1), SSM: heads * head * head, CutA: heads}
}

func lightning(heads, head int64) State {
	return State{SSM: heads * head * head, CutA: heads}
}

func shortConv(hidden, kernel int64) State {
	return State{Conv: hidden * (kernel - 1), CutA: hidden}
}

// convolved is the state that ZAYA's attention keeps beside keys and values: so many columns of its queries and keys,
// and the delayed part of a value. No engine serves it yet: that ranks cut the heads, and copy the value, is a guess.
func convolved(queries, kv, head, columns int64) State {
	return State{Conv: (queries + kv) * head * columns, ConvCopied: head, CutA: queries, CutB: kv}
}

func ring(bytes int64) State { return State{Ring: bytes} }

// widened is the state of a convolution of another width than that of the class. What is copied of it stays.
func (s State) widened(width, kernel int64) State {
	s.Conv = width*(kernel-1) - s.ConvCopied
	return s
}

// rank returns what one rank of tp holds, the fullest where it does not divide.
func (s State) rank(tp int64) State {
	return State{Conv: ceilDiv(s.Conv, tp), ConvCopied: s.ConvCopied, SSM: ceilDiv(s.SSM, tp), Ring: s.Ring,
		CutA: ceilDiv(s.CutA, tp), CutB: ceilDiv(s.CutB, tp)}
}

// CopiedBytes are the bytes of a state in one layer that every rank of tensor parallelism holds.
func (k Keep) CopiedBytes() int64 { return k.State.ConvCopied*convBytes + k.State.Ring }
