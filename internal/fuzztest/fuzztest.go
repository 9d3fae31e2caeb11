// Package fuzztest lets fuzz targets reach what lies behind a grammar. Bytes that are changed at random are refused at
// the first mistake; so each input is also taken for a list of words of the grammar.
package fuzztest

import "testing"

// Run fuzzes check with texts, and with texts made of words: each byte of an input is one of them.
func Run[T string | []byte](f *testing.F, words []string, check func(t *testing.T, text T)) {
	f.Fuzz(func(t *testing.T, text T) {
		check(t, text)
		check(t, T(Words([]byte(text), words)))
	})
}

// Words makes a text of words as bytes choose them. A number of words that divides 256 favours none.
func Words(choices []byte, words []string) string {
	const most = 1 << 10 // choices
	var text []byte
	for _, c := range choices[:min(len(choices), most)] {
		text = append(text, words[int(c)%len(words)]...)
	}
	return string(text)
}
