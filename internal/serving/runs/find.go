package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
)

// reportPrefix is how the names of reports begin.
const reportPrefix = "benchmark_report"

// found is a file to read.
type found struct {
	path      string // for messages: what the user wrote and name
	absolute  string
	directory string // of the sweep
	err       error  // what made it unusable
	open      bool   // it may be none: only its content says whether a client of a serving benchmark wrote it
}

// finder collects files. The same file is taken once, however it is reached.
type finder struct {
	files []found
	seen  map[string]int // index in files
	links int            // that were not followed
	link  string         // the first of them
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
	f.take(found{path: path, absolute: absolute, directory: filepath.Dir(filepath.Dir(absolute))})
	return nil
}

// Holds reports whether a file, or one in a folder and those below it, is of a serving benchmark: a report of llm-d, or
// what a client has written.
func Holds(path string) bool {
	for file := range benchmarks(path) {
		return file != ""
	}
	return false
}

// Files lists the files of serving benchmarks below a path, as [Holds] knows them.
func Files(path string) []string { return slices.Collect(benchmarks(path)) }

// benchmarks goes over these files.
func benchmarks(path string) iter.Seq[string] {
	f := finder{seen: map[string]int{}}
	err := f.add(path)
	return func(yield func(string) bool) {
		if err != nil {
			return
		}
		for _, file := range f.sorted() {
			is := isReport(file.path)
			if !is && !(isResult(file.path) && HasResult(file.absolute)) {
				list, err := clientRuns(file)
				is = err == nil && len(list) > 0
			}
			if is && !yield(file.path) {
				return
			}
		}
	}
}

// walk looks for reports in a folder and those below it. Links are not followed.
func (f *finder) walk(path, absolute string) error {
	return filepath.WalkDir(absolute, func(at string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(absolute, at)
		file := found{path: filepath.Join(path, name), absolute: at, directory: sweepOf(absolute, name)}
		if err != nil {
			err = fault.New(fault.Input, "%s: cannot be read: %w", file.path, withoutPath(err))
		}
		switch {
		case err != nil && at == absolute:
			return err
		case err != nil: // a folder that may not be read
			file.err = err
			f.take(file)
			return fs.SkipDir
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
		case isReport(name), isResult(name) && d.Type().IsRegular() && HasResult(at):
			f.take(file)
		case mayBeOfClient(name) && d.Type().IsRegular():
			file.open = true
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

// withoutPath drops the path that the system puts into its errors: it is
// not the one that the user has written.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%w", e.Err)
	}
	return err
}
