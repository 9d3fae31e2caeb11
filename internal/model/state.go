package model

// The kinds of states of fixed size. Their formulas, per layer, are in [State].
const (
	Mamba1    Kind = "mamba1"
	Mamba2    Kind = "mamba2"
	GDN       Kind = "gdn" // Gated DeltaNet
	KDA       Kind = "kda" // Kimi Delta Attention
	Lightning Kind = "lightning"
	ShortConv Kind = "shortconv"
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
//
// with an inner size I, H heads of size P or D, a state size N, G groups and a kernel of c. Tensor parallelism cuts the
// heads; the one group of a Mamba 2 with G = 1 is copied to every rank.
type State struct {
	Conv       int64 // values of the convolution that ranks share out
	ConvCopied int64 // values of it that each rank holds
	SSM        int64 // values of the recurrence
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

// rank returns what one rank of tp holds, the fullest where it does not divide.
func (s State) rank(tp int64) State {
	return State{Conv: ceilDiv(s.Conv, tp), ConvCopied: s.ConvCopied, SSM: ceilDiv(s.SSM, tp),
		CutA: ceilDiv(s.CutA, tp), CutB: ceilDiv(s.CutB, tp)}
}

// CopiedBytes are the bytes of a state in one layer that every rank of tensor parallelism holds.
func (k Keep) CopiedBytes() int64 { return k.State.ConvCopied * convBytes }
