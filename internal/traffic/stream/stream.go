// Package stream makes the bytes by which transfers are verified.
package stream

import (
	"encoding/binary"
	"math/bits"
)

// Stream generates the bytes of one message: each 8-byte word is a hash of
// what the message is and of the word's place in it, so a byte that comes from
// another message, another place or another run is noticed.
type Stream struct{ key uint64 }

// New returns the stream of a message: the seed, and numbers that tell it from others: the pattern, the sender
// and the receiver.
func New(seed uint64, pattern, sender, receiver int) Stream {
	k := mix(seed + 0x9e3779b97f4a7c15)
	for _, v := range []int{pattern, sender, receiver} {
		k = mix(k ^ mix(uint64(v)+0x9e3779b97f4a7c15))
	}
	return Stream{k}
}

// mix is the finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection
// whose output bits all depend on all input bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s Stream) word(i uint64) uint64 { return mix(s.key + i*0x9e3779b97f4a7c15) }

// Fill writes the stream from off on; flip inverts every bit, which makes a
// poison that differs from the stream in every byte.
func (s Stream) Fill(p []byte, off int64, flip bool) {
	var inverse uint64
	if flip {
		inverse = ^inverse
	}
	for len(p) > 0 {
		w := (s.word(uint64(off)/8) ^ inverse) >> (8 * (uint64(off) % 8))
		if off%8 == 0 && len(p) >= 8 {
			binary.LittleEndian.PutUint64(p, w)
			p, off = p[8:], off+8
			continue
		}
		p[0] = byte(w)
		p, off = p[1:], off+1
	}
}

// Check counts the bytes that differ from the stream from off on, and returns
// the place of the first.
func (s Stream) Check(p []byte, off int64) (wrong int64, first int) {
	first = -1
	for i := 0; i < len(p); {
		w := s.word(uint64(off)/8) >> (8 * (uint64(off) % 8))
		size := min(8-int(off%8), len(p)-i)
		if size == 8 {
			if got := binary.LittleEndian.Uint64(p[i:]); got != w {
				if first < 0 {
					first = i + bits.TrailingZeros64(got^w)/8
				}
				wrong += int64(differingBytes(got ^ w))
			}
		} else {
			for k := range size {
				if p[i+k] != byte(w>>(8*k)) {
					if first < 0 {
						first = i + k
					}
					wrong++
				}
			}
		}
		i, off = i+size, off+int64(size)
	}
	return wrong, first
}

func differingBytes(x uint64) (n int) {
	for ; x != 0; x >>= 8 {
		if x&0xff != 0 {
			n++
		}
	}
	return n
}

// At returns the byte of the stream at a place.
func (s Stream) At(off int64) byte { return byte(s.word(uint64(off)/8) >> (8 * (uint64(off) % 8))) }
