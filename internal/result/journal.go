package result

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
)

// PartEnding ends the name of the journal of a result, which lies beside it.
const PartEnding = ".part"

// ErrBusy is in the chain of the error of a journal to which another job is writing.
var ErrBusy = errors.New("another job is writing to it")

// A journal begins with journalMagic. Then come records: a byte that says of which kind it is, the number of bytes of
// what it holds, the CRC-32C of both and of these, and the bytes. What a killed process leaves unfinished is last.
const (
	journalMagic = "perigee.part/1\n"
	recordHead   = 1 + 4 + 4
	maxRecord    = 1 << 30 // bytes, of a member that is not measurements; these come in pieces
	runsPiece    = 1 << 20 // bytes of measurements, about, after which a record ends
)

// The kinds of records.
const (
	changes = 'c' // a list of changes of the document without its measurements, in JSON
	runs    = 'm' // measurements that are new
	again   = 'a' // measurements that are there, and have changed
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// change is one of the document as JSON: what is at a place, a path of names and indexes, is set, or a list that is
// there grows.
type change struct {
	At  []any           `json:"at"`
	Set json.RawMessage `json:"set,omitempty"`
	Add json.RawMessage `json:"add,omitempty"`
}

// Journal is a file beside a result to which is added what is new in the document, while a run goes on. It outlasts the
// death of the process, but not always a loss of power.
type Journal struct {
	path string
	file *os.File
	size int64 // of all whole records

	told told
	old  int64 // bytes of records that later ones have replaced, about
}

// Orphan gives a journal of a job that no longer runs another name, so that a later job can have its own there. It
// returns that name, "" if there is no such journal.
func Orphan(path string) (aside string, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: it is no file", path)
	}
	if err := lock(f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if !at(f, path) {
		return "", nil // its job has ended this moment
	}
	if info.Size() <= int64(len(journalMagic)) {
		return "", os.Remove(path) // it holds nothing
	}
	return file.MoveAside(path)
}

// at reports whether an open file is still at a path.
func at(f *os.File, path string) bool {
	mine, err := f.Stat()
	there, missing := os.Lstat(path)
	return err == nil && missing == nil && os.SameFile(mine, there)
}

// lock marks a journal as that of a process that lives. Where the file system has no locks nothing is known of others.
func lock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return ErrBusy
	}
	return nil
}

