package matrix

import (
	"bytes"
	"encoding"
	"math"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
)

var (
	_ encoding.BinaryAppender    = (*Matrix)(nil)
	_ encoding.BinaryMarshaler   = (*Matrix)(nil)
	_ encoding.BinaryUnmarshaler = (*Matrix)(nil)
)

// pack returns the binary form of m.
func pack(m *Matrix) []byte {
	data, err := m.MarshalBinary()
	if err != nil {
		panic(err)
	}
	return data
}

func TestBinaryForm(t *testing.T) {
	m := sure(FromRows([][]int64{{0, 0, 0}, {7, 0, 300}, {300, 9, 9}}))
	want := []byte{
		1,    // version
		3, 2, // ranks, filled rows
		1, 2, // skip row 0; row 1 has two cells
		0, 7, // to rank 0: 7 bytes
		1, 0xac, 2, // skip rank 1; to rank 2: 300 bytes
		0, 3, // row 2 has three cells
		0, 0, // to rank 0: as before
		0, 9, // to rank 1: 9 bytes
		0, 0, // to rank 2: as before
	}
	if got := pack(m); !bytes.Equal(got, want) {
		t.Errorf("% x: want % x", got, want)
	}
	appended, err := m.AppendBinary([]byte("x"))
	if err != nil || !bytes.Equal(appended, append([]byte("x"), want...)) {
		t.Errorf("appended: % x, %v", appended, err)
	}
}

func TestBinaryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := anyRows(t)
		m := sure(AllToAll(2, 5, true)) // replaced as a whole
		m.Column(0)
		must.Do(t, m.UnmarshalBinary(pack(sure(FromRows(rows)))))
		checkAgainst(t, m, rows)
	})
}

// The cells of a workload matrix are equal: they take two bytes each.
func TestBinaryIsCompact(t *testing.T) {
	m := sure(AllToAll(64, 2472615936, true))
	if got, most := len(pack(m)), 2*64*64+3*64; got > most {
		t.Errorf("%d bytes: want at most %d", got, most)
	}
}

func TestUnmarshalBinaryRefuses(t *testing.T) {
	big := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f} // MaxInt64
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":             {nil, "binary matrix: wanted version 1"},
		"another version":     {[]byte{2, 1, 0}, "binary matrix: wanted version 1"},
		"only a version":      {[]byte{1}, "binary matrix: it ends too early"},
		"no ranks":            {[]byte{1, 0, 0}, "binary matrix: it has no ranks"},
		"too many ranks":      {[]byte{1, 0x81, 0x80, 0x40, 0}, "binary matrix: number 1048577 where at most 1048576 is possible"},
		"too many rows":       {[]byte{1, 2, 3}, "binary matrix: number 3 where at most 2 is possible"},
		"no rows":             {[]byte{1, 2, 1}, "binary matrix: it ends too early"},
		"row out of range":    {[]byte{1, 2, 1, 2, 1, 0, 5}, "binary matrix: row 2 of 2"},
		"empty row":           {[]byte{1, 2, 1, 0, 0}, "binary matrix: an empty row is listed"},
		"too many cells":      {[]byte{1, 2, 1, 0, 3, 0, 1, 0, 1, 0, 1}, "binary matrix: number 3 where at most 2 is possible"},
		"cell out of range":   {[]byte{1, 2, 1, 0, 2, 1, 1, 0, 2}, "binary matrix: receiver 2 of 2"},
		"half a cell":         {[]byte{1, 2, 1, 0, 1, 1}, "binary matrix: it ends too early"},
		"as nothing before":   {[]byte{1, 2, 1, 0, 1, 1, 0}, "binary matrix: a cell of 0 bytes"},
		"repeated in full":    {[]byte{1, 2, 1, 0, 2, 0, 5, 0, 5}, "binary matrix: a cell of 5 bytes"},
		"above 63 bits":       {join([]byte{1, 1, 1, 0, 1, 0}, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}), "binary matrix: a cell of 9223372036854775808 bytes"},
		"above 64 bits":       {join([]byte{1, 1, 1, 0, 1, 0}, bytes.Repeat([]byte{0xff}, 11)), "binary matrix: a number is damaged"},
		"longer than needed":  {[]byte{1, 0x81, 0, 0}, "binary matrix: a number is damaged"},
		"sum above 63 bits":   {join([]byte{1, 2, 1, 0, 2, 0}, big, []byte{0, 1}), "binary matrix: row 0 makes too many cells or a sum that does not fit 64 bits"},
		"something behind it": {[]byte{1, 1, 0, 0}, "binary matrix: 1 bytes too many"},
	} {
		m := sure(Ring(3, 5, 1))
		if err := m.UnmarshalBinary(c.data); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v: want %s", name, err, c.want)
		}
		if !m.Equal(sure(Ring(3, 5, 1))) {
			t.Errorf("%s: the matrix changed", name)
		}
	}
	largest := New(1)
	if err := largest.UnmarshalBinary(join([]byte{1, 1, 1, 0, 1, 0}, big)); err != nil || largest.Total() != math.MaxInt64 {
		t.Errorf("the largest cell: %v", err)
	}
}

// No form cut short is one, and none takes memory for what does not come.
func TestUnmarshalBinaryOfParts(t *testing.T) {
	data := pack(sure(Random(6, 0.5, 1, 1<<40, 3)))
	for length := range data {
		if err := new(Matrix).UnmarshalBinary(data[:length]); err == nil {
			t.Errorf("%d of %d bytes are a matrix", length, len(data))
		}
	}
}

func FuzzUnmarshalBinary(f *testing.F) {
	for _, m := range []*Matrix{New(1), New(300), sure(AllToAll(4, 9, true)), sure(Random(7, 0.4, 0, 1<<50, 1))} {
		f.Add(pack(m))
	}
	f.Add([]byte{1, 0xff, 0xff, 0x3f, 1, 0, 0xff, 0xff, 0x3f})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m Matrix
		if m.UnmarshalBinary(data) != nil {
			return
		}
		if again := pack(&m); !bytes.Equal(again, data) {
			t.Fatalf("% x packs as % x", data, again)
		}
		if m.Size() <= 64 {
			checkAgainst(t, &m, dense(&m))
		}
	})
}
