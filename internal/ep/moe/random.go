package moe

import (
	"encoding/binary"
	"hash"
	"math"
	"math/bits"

	"golang.org/x/crypto/blake2b"
)

// counter is a random function of four numbers: a stream needs no state, so any
// rank computes any token's experts without those before it.
type counter interface {
	at(token, slot, attempt, stream uint64) uint64
}

// Streams of a counter.
const (
	streamExperts = iota
	streamWeights
	streamPopularity // of experts, by expert in place of token
	streamMasks
)

// keyed is the counter of CollectiveX: BLAKE2b with a digest of 8 bytes and the
// seed as key, over the four numbers, all little-endian.
type keyed struct {
	hash hash.Hash
	in   [32]byte
	out  [8]byte
}

func newKeyed(seed uint64) *keyed {
	h, err := blake2b.New(8, binary.LittleEndian.AppendUint64(nil, seed))
	if err != nil {
		panic(err) // digest and key have fixed, valid sizes
	}
	return &keyed{hash: h}
}

func (k *keyed) at(token, slot, attempt, stream uint64) uint64 {
	for i, v := range [4]uint64{token, slot, attempt, stream} {
		binary.LittleEndian.PutUint64(k.in[8*i:], v)
	}
	k.hash.Reset()
	k.hash.Write(k.in[:])
	return binary.LittleEndian.Uint64(k.hash.Sum(k.out[:0]))
}

// mixed is a fast counter: the finalizer of SplitMix64 after each number.
type mixed struct{ seed uint64 }

func (m mixed) at(token, slot, attempt, stream uint64) uint64 {
	h := mix(m.seed + 0x9e3779b97f4a7c15)
	for _, v := range [4]uint64{token, slot, attempt, stream} {
		h = mix(h ^ (v + 0x9e3779b97f4a7c15))
	}
	return h
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below turns a random number into one of 0 to n-1.
func below(random, n uint64) uint64 {
	high, _ := bits.Mul64(random, n)
	return high
}

// unit turns a random number into one of 0 up to, but without, 1.
func unit(random uint64) float64 { return float64(random>>11) / (1 << 53) }

// normal returns a standard normal number, by Marsaglia's polar method.
func normal(c counter, token, stream uint64) float64 {
	for attempt := uint64(0); ; attempt++ {
		u := 2*unit(c.at(token, 0, attempt, stream)) - 1
		v := 2*unit(c.at(token, 1, attempt, stream)) - 1
		s := float64(u*u) + float64(v*v)
		if s > 0 && s < 1 {
			return float64(u * math.Sqrt(float64(-2*logOf(s))/s))
		}
	}
}
