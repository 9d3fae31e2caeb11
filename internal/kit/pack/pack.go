// Package pack is the binary form of what ranks send each other: varints, floats of 8 bytes, and texts and lists with
// their length in front. spmd sends rosters and clocks in it, traffic/series the stamps of runs, experts its figures,
// and lua the values of scripts.
//
// Messages are written by the functions of encoding/binary (AppendUvarint, AppendVarint) and those here, and read by a
// Reader in the same order. There are no field names and no versions: all ranks of a job run perigee of one version,
// which their handshake makes sure of (spmd/wire), and messages of thousands of ranks should be small. gob and JSON
// would send the names of fields with each.
//
// What is read comes from another process, so a Reader checks every length against what is left before it makes room
// for it, and a torn message is an error, never a panic. After the first mistake everything it returns is 0 or empty,
// so that a caller reads all fields and checks once, with End, which also finds bytes left over. Slices that it
// returns are parts of the message, not copies.
package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// AppendBytes writes bytes with their length.
func AppendBytes(b, data []byte) []byte {
	b = slices.Grow(b, binary.MaxVarintLen64+len(data))
	return append(binary.AppendUvarint(b, uint64(len(data))), data...)
}

// AppendText writes a text with its length.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendTexts writes a list of texts with their number.
func AppendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = AppendText(b, s)
	}
	return b
}

// AppendFloat writes a float64, every bit of it.
func AppendFloat(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

// ErrTorn is the error of a message that ends early, goes on after its end, or holds a
// number that its place does not admit.
var ErrTorn = errors.New("the message is torn")

// Reader takes a message apart. After the first mistake everything it returns is 0 or empty;
// so a caller checks once, with [Reader.End].
type Reader struct {
	rest []byte
	err  error
}

// Read begins to read a message, which must not change meanwhile.
func Read(message []byte) *Reader { return &Reader{rest: message} }

// Fail marks the message as torn: the caller has found a mistake in what it read.
func (r *Reader) Fail() { r.rest, r.err = nil, ErrTorn }

// Left is how many bytes of the message are left, 0 after a mistake.
func (r *Reader) Left() int { return len(r.rest) }

// Err returns the mistake found so far.
func (r *Reader) Err() error { return r.err }

// Unsigned reads what binary.AppendUvarint wrote.
func (r *Reader) Unsigned() uint64 {
	v, n := binary.Uvarint(r.rest)
	if !r.skip(n) {
		return 0
	}
	return v
}

// Signed reads what binary.AppendVarint wrote.
func (r *Reader) Signed() int64 {
	v, n := binary.Varint(r.rest)
	if !r.skip(n) {
		return 0
	}
	return v
}

// skip passes over a number of n bytes, as encoding/binary counts them: at most 0 is a mistake.
func (r *Reader) skip(n int) bool {
	if n <= 0 {
		r.Fail()
		return false
	}
	r.rest = r.rest[n:]
	return true
}

// Number reads an unsigned number from 0 to most.
func (r *Reader) Number(most int) int {
	v := r.Unsigned()
	if most < 0 || v > uint64(most) {
		r.Fail()
		return 0
	}
	return int(v)
}

// Count reads the number of elements of a list. Each takes at least a byte, so a count beyond what is
// left is a mistake.
func (r *Reader) Count() int {
	n := r.Number(len(r.rest))
	if n > len(r.rest) { // the count itself took some of it
		r.Fail()
		return 0
	}
	return n
}

// Float reads what [AppendFloat] wrote.
func (r *Reader) Float() float64 {
	const size = 8
	b := r.Take(size)
	if len(b) < size {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	b := r.Take(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

// Take reads n bytes. They are part of the message.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.Fail()
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// Bytes reads what [AppendBytes] wrote. They are part of the message.
func (r *Reader) Bytes() []byte { return r.Take(r.Count()) }

// Text reads what [AppendText] wrote.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Texts reads what [AppendTexts] wrote.
func (r *Reader) Texts() []string {
	list := make([]string, r.Count())
	for i := range list {
		list[i] = r.Text()
	}
	return list
}

// End returns the first mistake in the message, bytes after its end included. what names the message
// in the error.
func (r *Reader) End(what string) error {
	if r.err == nil && len(r.rest) > 0 {
		r.Fail()
	}
	if r.err != nil {
		return fmt.Errorf("%s: %w", what, r.err)
	}
	return nil
}
