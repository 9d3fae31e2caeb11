package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee/internal/conf"
	"perigee/internal/fault"
)

// reportPrefix is how the names of reports begin.
const reportPrefix = "benchmark_report"

// mostEntries bounds the search for reports. It is a variable for the tests.
var mostEntries = 1 << 20

// found is a file to read. It is opened through its root, so that no link leads
// out of what the user named.
type found struct {
	root      *os.Root
	name      string // within root
	path      string // for messages: what the user wrote and name
	absolute  string
	directory string // of the sweep
	err       error  // what made it unusable
}

// finder collects files. The same file is taken once, however it is reached.
type finder struct {
	roots []*os.Root
	files []found
	seen  map[string]int // index in files
	links int            // that were not followed
	// entries counts the files and folders that were looked at.
	entries int
	link    string // the first of them
}

func (f *finder) close() {
	for _, r := range f.roots {
		r.Close()
	}
}

// add takes a file or everything below a folder.
func (f *finder) add(path string) error {
	absolute, err := filepath.Abs(path)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(absolute)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Input, "%s: there is no such file or folder", path).
			WithHint("name the folders with the benchmark reports; a relative path starts at the current folder")
	case err != nil:
		return fault.New(fault.Input, "%s: cannot be read: %w", path, err)
	case info.IsDir():
		return f.walk(path, absolute)
	}
	root, err := f.open(filepath.Dir(absolute))
	if err != nil {
		return err
	}
	f.take(found{root: root, name: filepath.Base(absolute), path: path, absolute: absolute,
		directory: filepath.Dir(filepath.Dir(absolute))})
	return nil
}

func (f *finder) open(folder string) (*os.Root, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fault.New(fault.Input, "%s: cannot be read: %w", folder, err)
	}
	f.roots = append(f.roots, root)
	return root, nil
}

// walk looks for reports in a folder and those below it. Links are not followed.
func (f *finder) walk(path, absolute string) error {
	root, err := f.open(absolute)
	if err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if f.entries++; f.entries > mostEntries {
			return fault.New(fault.Input, "%s: wanted folders with at most %d files and folders below them, got more", path,
				mostEntries).WithHint("name the folders with the benchmark reports, not one far above them")
		}
		file := found{
			root: root, name: name, path: filepath.Join(path, name), absolute: filepath.Join(absolute, name),
			directory: sweepOf(absolute, name),
		}
		switch {
		case err != nil && !utf8.ValidString(name): // os.Root opens no such folder
			file.err = fault.New(fault.Input, "%s: cannot be read: its name is no UTF-8", file.path).WithHint("rename it")
			f.take(file)
			return fs.SkipDir
		case err != nil && (d == nil || d.IsDir()): // a folder that may not be read
			file.err = fault.New(fault.Input, "%s: cannot be read: %w", file.path, withoutPath(err))
			f.take(file)
			return fs.SkipDir
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			if isReport(name) || isResult(name) || isFolder(file.absolute) {
				if f.links++; f.links == 1 {
					f.link = file.path
				}
			}
			return nil
		case isReport(name) && !d.Type().IsRegular():
			file.err = fault.New(fault.Input, "%s: wanted a regular file, got a device, pipe or socket", file.path)
			f.take(file)
		case isReport(name), isResult(name) && d.Type().IsRegular() && hasResult(root, name):
			f.take(file)
		}
		return nil
	})
}

// isFolder reports whether a link leads to a folder, which may hold reports.
func isFolder(link string) bool {
	info, err := os.Stat(link)
	return err == nil && info.IsDir()
}

// take adds a file. Of one that several arguments reach, it keeps what the
// argument nearest to the root says, so that the arguments' order is nothing.
func (f *finder) take(file found) {
	i, again := f.seen[file.absolute]
	if !again {
		f.seen[file.absolute] = len(f.files)
		f.files = append(f.files, file)
		return
	}
	if compareOrigins(file, f.files[i]) < 0 {
		f.files[i] = file
	}
}

// compareOrigins orders the ways to one file: both folders of sweeps contain it.
func compareOrigins(a, b found) int {
	return cmp.Or(cmp.Compare(len(a.directory), len(b.directory)), cmp.Compare(len(a.path), len(b.path)),
		cmp.Compare(a.path, b.path))
}

// sweepOf returns the folder of the sweep that a report in root belongs to: the
// parent of the run's own folder, but never one above root.
func sweepOf(root, name string) string {
	steps := strings.Split(filepath.ToSlash(name), "/")
	return filepath.Join(root, filepath.Join(steps[:max(0, len(steps)-2)]...))
}

func isReport(name string) bool {
	base := filepath.Base(name)
	return strings.HasPrefix(base, reportPrefix) && slices.Contains([]string{".yaml", ".yml", ".json"},
		strings.ToLower(filepath.Ext(base)))
}

// sorted returns the files in the order of their paths.
func (f *finder) sorted() []found {
	slices.SortFunc(f.files, func(a, b found) int { return cmp.Compare(a.absolute, b.absolute) })
	return f.files
}

// openBelow opens a file of a folder.
func openBelow(root *os.Root, name string) (*os.File, error) {
	file, err := root.Open(name)
	return file, withoutPath(err)
}

// text reads the file, which must not be longer than a document may be.
func (f found) text() ([]byte, error) {
	file, err := openBelow(f.root, f.name)
	if err != nil {
		return nil, fault.New(fault.Input, "%s: cannot be read: %w", f.path, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, conf.MaxBytes+1))
	if err != nil {
		return nil, fault.New(fault.Input, "%s: cannot be read: %w", f.path, withoutPath(err))
	}
	return text, nil
}

// withoutPath drops the path that the system puts into its errors: it is
// relative to a root that the user does not know.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%w", e.Err)
	}
	return err
}
