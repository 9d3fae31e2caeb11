package lua

import (
	"cmp"
	"os"

	"perigee/internal/cli"
	"perigee/internal/conf"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/traffic/load"
)

// Access says which files a scenario may touch. The text of a scenario, a config and a result may come from anybody,
// so a scenario reads and writes only files that the user has named on the command line, and reads those that stand
// beside or below a file that the user has named, as configurations name their matrices.
type Access struct {
	// AllowIO lets the scenario read and write any file.
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

// files are those that a scenario may touch.
type files struct {
	Access
	inputs   map[string]bool // that the user has named to read
	matrices map[string]bool // that the user's configurations name, to load as matrices
	readable []string        // below which files may be read
	outputs  map[string]bool
	written  map[string]bool // of the outputs
	storage  map[string]bool // where transfers may make files
}

func newFiles() files {
	return files{inputs: map[string]bool{}, matrices: map[string]bool{}, outputs: map[string]bool{},
		written: map[string]bool{}, storage: map[string]bool{}}
}

// Permit sets the scenario's access to files. Without it there is none.
func (r *Runtime) Permit(a Access) {
	r.files.Access = a
	if a.Folder != "" {
		r.files.readable = append(r.files.readable, a.Folder)
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
			r.files.inputs[path] = true
			r.files.readable = append(r.files.readable, file.Folder(path))
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

// mayRead refuses files that the user has not named, and that are not beside or below one that is, and files that will
// be written.
func (f *files) mayRead(path string) error {
	if err := f.notOver(path); err != nil {
		return err
	}
	if f.AllowIO || f.inputs[path] || file.Below(path, f.readable) {
		return nil
	}
	return notReadable(path)
}

func notReadable(path string) error {
	return fault.New(fault.Script, "the scenario may not read %s", path).
		WithHint("it reads files that the command line names, and files beside or below them that are not hidden; --allow-io lets it read any file")
}

// opened refuses a file that is another than mayRead has looked at: there may be a link in its place since.
func (f *files) opened(path string, opened *os.File) error {
	if f.AllowIO || f.inputs[path] || file.Below(opened.Name(), f.readable) {
		return nil
	}
	return notReadable(path)
}

// grantMatrices lets the scenario load, as matrices only, the files that a configuration
// names with absolute paths, if the user has named the configuration.
func (f *files) grantMatrices(config string, schema conf.Schema, v *conf.Value) {
	if !f.inputs[config] {
		return
	}
	for _, path := range schema.Paths(v) {
		f.matrices[path] = true
	}
}

// mayLoad refuses matrices that neither the user nor the user's configuration names.
// quotable reports whether a message may quote the file's text: a configuration of
// someone else might name any file, to have a part of it in the result.
func (f *files) mayLoad(path string) (quotable bool, err error) {
	err = f.mayRead(path)
	if err != nil && f.matrices[path] {
		return false, f.notOver(path)
	}
	return true, err
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

// mayStore refuses files of transfers that the user has not named, and that are not beside or below a file that is.
// Where the others are is looked at again when they are open.
func (f *files) mayStore(ops map[int]load.StorageOp) error {
	for rank, op := range ops {
		if err := f.notOver(op.Path); err != nil {
			return err
		}
		if f.AllowIO || f.storage[op.Path] {
			continue
		}
		op.Below = f.readable
		ops[rank] = op
		if !file.Below(op.Path, f.readable) {
			return fault.New(fault.Script, "the scenario may not use %s for transfers", op.Path).
				WithHint("let the user name it with an option of type storage, place it beside or below the configuration, or run with --allow-io")
		}
	}
	return nil
}
