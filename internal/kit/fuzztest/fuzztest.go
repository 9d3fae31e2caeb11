// Package fuzztest lets fuzz targets reach what lies behind a grammar. Bytes that are changed at random are refused at
// the first mistake; so each input is also taken for a list of words of the grammar, or of changes to a document.
//
// Run (fuzztest.go) fuzzes with texts and with texts of words. RunDocuments and Edit (edit.go) change values of a JSON
// or YAML document one by one, so that what comes out is still a document, and readers meet values that nothing has
// written. growth.go checks that the time and memory of a reader grow with its input, and not with its square.
//
// Every parser of files or messages has a fuzz target beside it; `make fuzz` runs all of them. In an ordinary test run
// the same targets get a few variants of their examples, always the same ones, so that a test does not fail by chance.
package fuzztest

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
)

// How many texts come from an input beside the one that it stands for: one run of a target costs the fuzzer more than
// several checks of a short text. Documents take longer.
const (
	variants         = 8
	documentVariants = 1
)

// Run fuzzes check with texts, and with texts of words: each byte of an input is one of them.
func Run[T string | []byte](f *testing.F, words []string, check func(t *testing.T, text T)) {
	every := make([]byte, len(words))
	for i := range every {
		every[i] = byte(i)
	}
	f.Add(T(every))
	f.Add(T("\x00"))
	f.Fuzz(func(t *testing.T, text T) {
		check(t, text)
		each([]byte(text), variants, func(choices []byte) { check(t, T(Words(choices, words))) })
	})
}

// Words writes words as bytes choose them.
func Words(choices []byte, words []string) string {
	const most = 1 << 10 // choices
	var text []byte
	for _, c := range choices[:min(len(choices), most)] {
		text = append(text, words[int(c)%len(words)]...)
	}
	return string(text)
}

// each calls use with data, and with variants of it, always the same ones.
func each(data []byte, variants int, use func(data []byte)) {
	use(data)
	random := Random(data)
	for range variants {
		changed := slices.Clone(data)
		for range 1 + random.IntN(3) {
			changed = change(changed, random)
		}
		use(changed)
	}
}

// change replaces, inserts, repeats or removes a few bytes.
func change(data []byte, random *rand.Rand) []byte {
	at := random.IntN(len(data) + 1)
	end := min(len(data), at+1+random.IntN(4))
	switch random.IntN(5) {
	case 0:
		return slices.Insert(data, at, byte(random.Uint32()))
	case 1:
		return slices.Delete(data, at, end)
	case 2:
		return slices.Insert(data, at, slices.Clone(data[at:end])...)
	case 3:
		return data[:at]
	}
	for i := range data[at:end] {
		data[at+i] = byte(random.Uint32())
	}
	return data
}

// Random is a source of draws that an input decides. So each input stands for a value, too, which a target writes and
// reads again: bytes that are changed at random seldom get behind a length or a checksum.
func Random(data []byte) *rand.Rand {
	seed := fnv.New64a()
	seed.Write(data)
	return rand.New(rand.NewPCG(seed.Sum64(), 1))
}

// Int64 draws a number: small ones, powers of two and their neighbours, and any other are equally likely.
func Int64(random *rand.Rand) int64 {
	switch random.IntN(3) {
	case 0:
		return random.Int64N(33) - 8
	case 1:
		n := int64(1)<<random.IntN(64) + random.Int64N(3) - 1
		if random.IntN(2) == 0 {
			return -n
		}
		return n
	}
	return int64(random.Uint64())
}

// Bytes draws at most so many bytes.
func Bytes(random *rand.Rand, most int) []byte {
	data := make([]byte, random.IntN(most+1))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}
