package pack

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"perigee/internal/kit/fuzztest"
)

// message is one of everything.
type message struct {
	U     uint64
	S     int64
	N     int
	F     uint64 // bits, so that NaNs compare
	B     byte
	Text  string
	Texts []string
}

func (m message) encode() []byte {
	b := binary.AppendUvarint(nil, m.U)
	b = binary.AppendVarint(b, m.S)
	b = binary.AppendUvarint(b, uint64(m.N))
	b = AppendFloat(b, math.Float64frombits(m.F))
	b = append(b, m.B)
	return AppendTexts(AppendText(b, m.Text), m.Texts)
}

func decode(data []byte) (message, error) {
	r := Read(data)
	m := message{U: r.Unsigned(), S: r.Signed(), N: r.Number(1000), F: math.Float64bits(r.Float()), B: r.Byte(), Text: r.Text(), Texts: r.Texts()}
	return m, r.End("a message")
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := message{
			rapid.Uint64().Draw(t, "u"), rapid.Int64().Draw(t, "s"), rapid.IntRange(0, 1000).Draw(t, "n"),
			math.Float64bits(rapid.Float64().Draw(t, "f")), rapid.Byte().Draw(t, "b"), rapid.String().Draw(t, "text"),
			rapid.SliceOf(rapid.String()).Draw(t, "texts"),
		}
		data := m.encode()
		got, err := decode(data)
		if err != nil || got.U != m.U || got.S != m.S || got.N != m.N || got.F != m.F || got.B != m.B || got.Text != m.Text || !slices.Equal(got.Texts, m.Texts) {
			t.Fatalf("%+v came back as %+v, %v", m, got, err)
		}
		if cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut"); true {
			if _, err := decode(data[:cut]); !errors.Is(err, ErrTorn) {
				t.Fatalf("%d of %d bytes: %v", cut, len(data), err)
			}
		}
		if _, err := decode(append(data, 0)); !errors.Is(err, ErrTorn) {
			t.Fatalf("a byte more: %v", err)
		}
	})
}

func TestMistakes(t *testing.T) {
	long := binary.AppendUvarint(nil, 1<<40)
	for name, read := range map[string]func(r *Reader){
		"number beyond its limit": func(r *Reader) { r.Number(1 << 20) },
		"no number possible":      func(r *Reader) { r.Number(-1) },
		"more elements than left": func(r *Reader) { r.Count() },
		"a text of a terabyte":    func(r *Reader) { r.Text() },
		"a negative length":       func(r *Reader) { r.Take(-1) },
		"found by the caller":     func(r *Reader) { r.Fail() },
	} {
		r := Read(long)
		read(r)
		if r.Err() == nil || r.Unsigned() != 0 || r.Float() != 0 || r.Byte() != 0 || len(r.Texts()) != 0 {
			t.Errorf("%s: %v", name, r.Err())
		}
		if err := r.End("card"); err == nil || err.Error() != "card: the message is torn" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{})
	f.Add(message{Text: "x", Texts: []string{"a", ""}}.encode())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := decode(data); err == nil {
			checkMessage(t, m)
		}
		random := fuzztest.Random(data)
		m := message{
			U: uint64(fuzztest.Int64(random)), S: fuzztest.Int64(random), N: random.IntN(1001), F: random.Uint64(),
			B: byte(random.Uint32()), Text: string(fuzztest.Bytes(random, 300)),
		}
		for range random.IntN(4) {
			m.Texts = append(m.Texts, string(fuzztest.Bytes(random, 3)))
		}
		checkMessage(t, m)
		m.N = 1001
		if _, err := decode(m.encode()); !errors.Is(err, ErrTorn) {
			t.Fatalf("%v: %v", m, err)
		}
	})
}

// checkMessage writes a message and reads it, whole, torn and with a byte too many.
func checkMessage(t *testing.T, m message) {
	t.Helper()
	data := m.encode()
	again, err := decode(data)
	if diff := cmp.Diff(m, again, cmpopts.EquateEmpty()); err != nil || diff != "" || m.N > 1000 {
		t.Fatalf("%v: %v\n%s", m, err, diff)
	}
	for _, torn := range [][]byte{data[:len(data)-1], data[:len(data)/2], append(data, 0)} {
		if _, err := decode(torn); !errors.Is(err, ErrTorn) {
			t.Fatalf("%d of %d bytes: %v", len(torn), len(data), err)
		}
	}
}
