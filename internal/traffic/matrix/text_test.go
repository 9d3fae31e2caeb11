package matrix

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// text returns m in text form.
func text(m *Matrix) []byte {
	var out bytes.Buffer
	if err := m.WriteText(&out); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func TestReadText(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want [][]int64
	}{
		"plain":            {"0 1\n2 3\n", [][]int64{{0, 1}, {2, 3}}},
		"one rank":         {"7", [][]int64{{7}}},
		"no last newline":  {"0 1\n2 3", [][]int64{{0, 1}, {2, 3}}},
		"windows":          {"\ufeff0 1\r\n2 3\r\n\r\n", [][]int64{{0, 1}, {2, 3}}},
		"blank lines":      {"\n \n0 1\n\n\t\n2 3\n\n\n", [][]int64{{0, 1}, {2, 3}}},
		"any white space":  {" 0\t 1 \n2\v\f3\t\n", [][]int64{{0, 1}, {2, 3}}},
		"units":            {"0B 1.5K\n2m 1g\n", [][]int64{{0, 1536}, {2 << 20, 1 << 30}}},
		"original":         {"0 500K\n2.3G 977.89M\n", [][]int64{{0, 512000}, {2469606195, 1025391984}}},
		"18 and 19 digits": {"999999999999999999 1\n2 7000000000000000000", [][]int64{{999999999999999999, 1}, {2, 7000000000000000000}}},
		"leading zeros":    {"000000000000000000000000000000000000007 0001\n00 0", [][]int64{{7, 1}, {0, 0}}},
		"largest sum":      {"9223372036854775806 0\n1 0", [][]int64{{9223372036854775806, 0}, {1, 0}}},
	} {
		m, err := ParseText("m.txt", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := gocmp.Diff(c.want, dense(m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadTextRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "m.txt: wanted a matrix, one line of numbers for each rank, got an empty text"},
		{"\n \r\n\t", "m.txt: wanted a matrix, one line of numbers for each rank, got an empty text"},
		{"0 1\n2 3\n\n4 5\n", "m.txt:4: wanted 2 rows, as the first row has 2 cells, got one more row"},
		{"\n0 1 2\n3 4 5\n", "m.txt: wanted 3 rows, as the first row (line 2) has 3 cells, got 2"},
		{"0 1\n2\n", "m.txt:2: wanted 2 cells, as in the first row (line 1), got 1"},
		{"0 1\n\n2 3 4 5\n", "m.txt:3: wanted 2 cells, as in the first row (line 1), got 4"},
		{"0 1\n2 -3\n", `m.txt:2: cell 2: wanted 0 bytes or more, got "-3"`},
		{"0 -0\n2 3\n", `m.txt:1: cell 2: wanted 0 bytes or more, got "-0"`},
		{"nan 0\n0 0\n", `m.txt:1: cell 1: wanted a number of bytes such as 4096, 64K, 64MiB or 1e6, got "nan"`},
		{"0 0\n0 InfK\n", `m.txt:2: cell 2: wanted a number of bytes such as 4096, 64K, 64MiB or 1e6, got "InfK"`},
		{"0 12Q\n0 0\n", `m.txt:1: cell 2: wanted a number of bytes such as 4096, 64K, 64MiB or 1e6, got "12Q"`},
		{"0 1.5\n0 0\n", `m.txt:1: cell 2: wanted a whole number of bytes, got "1.5"`},
		{"0,,1\n2,3,4\n", `m.txt:1: cell 2: wanted a number, got ','`},
		{",1\n2,3\n", `m.txt:1: cell 1: wanted a number, got ','`},
		{"0;1;\n2;3\n", `m.txt:1: cell 3: wanted a number, got the end of the line`},
		{"0,1,", `m.txt:1: cell 3: wanted a number, got the end of the line`},
		{"# a\n0 1\n2 x # b\n", `m.txt:3: cell 2: wanted a number of bytes such as 4096, 64K, 64MiB or 1e6, got "x"`},
		{"0 1\n2 \x00\xff\x7fELF\n", `m.txt:2: cell 2: wanted a number of bytes such as 4096, 64K, 64MiB or 1e6, got "\x00\xff\x7fELF"`},
		{"0 9223372036854775808\n0 0", `m.txt:1: cell 2: wanted at most 9223372036854775807 bytes, got "9223372036854775808"`},
		{"0 8589934592G\n0 0", `m.txt:1: cell 2: wanted at most 9223372036854775807 bytes, got "8589934592G"`},
		{"0 1e999G\n0 0", `m.txt:1: cell 2: wanted at most 9223372036854775807 bytes, got "1e999G"`},
		{"9223372036854775807 1\n0 0", "m.txt:1: wanted a matrix whose sum is at most 9223372036854775807 bytes, got more by row 1"},
		{"9223372036854775807 0\n\n0 1", "m.txt:3: wanted a matrix whose sum is at most 9223372036854775807 bytes, got more by row 2"},
		{strings.Repeat("0", 65), `m.txt:1: cell 1: wanted at most 64 characters, got "` + strings.Repeat("0", 40) + `"...`},
		{strings.Repeat("0 ", MaxRanks) + "0", "m.txt:1: wanted at most 1048576 cells in a row, got more"},
		{"0 0\n" + strings.Repeat("0 ", MaxRanks) + "0", "m.txt:2: wanted at most 1048576 cells in a row, got more"},
	} {
		for how, read := range map[string]func() (*Matrix, error){
			"ParseText":     func() (*Matrix, error) { return ParseText("m.txt", []byte(c.text)) },
			"ReadText":      func() (*Matrix, error) { return ReadText("m.txt", strings.NewReader(c.text)) },
			"small buffers": func() (*Matrix, error) { return readText("m.txt", strings.NewReader(c.text), make([]byte, 80)) },
		} {
			m, err := read()
			if err == nil || m != nil || err.Error() != c.want || fault.KindOf(err) != fault.Input {
				t.Errorf("%s of %.60q: %v (%v): want %s", how, c.text, err, fault.KindOf(err), c.want)
			}
		}
	}
}

func TestCellsOfTextAreBounded(t *testing.T) {
	p := textParser{name: "m.txt", line: 5, m: New(2), rows: 1}
	p.m.cells = MaxCells - 1 // as if the rows before held that many
	const want = "m.txt:5: wanted at most 67108864 cells other than 0 in the matrix, got more"
	if err := p.parse([]byte("1 1\n")); err == nil || err.Error() != want {
		t.Errorf("%v: want %s", err, want)
	}
}

func TestReadTextStops(t *testing.T) {
	broken := errors.New("the disk is on fire")
	_, err := ReadText("m.txt", io.MultiReader(strings.NewReader("0 1\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "m.txt") {
		t.Errorf("a failing reader: %v", err)
	}
	// A stream that never ends is left as soon as it cannot be a matrix any more.
	for name, block := range map[string]string{"a cell": "0", "a row": "1 ", "rows": "0\n", "noise": "\x00"} {
		if _, err := ReadText("m.txt", &endless{block}); fault.KindOf(err) != fault.Input {
			t.Errorf("%s without an end: %v", name, err)
		}
	}
}

// endless repeats a text for ever.
type endless struct{ text string }

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, strings.Repeat(e.text, len(p)/len(e.text)+1))
	return n - n%len(e.text), nil
}

func TestWriteText(t *testing.T) {
	for want, rows := range map[string][][]int64{
		"0\n":                   {{0}},
		"9223372036854775807\n": {{9223372036854775807}},
		"0 0 1\n0 2 0\n3 0 0\n": {{0, 0, 1}, {0, 2, 0}, {3, 0, 0}},
		"1 2 3\n0 0 0\n4 5 6\n": {{1, 2, 3}, {0, 0, 0}, {4, 5, 6}},
	} {
		if got := string(text(sure(FromRows(rows)))); got != want {
			t.Errorf("%q: want %q", got, want)
		}
	}
}

func TestWriteTextOfManyZeros(t *testing.T) {
	const n = 1500 // more than fit one run of zeros
	m := New(n)
	must.Do(t, m.Set(0, n-1, 5))
	want := strings.Repeat("0 ", n-1) + "5\n" + strings.Repeat(strings.Repeat("0 ", n-1)+"0\n", n-1)
	if got := string(text(m)); got != want {
		t.Errorf("%d bytes of text: want %d others", len(got), len(want))
	}
}

type fullDisk struct{}

var errFullDisk = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFullDisk }

func TestWriteTextFails(t *testing.T) {
	for _, n := range []int{1, 500} { // the error comes at the end, or in between
		if err := New(n).WriteText(fullDisk{}); !errors.Is(err, errFullDisk) {
			t.Errorf("%d ranks: %v", n, err)
		}
	}
}

// shortBlock is the shortest that readText takes.
const shortBlock = len("\ufeff") + maxCellChars + 2

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMatrix(t)
		out := text(m)
		back, err := readText("m", bytes.NewReader(out), make([]byte, rapid.IntRange(shortBlock, 200).Draw(t, "buffer")))
		if err != nil || !back.Equal(m) {
			t.Fatalf("%q: %v", out, err)
		}
		if again := text(back); !bytes.Equal(again, out) {
			t.Fatalf("%q: want %q", again, out)
		}
	})
}

