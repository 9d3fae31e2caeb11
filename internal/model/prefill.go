package model

// PrefillFLOPS are the operations per second that a GPU is taken to reach in prefill: about 40 % of an H100's dense
// peak in 16 bit.
const PrefillFLOPS = 400e12

// HiddenSize is the size of the hidden state. Where the file does not say it, it is that of all query heads together.
func (m *Model) HiddenSize() int64 {
	if m.Hidden > 0 {
		return m.Hidden
	}
	return m.Heads * max(m.Groups[0].Key, 1)
}

// PrefillOperations are those of the tokens from, up to but without, to, of a prompt whose earlier ones are computed:
//
//	(4 (to^2 - from^2) H + 16 (to - from) H^2) L
//
// with hidden size H and L layers: the attention scores and values, and the matrices of an MLP of width 4 H.
func (m *Model) PrefillOperations(from, to int64) float64 {
	hidden, n := float64(m.HiddenSize()), float64(to-from)
	return (4*n*float64(to+from) + 16*n*hidden) * hidden * float64(m.Layers)
}
