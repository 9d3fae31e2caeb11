package play

import (
	"encoding/binary"
	"math/bits"
)

// stream generates the bytes of one message: each 8-byte word is a hash of
// what the message is and of the word's place in it, so a byte that comes from
// another message, another place or another run is noticed.
type stream struct{ key uint64 }

// newStream returns the stream of a message: the seed, and numbers that distinguish it from others, such as the load,
// the sender and the receiver.
func newStream(seed uint64, key ...int) stream {
	k := mix(seed + 0x9e3779b97f4a7c15)
	for _, v := range key {
		k = mix(k ^ mix(uint64(v)+0x9e3779b97f4a7c15))
	}
	return stream{k}
}

// mix is the finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection
// whose output bits all depend on all input bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s stream) word(i uint64) uint64 { return mix(s.key + i*0x9e3779b97f4a7c15) }

// Fill writes the stream from off on; flip inverts every bit, which makes a
// poison that differs from the stream in every byte.
func (s stream) Fill(p []byte, off int64, flip bool) {
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

// differ counts the bytes in which two slices of equal length differ, and returns the place of the first.
func differ(want, got []byte) (wrong int64, first int) {
	first = -1
	note := func(at int, bytes int64) {
		if first < 0 {
			first = at
		}
		wrong += bytes
	}
	i := 0
	for ; i+8 <= len(want); i += 8 {
		if x := binary.LittleEndian.Uint64(want[i:]) ^ binary.LittleEndian.Uint64(got[i:]); x != 0 {
			note(i+bits.TrailingZeros64(x)/8, int64(differingBytes(x)))
		}
	}
	for ; i < len(want); i++ {
		if want[i] != got[i] {
			note(i, 1)
		}
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
