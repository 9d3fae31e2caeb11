package result

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// A journal is read as the text of the document that it makes, so that nothing else that reads results knows of
// journals. It is read twice: what is not measurements first, since a later record may change what stands in front of
// them in the text.

// isJournal reports whether a file is a journal.
func isJournal(f *os.File) bool {
	head := make([]byte, len(journalMagic))
	n, _ := f.ReadAt(head, 0)
	return string(head[:n]) == journalMagic
}

// part is a journal that was read but for its measurements.
type part struct {
	in    io.ReaderAt
	size  int64 // of what is whole
	rest  int64 // bytes behind that, which are damaged or unfinished
	head  *Document
	count int                  // measurements
	again map[int]*Measurement // those that have changed later
}

// readPart reads a journal of so many bytes. Another process may be at work on it.
func readPart(in io.ReaderAt, size int64) (*part, error) {
	p := &part{in: in, size: int64(len(journalMagic)), again: map[int]*Measurement{}}
	tree := map[string]any{}
	err := p.records(size, func(kind byte, data []byte) error {
		switch kind {
		case changes:
			return applyAll(tree, data)
		case runs:
			return unpackRuns(data, func(i int, m *Measurement) bool {
				if i == p.count {
					p.count++
				}
				return true
			})
		case again:
			return unpackAgain(data, func(i int, m *Measurement) { p.again[i] = m })
		}
		return fmt.Errorf("it has a record of kind %q, which this perigee does not know", kind)
	})
	if err != nil {
		return nil, err
	}
	p.rest = size - p.size
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	p.head = &Document{}
	if len(tree) == 0 {
		if p.rest > 0 {
			return nil, fmt.Errorf("nothing of this journal can be read: its %d bytes are damaged or unfinished", size)
		}
		return nil, hinted{errors.New("it is a journal in which nothing is yet"),
			"its job ended before it had measured anything, or its disk was full"}
	}
	return p, json.Unmarshal(text, p.head)
}

// Part returns the document of a journal without its measurements, and how many bytes it has.
func Part(path string) (head *Document, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	p, err := partOf(f)
	if err != nil {
		return nil, 0, inputError(path, err)
	}
	return p.head, p.size, nil
}

// FailPart adds to the journal of a job that has ended why it has, unless it says that.
func FailPart(path string, failure *Failure) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	p, err := partOf(f)
	if err != nil || p.head.Failure != nil {
		return err
	}
	w := newTeller()
	w.set("failure", failure, 0, false, false)
	w.set("finished", time.Now().UTC(), 0, false, false)
	var record bytes.Buffer
	if err := w.append(&record); err != nil {
		return err
	}
	_, err = f.WriteAt(record.Bytes(), p.size)
	return err
}

// partOf reads an open journal.
func partOf(f *os.File) (*part, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !isJournal(f) {
		return nil, errors.New("it is no journal")
	}
	return readPart(f, info.Size())
}

// records hands the records of the first so many bytes to each, and notes where they end.
func (p *part) records(size int64, each func(kind byte, data []byte) error) error {
	start := int64(len(journalMagic))
	in := bufio.NewReaderSize(io.NewSectionReader(p.in, start, max(size-start, 0)), 1<<16)
	for {
		kind, data, err := readRecord(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(kind, data)
		}
		if err != nil {
			return err
		}
		start += recordHead + int64(len(data))
		p.size = start
	}
}

// text writes the document as JSON.
func (p *part) text(w io.Writer) error {
	var failed error
	err := p.head.encodeWith(w, p.count > 0, func(yield func(*Measurement) bool) {
		next, on := 0, true
		failed = p.records(p.size, func(kind byte, data []byte) error {
			if kind != runs || !on {
				return nil
			}
			return unpackRuns(data, func(i int, m *Measurement) bool {
				if i != next {
					return true
				}
				if now := p.again[i]; now != nil {
					m = now
				}
				next, on = next+1, yield(m)
				return on
			})
		})
	})
	return errors.Join(failed, err)
}

// applyAll makes changes to a document.
func applyAll(tree map[string]any, text []byte) error {
	var list []change
	in := json.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(&list); err != nil {
		return err
	}
	for _, c := range list {
		if err := c.apply(tree); err != nil {
			return fmt.Errorf("it changes what is not there: %v: %w", c.At, err)
		}
	}
	return nil
}

// errPlace is the error of a place that a document does not have.
var errPlace = errors.New("no such place")

// apply makes a change to a document.
func (c change) apply(tree map[string]any) error {
	if len(c.At) == 0 {
		return errPlace
	}
	var at any = tree
	for _, step := range c.At[:len(c.At)-1] {
		next := place(at, step)
		if next == nil {
			return errPlace
		}
		at = *next
	}
	last := c.At[len(c.At)-1]
	name, isName := last.(string)
	m, isMap := at.(map[string]any)
	if isMap && isName {
		v, err := c.value(m[name])
		m[name] = v
		return err
	}
	old := place(at, last)
	if old == nil {
		return errPlace
	}
	v, err := c.value(*old)
	*old = v
	return err
}

// value is what is at a place after a change.
func (c change) value(old any) (any, error) {
	if c.Add == nil {
		return number64(c.Set)
	}
	list, ok := old.([]any)
	if old != nil && !ok {
		return nil, errPlace
	}
	more, err := number64(c.Add)
	if err != nil {
		return nil, err
	}
	added, ok := more.([]any)
	if !ok {
		return nil, errPlace
	}
	return append(list, added...), nil
}

// number64 decodes JSON without loss of digits.
func number64(text json.RawMessage) (v any, err error) {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	return v, in.Decode(&v)
}

// place is where an element of a list is, or a copy of one of a map; nil where there is none.
func place(of, step any) *any {
	switch of := of.(type) {
	case map[string]any:
		name, _ := step.(string)
		v := of[name]
		return &v
	case []any:
		if i, ok := step.(float64); ok && i >= 0 && int(i) < len(of) && float64(int(i)) == i {
			return &of[int(i)]
		}
	}
	return nil
}

// NewerPart returns the journal beside a result that a later job has left or is at work on; empty if there is none.
func NewerPart(path string) string {
	of, err := os.Stat(path)
	part, none := os.Stat(path + PartEnding)
	if err != nil || none != nil || !part.Mode().IsRegular() || !part.ModTime().After(of.ModTime()) {
		return ""
	}
	return path + PartEnding
}
