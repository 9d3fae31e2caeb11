package result

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/size"
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
	if err := file.CanWrite(path); err != nil {
		remedy := "make the folder writable"
		if folder := file.Missing(path); folder != "" {
			remedy = "mkdir -p " + folder
		}
		return fault.New(fault.Output, "%s: cannot write %s: %w", flag, path, err).
			WithHint("%s, or name another file with %s", remedy, flag)
	}
	return nil
}

// Write replaces the file at path by the document.
func (d *Document) Write(path string) error {
	_, err := d.WriteClaimed(context.Background(), file.At(path))
	return err
}

// WriteClaimed is Write to the place that claim says. Once ctx has ended, a slow disk does not keep the document from
// its place: the process may be killed at any moment. It returns what it has put there.
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
	isZstd := len(head) == 4 && !errors.Is(new(zstd.Header).Decode(head), zstd.ErrMagicMismatch)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f}): // no JSON begins so, also where the file is cut off behind it
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, cutOff(err)
		}
		return &counted{r: z}, func() { z.Close() }, nil
	case bytes.HasPrefix(head, []byte{0x28}), isZstd:
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxMemory(maxSize), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return &counted{r: z}, z.Close, nil
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

// In lists the results that a path stands for: itself, or those that lie directly in a folder, by the endings of their
// names. A folder without any is an error of the kind Input.
func In(path string) ([]string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fault.New(fault.Input, "folder of results: %w", err)
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && CheckName(e.Name()) == nil {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fault.New(fault.Input, "the folder %s holds no result (.json, .json.gz, .json.zst)", path)
	}
	return files, nil
}
