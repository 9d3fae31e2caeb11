package matrix

import (
	"bytes"
	"testing"
)

func BenchmarkParseText(b *testing.B) {
	m, err := Random(1024, 1, 1, 1<<32, 1)
	if err != nil {
		b.Fatal(err)
	}
	var text bytes.Buffer
	if err := m.WriteText(&text); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseText("m", text.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
