package result

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/size"
)

// CheckName refuses a file name whose ending names no format.
func CheckName(path string) error {
	switch {
	case strings.HasSuffix(path, ".json"), strings.HasSuffix(path, ".json.gz"), strings.HasSuffix(path, ".json.zst"):
		return nil
	}
	return fault.New(fault.Usage, "result file %s: the name must end in .json, .json.gz or .json.zst", path)
}

// CheckWritable finds out, before anything is measured, whether a file can be
// written: its folder must exist and take a file. flag is the option that named it.
func CheckWritable(flag, path string) error {
	err := file.CanWrite(path)
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.ENAMETOOLONG) {
		err = fmt.Errorf("its name is too long for the file system: %d bytes", len(filepath.Base(path)))
	}
	return fault.New(fault.Output, "%s: cannot write %s: %w", flag, path, err).
		WithHint("make the folder writable, or name another file with %s", flag)
}

// Write replaces the file at path by the document.
func (d *Document) Write(path string) error {
	_, err := d.WriteClaimed(context.Background(), file.At(path))
	return err
}

// WriteSoon is Write for a process that may be killed at any moment: a slow disk does not
// keep the document from its place.
func (d *Document) WriteSoon(path string) error { return d.WriteClaimedSoon(file.At(path)) }

// WriteClaimedSoon is WriteSoon to the place that claim says.
func (d *Document) WriteClaimedSoon(claim file.Claim) error {
	ended, end := context.WithCancel(context.Background())
	end()
	_, err := d.WriteClaimed(ended, claim)
	return err
}

// WriteClaimed is Write to the place that claim says. Once ctx has ended it is WriteClaimedSoon: then the process may
// be killed. It returns what it has put there.
func (d *Document) WriteClaimed(ctx context.Context, claim file.Claim) (fs.FileInfo, error) {
	path, _ := claim(false)
	if err := CheckName(path); err != nil {
		return nil, err
	}
	return file.WriteClaimed(ctx, claim, func(w io.Writer) error {
		z, err := Compress(w, filepath.Ext(path))
		if err != nil {
			return err
		}
		return errors.Join(d.Encode(z), z.Close())
	})
}

// Read reads a result. How it is compressed is seen from the data, whatever the
// name. Every index in the document is within what it points into.
func Read(path string) (*Document, error) {
	var list []Measurement
	d, err := Scan(path, func(_ *Document, m *Measurement) error {
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

// Unpack returns the JSON text of a result, however it is compressed.
func Unpack(r io.Reader) ([]byte, error) {
	in, done, err := open(r)
	if err != nil {
		return nil, err
	}
	defer done()
	return io.ReadAll(in)
}

// Head returns the first n bytes of the JSON text of a result, or what there is of them, however it is compressed.
func Head(r io.Reader, n int64) []byte {
	in, done, err := open(r)
	if err != nil {
		return nil
	}
	defer done()
	head, _ := io.ReadAll(io.LimitReader(in, n)) // a text that ends early is judged by what there is
	return head
}

// skippable reports whether a zstd stream begins with a frame that its readers pass over, as pzstd and others write it.
func skippable(head []byte) bool {
	return len(head) == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], []byte{0x2a, 0x4d, 0x18})
}

// The bounds of reading.
const (
	// maxSize bounds the JSON text of any result: as much as all that may be recorded on a host of 2 TB makes
	// (experiment.keptShare), so that what is written can be read.
	maxSize = 1 << 40
	// maxWindow bounds how much of its past a zstd stream may refer to.
	maxWindow = 32 << 20
)

// counted counts the bytes of a text, and refuses more than [maxSize].
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n += int64(n); c.n > maxSize {
		return 0, fmt.Errorf("more than %s of JSON", size.Binary(maxSize))
	}
	return n, err
}

// open returns the JSON text of a result as a stream, and what to call after it.
func open(r io.Reader) (text *counted, done func(), err error) {
	buffered := bufio.NewReader(r)
	head, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	zstdMagic, gzipMagic := []byte{0x28, 0xb5, 0x2f, 0xfd}, []byte{0x1f, 0x8b}
	switch {
	case len(head) > 0 && len(head) < 4 && (bytes.HasPrefix(zstdMagic, head) || bytes.HasPrefix(gzipMagic, head)):
		return nil, nil, io.ErrUnexpectedEOF
	case bytes.HasPrefix(head, zstdMagic), skippable(head):
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxMemory(maxSize), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return &counted{r: z}, z.Close, nil
	case bytes.HasPrefix(head, gzipMagic):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, cutOff(err)
		}
		return &counted{r: z}, func() { z.Close() }, nil
	}
	return &counted{r: buffered}, func() {}, nil
}

// Compress returns what compresses a result into a file whose name has the given ending: .gz, .zst, or another for
// none. It must be closed.
func Compress(w io.Writer, ending string) (io.WriteCloser, error) {
	switch ending {
	case ".zst":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	case ".gz":
		return gzip.NewWriter(w), nil
	}
	return plain{w}, nil
}

// plain compresses nothing.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }
