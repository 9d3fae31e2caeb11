// Package matrix holds traffic matrices: how many bytes each rank sends to each other.
//
// A Matrix has one row and one column per rank. Row i has the bytes that rank i sends, column j those that rank j
// receives. Most patterns of inference traffic are sparse (a prefill rank talks to a few decode ranks), so only
// non-zero cells are stored: memory grows with the ranks plus the cells that carry bytes, not with the square of the
// ranks.
//
// Matrices come from text files (ReadText), from a broadcast (Matrix.UnmarshalBinary), from a script (FromRows,
// Matrix.Set) or from a generator (AllToAll, Ring, Random and their like). Whatever the source, every cell is at least
// 0 and the sum of all cells fits an int64, so that row sums, column sums and the total never wrap around.
//
// Read matrix.go first; the other files are its forms: text.go and sparse.go the two that people and other programs
// write, npy.go the file of numpy.save, binary.go the one between ranks, size.go the sizes with units of the original
// generator. generate.go has the patterns; those that draw at random give the same matrix for the same seed on every
// machine and with every release, since results name the seed and a repetition must mean the same. scale.go multiplies
// without losing digits of large cells. Digest identifies a matrix whatever form it came in.
//
// Cells are bytes. A file that is wrong is a fault of the kind Input which says line, cell, wanted and got; arguments
// that make no sense are ordinary errors, and an index out of range panics as that of a slice does.
//
// A Matrix may be read by several goroutines at once as long as none changes it.
package matrix
