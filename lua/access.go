package lua

import (
	"cmp"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/traffic/load"
)

// Access says which files a scenario may write. It may read any.
type Access struct {
	// AllowIO lets the scenario write any file.
	AllowIO bool
	// Folder is that of the scenario's file, "" where the scenario is shipped or comes out of a result.
	Folder string
	// Result is where the result will be written, "" for nowhere.
	Result string
	// Named are the options that the command line gives: only files in these has the user named. A default is the
	// script's word, and what comes out of a result that is repeated is the result's.
	Named map[string]any
	// Repeated says that the options come out of a result.
	Repeated bool
}

// files are those that a scenario may write.
type files struct {
	Access
	configs map[string]bool // files that the user has named to read
	folders []string        // of these and of the scenario: transfers may make files in them and below
	outputs map[string]bool
	written map[string]bool // of the outputs
	storage map[string]bool // where transfers may make files
}

func newFiles() files {
	return files{configs: map[string]bool{}, outputs: map[string]bool{}, written: map[string]bool{},
		storage: map[string]bool{}}
}

// Permit sets the scenario's access to files. Without it there is none.
func (r *Runtime) Permit(a Access) {
	r.files.Access = a
	if a.Folder != "" {
		r.files.folders = append(r.files.folders, a.Folder)
	}
	for _, o := range r.Options {
		path, ok := a.Named[o.key()].(string)
		switch {
		case !ok || path == "":
		case o.Type == "output":
			r.files.outputs[path] = true
		case o.Type == "storage":
			r.files.storage[path] = true
		case o.Type == "path":
			r.files.configs[path] = true
			r.files.folders = append(r.files.folders, file.Folder(path))
		}
	}
}

// notOver refuses to read a file that an output, or the result, will replace.
func (f *files) notOver(path string) error {
	err := cli.NotOver(f.Result, path)
	for output := range f.outputs {
		if !f.written[output] {
			err = cmp.Or(err, cli.NotOver(output, path))
		}
	}
	return err
}

// mayWrite refuses files that the user has not named.
func (f *files) mayWrite(path string) error {
	if f.AllowIO || f.outputs[path] {
		f.written[path] = true
		return nil
	}
	return fault.New(fault.Script, "the scenario may not write %s", path).
		WithHint("declare an option of type output and let the user name the file, or run with --allow-io")
}

// mayStore refuses files of transfers that neither the user nor the user's configuration names, and that are not beside
// or below a file that the user has named.
func (f *files) mayStore(ops map[int]load.StorageOp) error {
	for _, op := range ops {
		if err := f.notOver(op.Path); err != nil {
			return err
		}
		if !f.AllowIO && !f.storage[op.Path] && !f.near(op.Path) {
			return fault.New(fault.Script, "the scenario may not use %s for transfers", op.Path).
				WithHint("let the user name it with an option of type storage, place it beside or below the configuration, or run with --allow-io")
		}
	}
	return nil
}

// near reports whether a path is beside or below a file that the user has named.
func (f *files) near(path string) bool {
	for _, folder := range f.folders {
		if file.Below(path, folder) {
			return true
		}
	}
	return false
}
