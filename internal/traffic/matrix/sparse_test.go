package matrix

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// textOfMessages returns m in the sparse form.
func textOfMessages(m *Matrix) []byte {
	var out bytes.Buffer
	if err := m.WriteSparse(&out); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func TestWriteSparse(t *testing.T) {
	const rest = " # ranks, messages; then FROM TO BYTES of each\n"
	for want, rows := range map[string][][]int64{
		"sparse 1 0" + rest: {{0}},
		"sparse 1 1" + rest + "0 0 9223372036854775807\n":   {{9223372036854775807}},
		"sparse 3 3" + rest + "0 2 1\n2 0 5242880\n2 2 7\n": {{0, 0, 1}, {0, 0, 0}, {5 << 20, 0, 7}},
	} {
		if got := string(textOfMessages(sure(FromRows(rows)))); got != want {
			t.Errorf("%q: want %q", got, want)
		}
	}
	for _, n := range []int{1, 5000} { // the error comes at the end, or in between
		if err := sure(Ring(n, 5, 1)).WriteSparse(fullDisk{}); !errors.Is(err, errFullDisk) {
			t.Errorf("%d ranks: %v", n, err)
		}
	}
}

func TestReadSparse(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want [][]int64
	}{
		"plain":           {"sparse 2 2\n0 1 5\n1 0 7\n", [][]int64{{0, 5}, {7, 0}}},
		"no messages":     {"sparse 2 0", [][]int64{{0, 0}, {0, 0}}},
		"no last newline": {"sparse 1 1\n0 0 3", [][]int64{{3}}},
		"windows":         {"\ufeffsparse 2 1\r\n1 1 3\r\n\r\n", [][]int64{{0, 0}, {0, 3}}},
		"blanks, remarks": {"# of a test\n\n\t sparse  2 1 # here\n#0 0 1\n\n 01\t0 3#\n", [][]int64{{0, 0}, {3, 0}}},
		"units":           {"sparse 2 3\n0 0 1.5K\n0 1 1e6\n1 0 5MB\n", [][]int64{{1536, 1e6}, {5e6, 0}}},
		"commas":          {"sparse,2,2\n0,1, 5K\n1;0;7\n", [][]int64{{0, 5120}, {7, 0}}},
		"largest sum":     {"sparse 2 2\n0 1 9223372036854775806\n1 0 1", [][]int64{{0, 9223372036854775806}, {1, 0}}},
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

func TestReadSparseRefuses(t *testing.T) {
	long := strings.Repeat("0", maxCellChars+1)
	for _, c := range []struct{ text, want string }{
		{"sparse", "m.txt:1: wanted sparse RANKS MESSAGES, got only 1 of these words"},
		{"\nsparse 4\n", "m.txt:2: wanted sparse RANKS MESSAGES, got only 2 of these words"},
		{"sparse 4 0 ranks\n", "m.txt:1: wanted sparse RANKS MESSAGES, got a word more"},
		{"sparse 0 0\n", `m.txt:1: cell 2: wanted a number of ranks of 1 to 1048576, got "0"`},
		{"sparse 1048577 0\n", `m.txt:1: cell 2: wanted a number of ranks of 1 to 1048576, got "1048577"`},
		{"sparse 1K 0\n", `m.txt:1: cell 2: wanted a number of ranks of 1 to 1048576, got "1K"`},
		{"sparse 4 ranks\n", `m.txt:1: cell 3: wanted a number of messages of 0 to 67108864, got "ranks"`},
		{"sparse 4 67108865\n", `m.txt:1: cell 3: wanted a number of messages of 0 to 67108864, got "67108865"`},
		{"sparsely 4 1\n", `m.txt:1: cell 1: wanted a number of bytes such as 4096, 64K, 64MiB or 1e6, got "sparsely"`},
		{"0 sparse\n0 0\n", `m.txt:1: cell 2: wanted a number of bytes such as 4096, 64K, 64MiB or 1e6, got "sparse"`},
		{"0 0\nsparse 2 0\n", `m.txt:2: cell 1: wanted a number of bytes such as 4096, 64K, 64MiB or 1e6, got "sparse"`},
		{"sparse 4 1\nsparse 4 1\n", `m.txt:2: cell 1: wanted a rank of 0 to 3, got "sparse"`},
		{"sparse 4 1\n4 0 5\n", `m.txt:2: cell 1: wanted a rank of 0 to 3, got "4"`},
		{"sparse 4 1\n0 99999999999999999999 5\n", `m.txt:2: cell 2: wanted a rank of 0 to 3, got "99999999999999999999"`},
		{"sparse 4 1\n0 -1 5\n", `m.txt:2: cell 2: wanted a rank of 0 to 3, got "-1"`},
		{"sparse 4 1\n0 +1 5\n", `m.txt:2: cell 2: wanted a rank of 0 to 3, got "+1"`},
		{"sparse 4 1\n0 1.0 5\n", `m.txt:2: cell 2: wanted a rank of 0 to 3, got "1.0"`},
		{"sparse 4 1\n" + long + " 1 5\n", `m.txt:2: cell 1: wanted a rank of 0 to 3, got "` + long[:40] + `"`},
		{"sparse 4 1\n0 1 0\n", `m.txt:2: cell 3: wanted more than 0 bytes, got "0"`},
		{"sparse 4 1\n0 1 0.5B\n", `m.txt:2: cell 3: wanted more than 0 bytes, got "0.5B"`},
		{"sparse 4 1\n0 1 -5\n", `m.txt:2: cell 3: wanted 0 bytes or more, got "-5"`},
		{"sparse 4 1\n0 1 12Q\n", `m.txt:2: cell 3: wanted a number of bytes such as 4096, 64K, 64MiB or 1e6, got "12Q"`},
		{"sparse 4 1\n0 1 5" + long + "\n", `m.txt:2: cell 3: wanted at most 64 characters, got "5` + long[:39] + `"...`},
		{"sparse 4 1\n\n0 1 \n", "m.txt:3: wanted FROM TO BYTES, got only 2 of these words"},
		{"sparse 4 1\n0 1,\n", "m.txt:2: cell 3: wanted a number, got the end of the line"},
		{"sparse 4 1\n0,,1\n", "m.txt:2: cell 2: wanted a number, got ','"},
		{"sparse 4 1\n0 1 5 6\n", "m.txt:2: wanted FROM TO BYTES, got a word more"},
		{"sparse 4 1\n0 1 5 MB\n", "m.txt:2: wanted FROM TO BYTES, got a word more"},
		{"sparse 4 1\n\x00\xff 1 5\n", `m.txt:2: cell 1: wanted a rank of 0 to 3, got "\x00\xff"`},
		{"# a\nsparse 4 2\n0 1 5\n\n", "m.txt: wanted 2 messages, as line 2 says, got 1"},
		{"# a\nsparse 4 1\n0 1 5\n\n1 0 5\n", "m.txt:5: wanted 1 messages, as line 2 says, got one more"},
		{"sparse 4 0\n0 1 5\n", "m.txt:2: wanted 0 messages, as line 1 says, got one more"},
		{"sparse 4 2\n3 0 5\n3 0 5\n", "m.txt:3: wanted one message from 3 to 0, got another one"},
		{"sparse 4 2\n3 1 5\n3 0 5\n", "m.txt:3: wanted lines in the order of senders, then of receivers, got 3 0 after 3 1"},
		{"sparse 4 2\n3 1 5\n0 2 5\n", "m.txt:3: wanted lines in the order of senders, then of receivers, got 0 2 after 3 1"},
		{"sparse 4 2\n0 1 9223372036854775807\n\n1 0 1\n", "m.txt:4: wanted a matrix whose sum is at most 9223372036854775807 bytes, got more by this message"},
		{"sparse 4 1\n0 1 9223372036854775808\n", `m.txt:2: cell 3: wanted at most 9223372036854775807 bytes, got "9223372036854775808"`},
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

// Both forms of a matrix read back to it, wherever the blocks of the text are cut.
func TestSparseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMatrix(t)
		for _, out := range [][]byte{textOfMessages(m), text(m)} {
			back, err := readText("m", bytes.NewReader(out), make([]byte, rapid.IntRange(shortBlock, 200).Draw(t, "buffer")))
			if err != nil || !back.Equal(m) {
				t.Fatalf("%q: %v", out, err)
			}
		}
	})
	large := sure(Random(300, 0.7, 1, 1<<40, 5))
	out := textOfMessages(large)
	if len(out) < blockBytes {
		t.Fatalf("%d bytes of text: want more than a block of %d", len(out), blockBytes)
	}
	if back, err := ReadText("m", iotest.HalfReader(bytes.NewReader(out))); err != nil || !back.Equal(large) {
		t.Error("not the same matrix", err)
	}
}

// No text cut short is one, except within the last number.
func TestSparseOfParts(t *testing.T) {
	whole := textOfMessages(sure(Ring(5, 7, 1)))
	for length := range len(whole) - 1 { // without the last newline it is whole
		if _, err := ParseText("m", whole[:length]); fault.KindOf(err) != fault.Input {
			t.Errorf("%d of %d bytes are a matrix: %v", length, len(whole), err)
		}
	}
}

// The two examples of the documentation are one matrix.
func TestDocumentedForms(t *testing.T) {
	page := must.Read(t, "../../../docs/scenarios.md")
	_, section, _ := strings.Cut(string(page), "\n## Matrices\n")
	blocks := strings.Split(section, "```\n")
	if len(blocks) < 4 || !strings.HasPrefix(blocks[3], sparseWord) {
		t.Fatal("the section on matrices does not begin with a dense and a sparse example")
	}
	if a, b := sure(ParseText("dense", []byte(blocks[1]))), sure(ParseText("sparse", []byte(blocks[3]))); !a.Equal(b) {
		t.Errorf("%q and %q differ", blocks[1], blocks[3])
	}
}
