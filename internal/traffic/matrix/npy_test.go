package matrix

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/fault"
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

// Wherever a file was cut off, or a byte of it changed, it is refused or read, and nothing panics.
func FuzzReadNPY(f *testing.F) {
	files, _ := filepath.Glob("testdata/npy/*.np*")
	if len(files) < 10 {
		f.Fatal("no examples")
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
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
	})
}