// Where the blocks of a long text are cut must make no difference.
func TestReadTextOfManyBlocks(t *testing.T) {
	m := sure(Random(200, 0.7, 0, 1<<40, 5))
	if out := text(m); len(out) < blockBytes {
		t.Fatalf("%d bytes of text: want more than a block of %d", len(out), blockBytes)
	}
	back, err := ReadText("m", iotest.HalfReader(bytes.NewReader(text(m))))
	if err != nil || !back.Equal(m) {
		t.Fatal("not the same matrix", err)
	}
}

func FuzzParseText(f *testing.F) {
	for _, seed := range []string{
		"", "0", "0 1\n2 3\n", "1.5K 0\r\n0 2g\r\n", "0 1\n2\n", "-1", "12Q", "nan", "9223372036854775807", "\n\n 7 \n",
		"99999999999999999999", "\ufeff1", "0 0\n0 0\n0 0\n", "4.47035e+06G", "000000000000000000000000001", "\x00\x01",
		"sparse 3 2\n0 1 1.5K\n2 0 7\n", "# a\nsparse,4,1 # b\r\n0,3,5\r\n", "sparse 2 3\n1 1 1\n1 1 1\n0 0 1\n", "sparse 1048576 0",
	} {
		f.Add([]byte(seed))
	}
	fuzztest.Run(f, []string{"0", "1", "7", ".5", "K", "G", "e+06", "-", " ", "\t", "\n", "\r\n", ",", ";", "#", "x", "\ufeff", "sparse"}, func(t *testing.T, in []byte) {
		m, err := ParseText("m", in)
		inBlocks, errInBlocks := readText("m", bytes.NewReader(in), make([]byte, shortBlock))
		if fmt.Sprint(err) != fmt.Sprint(errInBlocks) || !m.Equal(inBlocks) {
			t.Fatalf("at once: %v; in blocks: %v", err, errInBlocks)
		}
		if err != nil {
			if fault.KindOf(err) != fault.Input {
				t.Fatalf("%v is of the kind %v", err, fault.KindOf(err))
			}
			return
		}
		if back, err := ParseText("m", textOfMessages(m)); err != nil || !back.Equal(m) {
			t.Fatalf("%q does not read back in the sparse form: %v", in, err)
		}
		if m.Size() > 64 { // a few words make a matrix whose dense text fills the disk
			return
		}
		out := text(m)
		back, err := ParseText("m", out)
		if err != nil || !back.Equal(m) || !bytes.Equal(text(back), out) {
			t.Fatalf("%q does not read back: %v", out, err)
		}
		checkAgainst(t, m, dense(m))
	})
}

