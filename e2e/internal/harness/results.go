package harness

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/result"
	"perigee/internal/result/resulttest"
)

// Results are the files of a folder that may be results, as they were before a command.
type Results struct {
	dir  string
	args []string
	old  map[string]fs.FileInfo
}

// LookForResults notes what is in a folder, before a command with these arguments runs in it.
func LookForResults(dir string, args []string) Results {
	r := Results{dir: dir, args: args, old: map[string]fs.FileInfo{}}
	for _, path := range r.candidates() {
		if info, err := os.Stat(path); err == nil {
			r.old[path] = info
		}
	}
	return r
}

// Check compares every result that the command has written with the schema: all in the folder,
// and the file after --result wherever that is. Results of runs that failed are no exception.
func (r Results) Check() error {
	for _, path := range r.candidates() {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if old := r.old[path]; old != nil && os.SameFile(old, info) && old.ModTime().Equal(info.ModTime()) {
			continue
		}
		if err := r.check(path); err != nil {
			return fmt.Errorf("the result %s does not go with the schema: %w", path, err)
		}
	}
	return nil
}

// named lists the files after --result, absolute.
func (r Results) named() (list []string) {
	for i, arg := range r.args {
		name, ok := strings.CutPrefix(arg, "--result=")
		if !ok && arg == "--result" && i+1 < len(r.args) {
			name, ok = r.args[i+1], true
		}
		if !ok || result.CheckName(name) != nil {
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(r.dir, name)
		}
		list = append(list, name)
	}
	return list
}

func (r Results) candidates() []string {
	list := r.named()
	for _, name := range Names(r.dir) {
		if path := filepath.Join(r.dir, name); result.CheckName(name) == nil && !slices.Contains(list, path) {
			list = append(list, path)
		}
	}
	return list
}

// check compares a result with the schema. Files that only look like results by their name are told apart by their
// beginning.
func (r Results) check(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := result.Unpack(f)
	if err != nil {
		return err
	}
	if !slices.Contains(r.named(), path) && !bytes.HasPrefix(text, []byte(`{"schema":"perigee.result/`)) {
		return nil // the JSON of something else
	}
	return resulttest.Validate(text)
}
