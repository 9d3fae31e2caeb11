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
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/internal/file"
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

// hurry is how long the last result of a process that is told to end waits for the disk.
// mpirun kills its ranks a second after it has told them.
const hurry = 200 * time.Millisecond

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
	return file.WriteClaimed(ctx, claim, hurry, func(w io.Writer) error {
		z, err := Compress(w, filepath.Ext(path))
		if err != nil {
			return err
		}
		return errors.Join(d.Encode(z), z.Close())
	})
}

// Read reads a result. How it is compressed is seen from the data, whatever the
// name. Every index in the document is within what it points into.
func Read(path string) (*Document, error) { return (*Kept)(nil).Read(path) }

// check makes sure that readers can follow every index but those of measurements.
func (d *Document) check() error {
	if d.World.Size < 1 || d.Status == "" {
		return errors.New("it lacks the world or the status of a run")
	}
	if err := d.checkNames(); err != nil {
		return err
	}
	for i, p := range d.Patterns {
		if p.Matrix < 0 || p.Matrix >= len(d.Matrices) {
			return fmt.Errorf("patterns[%d]: there is no matrix %d", i, p.Matrix)
		}
		if err := notBelowZero(optional("latency_ms", p.LatencyMS),
			optional("isolated_latency_ms", p.IsolatedLatencyMS), optional("slowdown", p.Slowdown),
			optional("mean_bandwidth_bytes_per_s", p.MeanBandwidth), whole("senders", int64(p.Senders))); err != nil {
			return fmt.Errorf("patterns[%d]: %w", i, err)
		}
	}
	runs := map[storageKey]bool{}
	for i, s := range d.Storage {
		if s.Pattern < 0 || s.Pattern >= len(d.Patterns) {
			return fmt.Errorf("storage[%d]: there is no pattern %d", i, s.Pattern)
		}
		if err := notBelowZero(span(s.StartNS, s.EndNS), whole("bytes", s.Bytes)); err != nil {
			return fmt.Errorf("storage[%d]: %w", i, err)
		}
		key := storageKey{s.Pattern, s.Phase, s.Rank, s.Op, s.Iteration}
		if runs[key] {
			return fmt.Errorf("storage[%d]: iteration %d of rank %d's %.40q of pattern %d in the phase %.40q is there twice", i,
				s.Iteration, s.Rank, s.Op, s.Pattern, s.Phase)
		}
		runs[key] = true
	}
	for i := range d.Lanes {
		if err := d.Lanes[i].checkFigures(); err != nil {
			return fmt.Errorf("lanes[%d]: %w", i, err)
		}
	}
	for i, in := range d.Inputs {
		if in.Matrix != nil && (*in.Matrix < 0 || *in.Matrix >= len(d.Matrices)) {
			return fmt.Errorf("inputs[%d]: there is no matrix %d", i, *in.Matrix)
		}
	}
	if n := len(d.Metrics); n > MaxMetrics {
		return fmt.Errorf("metrics: wanted at most %d, got %d", MaxMetrics, n)
	}
	names := map[string]bool{}
	for i := range d.Metrics {
		m := &d.Metrics[i]
		if names[m.Name] {
			return fmt.Errorf("metrics[%d]: %.80q is there twice", i, m.Name)
		}
		names[m.Name] = true
		if len(m.Values) != len(m.TimesNS) {
			return fmt.Errorf("metrics[%d]: %d values, but %d times", i, len(m.Values), len(m.TimesNS))
		}
		if err := d.checkLabels(m); err != nil {
			return fmt.Errorf("metrics[%d]: %w", i, err)
		}
	}
	for i := range d.Thresholds {
		if err := d.Thresholds[i].checkFigures(); err != nil {
			return fmt.Errorf("thresholds[%d]: %w", i, err)
		}
	}
	for i, t := range d.Tables {
		for k, row := range t.Rows {
			if len(row) != len(t.Columns) {
				return fmt.Errorf("tables[%d]: row %d has %d cells for %d columns", i, k, len(row), len(t.Columns))
			}
		}
	}
	return nil
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

// skippable reports whether a zstd stream begins with a frame that its readers pass over, as pzstd and others write it.
func skippable(head []byte) bool {
	return len(head) == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], []byte{0x2a, 0x4d, 0x18})
}

// open returns the JSON text of a result as a stream, within the bounds of a [guard], and what to call after it.
func open(r io.Reader) (text *guard, done func(), err error) {
	read := &counted{r: r}
	buffered := bufio.NewReader(read)
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
		return newGuard(z, read), z.Close, nil
	case bytes.HasPrefix(head, gzipMagic):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, cutOff(err)
		}
		return newGuard(z, read), func() { z.Close() }, nil
	}
	return newGuard(buffered, read), func() {}, nil
}
