package matrix

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

func readFile(path string) (*Matrix, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadText(filepath.Base(path), f)
}

// The files are numpy's own; testdata/npy/make.py made them.
func TestReadNPY(t *testing.T) {
	want := [][]int64{{0, 1048576, 7}, {5, 0, 0}, {0, 200, 3}}
	for _, name := range []string{"f8", "f4", "i8", "u4", "big", "i2", "fortran"} {
		m, err := readFile("testdata/npy/" + name + ".npy")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, row := range want {
			for k, bytes := range row {
				if name == "i2" {
					bytes %= 1000
				}
				if got := m.At(i, k); got != bytes {
					t.Errorf("%s: cell %d, %d is %d, want %d", name, i, k, got, bytes)
				}
			}
		}
	}
}

func TestReadNPYRefuses(t *testing.T) {
	for name, want := range map[string]string{
		"bad-negative.npy": "row 0, column 1: wanted a whole number of bytes, got -1048576",
		"bad-nan.npy":      "row 0, column 0: wanted a whole number of bytes, got NaN",
		"bad-fraction.npy": "row 0, column 0: wanted a whole number of bytes, got 0.5",
		"bad-shape.npy":    "wanted an array of two dimensions of the same size",
		"bad-line.npy":     "wanted an array of two dimensions of the same size",
		"bad-complex.npy":  "wanted an array of integers or of 4 or 8 byte floats",
		"bad-text.npy":     "wanted an array of integers or of 4 or 8 byte floats",
		"bad-zip.npz":      "wanted a matrix, got a zip archive",
	} {
		if _, err := readFile("testdata/npy/" + name); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// A file of zeros or ones that takes no room on the disk is refused by its header, or as soon as it has too many cells.
func TestReadNPYIsBounded(t *testing.T) {
	header := func(kind string, n int) string {
		text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }\n", kind, n, n)
		return npyMagic + "\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(text)))) + text
	}
	if _, err := ReadText("x", strings.NewReader(header("<f8", 1<<20))); err == nil ||
		!strings.Contains(err.Error(), "wanted at most 8589934592 bytes of cells, got 1048576 x 1048576 of 8 bytes") {
		t.Errorf("the most ranks: %v", err)
	}
	for fortran, kind := range map[string]string{"False": "|u1", "True": "|i1"} {
		text := strings.Replace(header(kind, 100), "False", fortran, 1)
		if fortran == "True" {
			text = strings.Replace(text, "}\n", "}\n\n", 1) // as long as before
		}
		body := bufio.NewReader(strings.NewReader(text + strings.Repeat("\x01", 30*100)))
		if _, err := readNPY("x", body, 2999); err == nil || !strings.Contains(err.Error(), "wanted at most 2999 cells other than 0, got more") {
			t.Errorf("fortran %s: %v", fortran, err)
		}
	}
}

// Wherever a file was cut off, or a byte of it changed, it is refused or read, and nothing panics.
func FuzzReadNPY(f *testing.F) {
	files, _ := filepath.Glob("testdata/npy/*.np*")
	if len(files) < 10 {
		f.Fatal("no examples")
	}
	for _, path := range files {
		data := must.Read(f, path)
		f.Add(data)
		f.Add(data[:len(data)-3])
		f.Add(data[:9])
		f.Add(append(bytes.Clone(data), 0))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ReadText("x", bytes.NewReader(data))
		if (m == nil) == (err == nil) || err != nil && fault.KindOf(err) != fault.Input {
			t.Errorf("%v, %v", m, err)
		}
		random := fuzztest.Random(data)
		text, want := drawNPY(random)
		m, err = ReadText("x", bytes.NewReader(text))
		if (want == nil) != (err != nil) {
			t.Fatalf("%q (%v): %v", text, want, err)
		}
		if want == nil {
			return
		}
		if diff := cmp.Diff(want, dense(m)); diff != "" {
			t.Fatalf("%q (-want +got)\n%s", text, diff)
		}
		checkAgainst(t, m, want)
		for _, wrong := range [][]byte{text[:len(text)-1], append(text, 0)} {
			if m, err := ReadText("x", bytes.NewReader(wrong)); err == nil {
				t.Fatalf("%q is read as %v", wrong, dense(m))
			}
		}
	})
}

// drawNPY writes a matrix as numpy.save does. No matrix: it cannot be read.
func drawNPY(random *rand.Rand) (text []byte, rows [][]int64) {
	kind := []string{"b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8"}[random.IntN(11)]
	width, good := int(kind[1]-'0'), true
	sign := []string{"<", ">", "="}[random.IntN(3)]
	var order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	} = binary.LittleEndian
	if sign == ">" {
		order = binary.BigEndian
	}
	n, fortran := 1+random.IntN(3), random.IntN(2) == 0
	rows = make([][]int64, n)
	for i := range rows {
		rows[i] = make([]int64, n)
	}
	var cells []byte
	for k := range n * n {
		v := random.Int64N(1 << 40)
		if random.IntN(4*n*n) == 0 {
			v = fuzztest.Int64(random)
		}
		var bits uint64
		switch {
		case kind[0] == 'f':
			real := float64(v)
			if kind == "f4" {
				real = float64(float32(v))
			}
			if random.IntN(8*n*n) == 0 {
				real = []float64{0.5, -1, math.Inf(1), math.NaN(), 1 << 63}[random.IntN(5)]
			}
			if good = good && real >= 0 && real < 1<<63 && real == math.Trunc(real); good {
				v = int64(real)
			}
			if bits = math.Float64bits(real); kind == "f4" {
				bits = uint64(math.Float32bits(float32(real)))
			}
		case kind[0] == 'i':
			v = v << (64 - 8*width) >> (64 - 8*width)
			bits, good = uint64(v), good && v >= 0
		default:
			bits = uint64(v) << (64 - 8*width) >> (64 - 8*width)
			v, good = int64(bits), good && bits <= math.MaxInt64
		}
		switch width {
		case 1:
			cells = append(cells, byte(bits))
		case 2:
			cells = order.AppendUint16(cells, uint16(bits))
		case 4:
			cells = order.AppendUint32(cells, uint32(bits))
		case 8:
			cells = order.AppendUint64(cells, bits)
		}
		if fortran {
			rows[k%n][k/n] = v
		} else {
			rows[k/n][k%n] = v
		}
	}
	sum := int64(0)
	for _, v := range slices.Concat(rows...) {
		good = good && v <= math.MaxInt64-sum
		if good {
			sum += v
		}
	}
	order2 := "False"
	if fortran {
		order2 = "True"
	}
	header := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': %s, 'shape': (%d, %d), }\n", sign, kind, order2, n, n)
	text = binary.LittleEndian.AppendUint16([]byte(npyMagic+"\x01\x00"), uint16(len(header)))
	text = append(append(text, header...), cells...)
	if !good {
		return text, nil
	}
	return text, rows
}
