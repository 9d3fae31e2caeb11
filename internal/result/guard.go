package result

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"perigee/internal/size"
)

// A result may come from anybody, and a few hundred kilobytes of zstd can unpack to gigabytes. What reading one may
// take is therefore bounded in proportion to what was read of the file so far:
//
//	JSON text:      8 MiB + 128 x bytes of the file
//	memory for it: 96 MiB + 256 x bytes of the file
//	the file:       1 MiB + 2 x bytes of the text
//
// The last is against what is no text, and may take no room on the disk.
//
// The memory is estimated while the text passes by, before anything is made from it. A file without compression never
// meets these bounds. One that perigee has compressed is 5 to 35 times smaller than its text, or as large as it must
// be for them (see packer).
const (
	baseText      = 8 << 20
	baseMemory    = 96 << 20
	baseFile      = 1 << 20
	textPerByte   = 128
	filePerByte   = 2
	memoryPerByte = 256

	// Several results that are kept together may take twice the base, and four times as much for each byte: real ones
	// take far less of either.
	keptMemory        = 2 * baseMemory
	keptMemoryPerByte = 4 * memoryPerByte

	// maxSize bounds the JSON text of any result: as much as all that may be recorded on a host of 2 TB makes
	// (experiment.keptShare), so that what is written can be read.
	maxSize = 1 << 40
	// maxWindow bounds how much of its past a zstd stream may refer to.
	maxWindow = 32 << 20
	// maxSpace bounds the white space in one place: a reader of JSON keeps it until a value follows.
	maxSpace = 1 << 20
)

// Kept bounds what results take that are kept together, as those of a command line: files that are each within the
// bounds could fill the memory together. The zero value is ready; nil bounds each result alone.
type Kept struct{ bytes, memory int64 } // of the results that have been read

