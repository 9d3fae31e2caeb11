// Package conf reads configuration documents and keeps track of where every
// value stands, so that a mistake in a file of a thousand lines is reported
// with its line and the way to it.
//
// YAML, JSON and TOML become one form, a tree of [Value]s: [Load] and [Parse].
// A [Schema] says which keys are known and what they hold. [Schema.Check]
// compares a tree with it, fills in defaults and returns a tree in which every
// value has the type the schema promises. A schema is plain data: Go code
// writes it as a literal, a script as a table ([SchemaFrom]).
//
// JSON is not read as the YAML that it nearly is: the YAML library refuses pairs of surrogates ("\ud83d\ude00") and
// takes what JSON forbids, such as keys without quotes, 01, a comma at the end and line breaks in text.
//
// All errors are of the kind [fault.Input] unless stated otherwise. Only the
// first mistake in the order of the document is reported. A key that is given
// twice, an unknown key, a second YAML document are mistakes in all formats.
package conf

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
)

// The limits of a document.
const (
	MaxBytes = 64 << 20 // of text
	maxDepth = 100      // lists and maps inside each other
)

// format is one way to write a document.
type format struct {
	name       string
	extensions []string
	read       func(top *Value, text []byte) error
}

var formats = []format{
	{"YAML", []string{".yaml", ".yml"}, readYAML},
	{"JSON", []string{".json"}, readJSON},
	{"TOML", []string{".toml"}, readTOML},
}

// formatOf finds the format that a file's name stands for.
func formatOf(name string) (format, error) {
	extension := strings.ToLower(filepath.Ext(name))
	if _, ok := file.Descriptor(name); ok { // a pipe has no ending
		extension = ".yaml"
	}
	for _, f := range formats {
		if slices.Contains(f.extensions, extension) {
			return f, nil
		}
	}
	return format{}, fault.New(fault.Input, "%s: wanted a file that ends in .yaml or .yml (YAML), .json (JSON) or .toml (TOML)", name)
}

// Readable reports whether a file's name ends as that of a document does.
func Readable(name string) bool {
	_, err := formatOf(name)
	return err == nil
}

// Load reads the document in a file. Its name determines the format, as in [Parse].
func Load(path string) (*Value, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() { // of a folder Read says what is in it
		if _, err := formatOf(path); err != nil {
			return nil, err
		}
	}
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Read reads the text that Load parses.
func Read(path string) ([]byte, error) {
	f, err := file.Open(path)
	switch {
	case errors.Is(err, unix.EISDIR):
		return nil, folder(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.Input, "%s: there is no such file", path).
			WithHint("check the spelling; a relative path starts at the current folder")
	case err != nil:
		return nil, fault.New(fault.Input, "%s: cannot be read: %w", path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, fault.New(fault.Input, "%s: cannot be read: %w", path, err)
	}
	if len(text) > MaxBytes {
		return nil, tooLong(path)
	}
	return text, nil
}

// folder is the error of a folder where a document is wanted. It names a document
// in it.
func folder(path string) error {
	err := fault.New(fault.Input, "%s: wanted a regular file, got a folder", path)
	entries, _ := os.ReadDir(path) // what cannot be read gives no hint
	for _, e := range entries {
		if Readable(e.Name()) {
			return err.WithHint("in it is %s", filepath.Join(path, e.Name()))
		}
	}
	return err
}

// Parse reads a document. The extension of name (.yaml, .yml, .json, .toml) determines
// the format, a pipe or the standard input holds YAML, and name stands for the document in errors. The text must be
// UTF-8 and hold at least one value; a byte order mark in front is skipped.
func Parse(name string, text []byte) (*Value, error) {
	f, err := formatOf(name)
	if err != nil {
		return nil, err
	}
	if text, err = checkText(name, text); err != nil {
		return nil, err
	}
	top := &Value{File: name, Line: 1}
	if err := f.read(top, text); err != nil {
		return nil, err
	}
	if top.Kind == Null {
		return nil, fault.New(fault.Input, "%s: wanted a %s document with keys and values, got an empty one", name,
			f.name)
	}
	return top, nil
}

// checkText returns a text without a byte order mark. One that is too long or not UTF-8 is an error.
func checkText(name string, text []byte) ([]byte, error) {
	if len(text) > MaxBytes {
		return nil, tooLong(name)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if at := notText(text); at >= 0 {
		return nil, fault.New(fault.Input, "%s: wanted UTF-8 text, got the byte 0x%02x",
			place(name, newLines(text).at(at)), text[at])
	}
	return text, nil
}

func tooLong(name string) error {
	return fault.New(fault.Input, "%s: wanted at most %d bytes, got more", name, MaxBytes)
}

// notText returns the offset of the first byte that is not UTF-8 or is a
// control character that no format allows, or -1.
func notText(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 || r < ' ' && !strings.ContainsRune("\t\n\r", r) {
			return at
		}
		at += size
	}
	return -1
}

// lines finds the line of an offset: it holds the offsets of all newlines.
type lines []int

func newLines(text []byte) lines {
	var l lines
	for at, c := range text {
		if c == '\n' {
			l = append(l, at)
		}
	}
	return l
}

// at returns the line of the byte at offset, from 1.
func (l lines) at(offset int) int {
	before, _ := slices.BinarySearch(l, offset)
	return before + 1
}

// newEntry makes an empty value for a key of a map, outside of the map.
func (v *Value) newEntry(key string, line int) *Value {
	return &Value{File: v.File, Line: line, parent: v, key: key, depth: v.depth + 1}
}

// entry adds a key with an empty value to a map.
func (v *Value) entry(key string, line int) (*Value, error) {
	value := v.newEntry(key, line)
	if first := v.Get(key); first != nil {
		return nil, value.givenTwice(first.Line)
	}
	v.put(key, value)
	return value, value.checkDepth()
}

func (v *Value) givenTwice(first int) error {
	return v.Errorf("this key is given twice; the first is on line %d", first)
}

// item adds an empty value to a list.
func (v *Value) item(line int) (*Value, error) {
	value := &Value{File: v.File, Line: line, parent: v, index: len(v.list), depth: v.depth + 1}
	v.list = append(v.list, value)
	return value, value.checkDepth()
}

// checkDepth refuses a value that lies too deep in lists and maps.
func (v *Value) checkDepth() error {
	if v.depth > maxDepth {
		return fault.New(fault.Input, "%s: wanted at most %d lists and maps inside each other, got more",
			place(v.File, v.Line), maxDepth)
	}
	return nil
}

// put gives a map the value of a key.
func (v *Value) put(key string, value *Value) {
	if !v.Has(key) {
		v.keys = append(v.keys, key)
	}
	if v.fields == nil {
		v.fields = map[string]*Value{}
	}
	v.fields[key] = value
}

// syntaxError reports text that is not what its format demands.
func syntaxError(top *Value, line int, format, what string) error {
	return fault.New(fault.Input, "%s: this is not %s: %s", place(top.File, line), format, what)
}