func benchmarkText(b *testing.B) (*Matrix, []byte) {
	m := sure(Random(1024, 1, 1, 1<<32, 1))
	out := text(m)
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	return m, out
}

func BenchmarkParseText(b *testing.B) {
	_, out := benchmarkText(b)
	for b.Loop() {
		if _, err := ParseText("m", out); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadText(b *testing.B) {
	_, out := benchmarkText(b)
	for b.Loop() {
		if _, err := ReadText("m", bytes.NewReader(out)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParseUnits reads what the original generator writes.
func BenchmarkParseUnits(b *testing.B) {
	out := []byte(strings.Repeat(strings.Repeat("977.89M ", 1024)+"\n", 1024))
	b.SetBytes(int64(len(out)))
	for b.Loop() {
		if _, err := ParseText("m", out); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteText(b *testing.B) {
	m, _ := benchmarkText(b)
	for b.Loop() {
		must.Do(b, m.WriteText(io.Discard))
	}
}

// BenchmarkSparse64 reads and holds what a run of a thousand patterns holds.
func BenchmarkSparse64(b *testing.B) {
	out := text(sure(Ring(64, 1<<20, 32)))
	b.ReportAllocs()
	var held []*Matrix
	for b.Loop() {
		held = held[:0]
		for range 1000 {
			held = append(held, sure(ParseText("m", out)))
		}
	}
	runtime.KeepAlive(held)
}

// What numpy.savetxt writes by default, with a header, with commas, and as whole numbers.
func TestReadTextOfNumpy(t *testing.T) {
	want := [][]int64{{0, 1048576}, {5, 0}}
	for name, text := range map[string]string{
		"default":         "0.000000000000000000e+00 1.048576000000000000e+06\n5.000000000000000000e+00 0.000000000000000000e+00\n",
		"header":          "# bytes from each rank\n# to each rank, 1,2,3\n0 1048576\n5 0\n",
		"commas":          "0,1048576\n5,0\n",
		"comma and blank": "0, 1M\n5 , 0\n",
		"semicolons":      "0;1.0e+06\n5;0 # the end",
		"floats":          "0.0 1048576.0\n5.0 0.0\n",
	} {
		for how, read := range map[string]func() (*Matrix, error){
			"ReadText":      func() (*Matrix, error) { return ReadText("m.txt", strings.NewReader(text)) },
			"small buffers": func() (*Matrix, error) { return readText("m.txt", strings.NewReader(text), make([]byte, 80)) },
		} {
			m, err := read()
			if err != nil {
				t.Errorf("%s, %s: %v", name, how, err)
				continue
			}
			for i, row := range want {
				for k, bytes := range row {
					if name == "semicolons" && bytes == 1048576 {
						bytes = 1000000
					}
					if got := m.At(i, k); got != bytes {
						t.Errorf("%s, %s: cell %d, %d is %d, want %d", name, how, i, k, got, bytes)
					}
				}
			}
		}
	}
}