// Read is [Read] of a further result.
func (k *Kept) Read(path string) (*Document, error) {
	var list []Measurement
	d, err := k.Scan(path, func(_ *Document, m *Measurement) error {
		list = append(list, *m)
		*m = Measurement{} // its lists are ours now
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.Measurements = list
	return d, nil
}

// Scan is [Scan] of a further result.
func (k *Kept) Scan(path string, visit Visit) (*Document, error) {
	t, err := OpenText(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	t.text.kept = k
	d, err := t.Scan(visit)
	if k != nil && err == nil {
		k.bytes, k.memory = k.bytes+t.text.file.n, k.memory+t.text.memory
	}
	return d, err
}

// exceeded is the error of a result that takes too much together with those before it.
func (k *Kept) exceeded(file, memory int64) error {
	if k == nil || k.bytes == 0 || k.memory+memory <= keptMemory+(k.bytes+file)*keptMemoryPerByte {
		return nil
	}
	return bomb{fmt.Sprintf("together with the results before it, %d bytes would need more than %s of memory", k.bytes+file,
		size.Decimal(k.memory+memory))}
}

// What a value takes in memory, in bytes, at least as much as the types of this package do.
const (
	costElement = 512 // an object that is an element of a member of the document, such as a pattern
	costMap     = 400 // an object with any members
	costObject  = 80  // an object further inside
	costAny     = 64  // a list of anything
	costList    = 24
	costValue   = 16 // each further value of an object or a list
	costString  = 16 // more than another value, as is one of any kind
	costName    = 48 // of a member of a map, more than a string
	costLetter  = 4  // a byte of a text: where it is shown it may become several, in copies
	costByte    = 10 // beyond the first shortText
	shortText   = 40
	outerDepth  = 3 // of the elements of members
)

var (
	errTooLong = fmt.Errorf("more than %s of JSON", size.Binary(maxSize))
	errSpace   = fmt.Errorf("more than %s of white space in one place", size.Binary(maxSpace))
)

// bomb is the error of a text that is far larger than its file.
type bomb struct{ what string }

func (b bomb) Error() string {
	return "it takes far more than its file: " + b.what
}

// counted counts the bytes that are read of a file, as long as they are not far more than those of its text so far.
type counted struct {
	r    io.Reader
	n    int64
	text int64
	err  error // errNoText once there are: decompressors make another error of it
}

var errNoText = errors.New("it is far larger than its text")

func (c *counted) Read(p []byte) (int, error) {
	if c.n > baseFile+c.text*filePerByte {
		c.err = errNoText
		return 0, c.err
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// guard passes on the JSON text of a result as long as it stays within the bounds.
type guard struct {
	text io.Reader
	file *counted
	kept *Kept // nil for a result that is read alone

	bytes  int64 // of text so far
	memory int64 // estimated
	names  names
	space  int64 // white space since the last other character
	quoted bool  // inside a string
	escape bool  // after a backslash
	length int   // of the text in quotes
	bad    error // what is wrong with a name
	err    error
}

func newGuard(text io.Reader, file *counted) *guard {
	return &guard{text: text, file: file, names: names{seed: maphash.MakeSeed()}}
}

func (g *guard) Read(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	// json.Decoder looks at all white space again after each piece. Pieces as long as its buffer, which doubles, keep
	// that linear.
	n := 0
	for n < len(p) {
		k, err := g.text.Read(p[n:])
		g.weigh(p[n : n+k])
		g.bytes += int64(k)
		g.file.text = g.bytes
		n += k
		if g.err = g.exceeded(); g.err != nil {
			return 0, g.err // without the bytes, with which a reader of JSON would go on
		}
		if err != nil {
			return n, cmp.Or(g.file.err, err)
		}
	}
	return n, nil
}

// exceeded is the error of a text beyond its bounds.
func (g *guard) exceeded() error {
	switch file := g.file.n; {
	case g.bad != nil:
		return g.bad
	case g.bytes > maxSize:
		return errTooLong
	case g.space > maxSpace:
		return errSpace
	case g.bytes > baseText+file*textPerByte:
		return bomb{fmt.Sprintf("%d bytes unpack to more than %s of JSON", file, size.Decimal(g.bytes))}
	case g.memory > baseMemory+file*memoryPerByte:
		return bomb{fmt.Sprintf("%d bytes would need more than %s of memory", file, size.Decimal(g.memory))}
	}
	return g.kept.exceeded(g.file.n, g.memory)
}

// weigh estimates what the values in a piece of text will take.
func (g *guard) weigh(text []byte) {
	begin := 0 // of a name
	for i, c := range text {
		if !g.quoted && (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
			if g.space++; g.space > maxSpace {
				return // it stays so
			}
			continue
		}
		g.space = 0
		switch {
		case g.quoted && (g.escape || c != '"'):
			g.escape = c == '\\' && !g.escape
			g.memory += costLetter
			if g.length++; g.length > shortText {
				g.memory += costByte - costLetter
			}
		case g.quoted:
			g.quoted = false
			g.bad = g.names.end(text[begin:i])
		case c == '"':
			g.quoted, g.length = true, 0
			g.memory += costString
			if g.names.quote(); g.names.naming() {
				g.memory += costName
			}
			begin = i + 1
		case c == ',':
			g.memory += costValue
			if g.names.top().anything() {
				g.memory += costString
			}
			g.memory += g.bare()
			g.names.comma()
		case c == '{' || c == '[':
			g.bad = g.names.open(c == '{')
			g.memory += g.cost(c)
		case c == '}' || c == ']':
			g.names.close()
		}
		if g.bad != nil {
			return
		}
	}
	if g.quoted {
		g.names.part(text[begin:])
	}
}

// bare is what an element takes that is not written as what it becomes, but as a null, say: it is made whatever its
// type is all the same.
func (g *guard) bare() int64 {
	l := g.names.top()
	if l.anything() || l.shape.inside == nil {
		return 0
	}
	switch s := l.shape.inside; {
	case s.members != nil && l.begun != '{':
		return s.cost(g.names.depth + 1)
	case s.inside != nil && l.begun != '[' && l.begun != '{':
		return costList
	case s.text && l.begun != '"':
		return costString
	}
	return 0
}

func (g *guard) cost(opening byte) int64 {
	l := g.names.top()
	switch {
	case opening == '[' && l.anything():
		return costAny
	case opening == '[':
		return costList
	case l.shape == nil || l.shape.members == nil:
		return costMap
	}
	return l.shape.cost(g.names.depth)
}

// cost is what a struct takes as an object at a depth. A list of them has about as much room for more of them.
func (s *shape) cost(depth int) int64 {
	if depth <= outerDepth {
		return max(costElement, 2*s.size)
	}
	return max(costObject, 2*s.size)
}
