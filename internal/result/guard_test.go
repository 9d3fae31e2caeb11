package result

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// White space is refused where there is a lot in one place, and comes in pieces as large as its reader wants.
func TestWhiteSpaceIsBounded(t *testing.T) {
	read := func(text string) (int64, error) {
		r := iotest.OneByteReader(strings.NewReader(text))
		g := newGuard(r, &counted{r: r, n: 1 << 20})
		for p := make([]byte, 4096); ; {
			if n, err := g.Read(p); err != nil {
				return g.bytes, err
			} else if n < len(p) {
				t.Fatalf("a piece of %d bytes, want %d", n, len(p))
			}
		}
	}
	space := strings.Repeat(" \n\t\r", maxSpace/4)
	for _, text := range []string{`{"a":` + space + "1}", `{"` + space + space + `":1}`, "[" + space + "," + space + "]"} {
		if n, err := read(text); !errors.Is(err, io.EOF) || n != int64(len(text)) {
			t.Errorf("%.8q: %d bytes of %d, %v", text, n, len(text), err)
		}
	}
	if n, err := read(`{"a":` + space + " 1}"); !errors.Is(err, errSpace) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// However large its file, a result has at most 1 TiB of text.
func TestTextIsBounded(t *testing.T) {
	for bytes, want := range map[int64]error{maxSize: nil, maxSize + 1: errTooLong} {
		g := &guard{file: &counted{n: 1 << 40}, bytes: bytes}
		if err := g.exceeded(); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", bytes, err, want)
		}
	}
}
