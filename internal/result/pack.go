package result

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// What is measured may be a million times the same, and shrink below what a [guard] lets pass. Who writes such a result
// makes its file larger, by filling between parts of the compressed text, so that it can be read.

// fillBytes is the size of a filling, and partBytes how much text is looked at before there may be one.
const (
	fillBytes = 1<<16 - 1 // as much as the header of gzip holds
	partBytes = 1 << 20
)

// compressor is a writer of zstd or gzip, which can begin anew behind what it has written.
type compressor interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// Compress returns what compresses a result into a file whose name has the given ending: .gz, .zst, or another for
// none. It must be closed.
func Compress(w io.Writer, ending string) (io.WriteCloser, error) {
	p := &packer{file: w, guard: newGuard(nil, nil)}
	switch ending {
	case ".zst":
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		p.z = z
		p.filling = binary.LittleEndian.AppendUint32([]byte{0x50, 0x2a, 0x4d, 0x18}, fillBytes) // a skippable frame
		p.filling = append(p.filling, make([]byte, fillBytes)...)
	case ".gz":
		var empty bytes.Buffer
		z := gzip.NewWriter(&empty)
		z.Extra = make([]byte, fillBytes)
		if err := z.Close(); err != nil {
			return nil, err
		}
		p.z, p.filling = z, empty.Bytes()
	default:
		return plain{w}, nil
	}
	p.z.Reset(intoFile{p})
	return p, nil
}

// plain compresses nothing.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// packer compresses text, and keeps the file large enough for it.
type packer struct {
	file          io.Writer
	z             compressor
	filling       []byte // a part of a file without any text
	stored, bytes int64  // in the file, and of text
	guard         *guard // which weighs the text as a reader's will
}

func (p *packer) Write(text []byte) (n int, err error) {
	for n < len(text) && err == nil {
		part := text[n:min(n+partBytes, len(text))]
		p.bytes += int64(len(part))
		p.guard.weigh(part)
		if err = p.fill(); err == nil {
			_, err = p.z.Write(part)
		}
		n += len(part)
	}
	return n, err
}

// fill makes the file as large as the text needs it.
func (p *packer) fill() error {
	lacks := func() bool {
		return p.bytes > baseText+p.stored*textPerByte || p.guard.memory > baseMemory+p.stored*memoryPerByte
	}
	if !lacks() {
		return nil
	}
	if err := p.z.Close(); err != nil {
		return err
	}
	for lacks() {
		if _, err := (intoFile{p}).Write(p.filling); err != nil {
			return err
		}
	}
	p.z.Reset(intoFile{p})
	return nil
}

func (p *packer) Close() error { return p.z.Close() }

// intoFile counts what a packer stores.
type intoFile struct{ p *packer }

func (f intoFile) Write(b []byte) (int, error) {
	n, err := f.p.file.Write(b)
	f.p.stored += int64(n)
	return n, err
}