// NewJournal begins a journal, where nothing is.
func NewJournal(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	j := &Journal{path: path, file: f}
	if err := lock(f); err != nil || !at(f, path) { // before it was locked another took it for an orphan
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	if _, err := f.WriteString(journalMagic); err != nil {
		return nil, errors.Join(err, j.Remove())
	}
	j.size = int64(len(journalMagic))
	return j, nil
}

// Path is where the journal is.
func (j *Journal) Path() string { return j.path }

// Append adds what is new in the document since the last time. changed are measurements that were there and have been
// changed since. If it fails, the next one adds it.
func (j *Journal) Append(d *Document, changed []int) error {
	var data bytes.Buffer
	told, old, err := j.told.next(&data, d, changed)
	if err != nil {
		return err
	}
	if data.Len() == 0 {
		return nil
	}
	if _, err := j.file.WriteAt(data.Bytes(), j.size); err != nil {
		j.file.Truncate(j.size) // or the next one does it
		return err
	}
	j.told, j.old, j.size = told, j.old+old, j.size+int64(data.Len())
	return nil
}

// Empty reports whether nothing is in the journal yet.
func (j *Journal) Empty() bool { return j.size <= int64(len(journalMagic)) }

// Stale reports whether much of the journal is out of date, so that Restart is due.
func (j *Journal) Stale() bool { return j.old > max(1<<22, j.size/2) }

// Restart replaces the journal by one of the document as it is, which may have lost measurements since the last time.
func (j *Journal) Restart(d *Document) error {
	var data bytes.Buffer
	fresh, _, err := told{}.next(&data, d, nil)
	if err != nil {
		return err
	}
	err = file.Write(j.path, func(w io.Writer) error {
		io.WriteString(w, journalMagic)
		_, err := w.Write(data.Bytes())
		return err
	})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(j.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	j.file.Close()
	lock(f) // a moment ago it was this process's, too
	j.file, j.told, j.old, j.size = f, fresh, 0, int64(len(journalMagic)+data.Len())
	return nil
}

// Close ends the writing. The journal stays.
func (j *Journal) Close() error { return j.file.Close() }

// Remove ends it and deletes the file.
func (j *Journal) Remove() error { return errors.Join(os.Remove(j.path), j.file.Close()) }

// appendRecord writes a record.
func appendRecord(to *bytes.Buffer, kind byte, data []byte) {
	head := make([]byte, recordHead)
	head[0] = kind
	binary.LittleEndian.PutUint32(head[1:], uint32(len(data)))
	sum := crc32.Update(crc32.Checksum(head[:5], castagnoli), castagnoli, data)
	binary.LittleEndian.PutUint32(head[5:], sum)
	to.Write(head)
	to.Write(data)
}

// readRecord reads the next record. What is not whole, or not as it was written, is io.EOF as the end is: a process
// was killed at it, or is still at it.
func readRecord(r io.Reader) (kind byte, data []byte, err error) {
	var head [recordHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, ended(err)
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > maxRecord {
		return 0, nil, io.EOF
	}
	var text bytes.Buffer // which takes no more than there is
	if _, err := io.CopyN(&text, r, int64(n)); err != nil {
		return 0, nil, ended(err)
	}
	sum := crc32.Update(crc32.Checksum(head[:5], castagnoli), castagnoli, text.Bytes())
	if sum != binary.LittleEndian.Uint32(head[5:]) {
		return 0, nil, io.EOF
	}
	return head[0], text.Bytes(), nil
}

// ended makes one error of the ends that a journal may have.
func ended(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// told is what a journal holds already.
type told struct {
	members map[string]uint64 // of those that are written as a whole, by their hash
	lists   map[string]int    // how many elements of those that only grow
	metrics []toldMetric
	rows    []int  // of each table
	lanes   uint64 // the hash of the last of the lanes, whose measurement may go on
	values  *node
	runs    int
}

type toldMetric struct{ values, sets, labels int }

// next writes what is new in a document, and returns what is told by then, and how many bytes are out of date with it.
func (t told) next(to *bytes.Buffer, d *Document, changed []int) (told, int64, error) {
	n := told{map[string]uint64{}, map[string]int{}, slices.Clone(t.metrics), slices.Clone(t.rows), 0, nil, t.runs}
	w := newTeller()
	head := *d
	head.Scenario.Options = finiteMap(d.Scenario.Options)
	for _, m := range head.members() {
		switch m.name {
		case "measurements":
		case "inputs":
			n.lists[m.name] = grow(w, t.lists, m.name, d.Inputs)
		case "matrices":
			n.lists[m.name] = grow(w, t.lists, m.name, d.Matrices)
		case "patterns":
			fresh := slices.Clone(d.Patterns[min(t.lists[m.name], len(d.Patterns)):])
			for i := range fresh {
				fresh[i].Metadata = finiteMap(fresh[i].Metadata)
			}
			w.add(fresh, len(fresh), m.name)
			n.lists[m.name] = len(d.Patterns)
		case "storage":
			n.lists[m.name] = grow(w, t.lists, m.name, d.Storage)
		case "lanes":
			n.lanes = w.lanes(d.Lanes, t.lists[m.name], t.lanes)
			n.lists[m.name] = len(d.Lanes)
		case "metrics":
			n.metrics = w.metrics(n.metrics, d.Metrics)
		case "tables":
			n.rows = w.tables(n.rows, d.Tables)
		case "values":
			n.values = w.diff([]any{m.name}, anyMap(finiteMap(d.Values)), t.values)
		default:
			sum, known := t.members[m.name]
			n.members[m.name] = w.set(m.name, m.value.Interface(), sum, known, m.optional && empty(m.value))
		}
	}
	if err := w.append(to); err != nil {
		return told{}, 0, fault.New(fault.Internal, "encode the result: %w", err)
	}
	appendAgain(to, d.Measurements[:t.runs], changed)
	appendRuns(to, d.Measurements, t.runs)
	n.runs = len(d.Measurements)
	return n, w.old, nil
}

// anyMap is nil for no map.
func anyMap(m map[string]any) any {
	if m == nil {
		return nil
	}
	return m
}

// grow notes the new elements of a list, whose others do not change.
func grow[T any](w *teller, lists map[string]int, name string, list []T) int {
	from := min(lists[name], len(list))
	w.add(list[from:], len(list)-from, name)
	return len(list)
}

// teller gathers the changes of a document.
type teller struct {
	changes []change
	old     int64
	text    bytes.Buffer
	json    *json.Encoder
	err     error
}

func newTeller() *teller {
	w := &teller{}
	w.json = json.NewEncoder(&w.text)
	w.json.SetEscapeHTML(false)
	return w
}

// append writes the changes, if there are any, as a record.
func (w *teller) append(to *bytes.Buffer) error {
	if w.err != nil || len(w.changes) == 0 {
		return w.err
	}
	text, err := json.Marshal(w.changes)
	if err == nil {
		appendRecord(to, changes, text)
	}
	return err
}

// encode returns a value as JSON.
func (w *teller) encode(v any) []byte {
	w.text.Reset()
	if err := w.json.Encode(v); err != nil {
		w.err = errors.Join(w.err, err)
	}
	return bytes.Clone(bytes.TrimSuffix(w.text.Bytes(), []byte("\n")))
}

// set notes a member that is not as it was, and returns its hash, 0 while it is empty and need not be told.
func (w *teller) set(name string, v any, before uint64, known, none bool) uint64 {
	if none && before == 0 {
		return 0
	}
	text := w.encode(v)
	sum := hash(text)
	if known && sum == before {
		return sum
	}
	w.changes = append(w.changes, change{At: []any{name}, Set: text})
	if known {
		w.old += int64(len(text))
	}
	return sum
}

// add notes n new elements of a list. The first ones make the list.
func (w *teller) add(list any, n int, at ...any) {
	if n > 0 {
		w.changes = append(w.changes, change{At: at, Add: w.encode(list)})
	}
}

// lanes notes the measurements that came to so many known ones, and the last of these again if its hash is another. It
// returns the hash of the last now.
func (w *teller) lanes(list []Lanes, known int, before uint64) (last uint64) {
	if known = min(known, len(list)); known > 0 {
		text := w.encode(list[known-1])
		if last = hash(text); last != before {
			w.changes = append(w.changes, change{At: []any{"lanes", known - 1}, Set: text})
			w.old += int64(len(text))
		}
	}
	if known < len(list) {
		w.add(list[known:], len(list)-known, "lanes")
		last = hash(w.encode(list[len(list)-1]))
	}
	return last
}

func (w *teller) metrics(known []toldMetric, list []Metric) []toldMetric {
	if len(known) < len(list) {
		w.add(list[len(known):], len(list)-len(known), "metrics")
	}
	for i := range list {
		m := &list[i]
		now := toldMetric{len(m.Values), len(m.LabelSets), len(m.Labels)}
		if i >= len(known) {
			known = append(known, now)
			continue
		}
		k := known[i]
		w.add(m.Values[k.values:], now.values-k.values, "metrics", i, "values")
		w.add(m.TimesNS[k.values:], now.values-k.values, "metrics", i, "times_ns")
		w.add(m.LabelSets[k.sets:], now.sets-k.sets, "metrics", i, "label_sets")
		w.add(m.Labels[k.labels:], now.labels-k.labels, "metrics", i, "labels")
		known[i] = now
	}
	return known
}

func (w *teller) tables(known []int, list []Table) []int {
	fresh := slices.Clone(list[len(known):])
	for i := range fresh {
		fresh[i].Rows = finiteRows(fresh[i].Rows)
	}
	for i, rows := range known {
		more := finiteRows(list[i].Rows[rows:])
		w.add(more, len(more), "tables", i, "rows")
		known[i] = len(list[i].Rows)
	}
	w.add(fresh, len(fresh), "tables")
	for i := range fresh {
		known = append(known, len(fresh[i].Rows))
	}
	return known
}
