// Package files decides which files a scenario may write, and let its transfers use.
//
// It is a seat belt and no wall (see docs/security.md): a scenario reads any file, but writes only those that the user
// has named, so that a mistake in a script costs no data. An option of type output names a file to write, one of type
// storage a file or folder for transfers; so does a configuration of an option of type path whose schema calls a field
// a path, and transfers may also make files beside or below that configuration and the script itself. --allow-io lifts
// all of that. Besides, no file is read that the run is about to write over.
package files

import (
	"cmp"
	"slices"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/traffic/load"
	"perigee/lua/option"
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

// Files knows the files that a scenario may write, and those that its transfers may use.
type Files struct {
	Access
	configs map[string]bool // files that the user has named to read
	folders []string        // of these and of the scenario: transfers may make files in them and below
	outputs map[string]bool
	written map[string]bool // of the outputs
	storage map[string]bool // where transfers may make files
}

// New permits nothing.
func New() *Files {
	return &Files{configs: map[string]bool{}, outputs: map[string]bool{}, written: map[string]bool{},
		storage: map[string]bool{}}
}

// Permit sets the scenario's access to files. Without it there is none.
func (f *Files) Permit(a Access, options option.Options) {
	f.Access = a
	if a.Folder != "" {
		f.folders = append(f.folders, a.Folder)
	}
	for _, o := range options {
		path, ok := a.Named[option.Key(o.Name)].(string)
		switch {
		case !ok || path == "":
		case o.Type == "output":
			f.outputs[path] = true
		case o.Type == "storage":
			f.storage[path] = true
		case o.Type == "path":
			f.configs[path] = true
			f.folders = append(f.folders, file.Folder(path))
		}
	}
}

// NamesStorage reports whether transfers may use the files that a configuration names: the user has named the
// configuration.
func (f *Files) NamesStorage(configuration string) bool { return f.configs[configuration] }

// GrantStorage lets transfers use files.
func (f *Files) GrantStorage(paths []string) {
	for _, path := range paths {
		f.storage[path] = true
	}
}

// NotOver refuses to read a file that an output, or the result, will replace.
func (f *Files) NotOver(path string) error {
	err := cli.NotOver(f.Result, path)
	for output := range f.outputs {
		if !f.written[output] {
			err = cmp.Or(err, cli.NotOver(output, path))
		}
	}
	return err
}

// MayWrite refuses files that the user has not named.
func (f *Files) MayWrite(path string) error {
	if f.AllowIO || f.outputs[path] {
		f.written[path] = true
		return nil
	}
	return fault.New(fault.Script, "the scenario may not write %s", path).
		WithHint("declare an option of type output and let the user name the file, or run with --allow-io")
}

// MayStore refuses files of transfers that neither the user nor the user's configuration names, and that are not beside
// or below a file that the user has named.
func (f *Files) MayStore(ops map[int]load.StorageOp) error {
	for _, op := range ops {
		if err := f.NotOver(op.Path); err != nil {
			return err
		}
		if !f.AllowIO && !f.storage[op.Path] && !f.near(op.Path) {
			return fault.New(fault.Script, "the scenario may not use %s for transfers", op.Path).
				WithHint("let the user name it with an option of type storage, place it beside or below the configuration, or run with --allow-io")
		}
	}
	return nil
}

// MayOpen refuses a file or folder of lanes that the user has not named.
func (f *Files) MayOpen(path string) error {
	if f.AllowIO || f.storage[path] {
		return nil
	}
	refused := fault.New(fault.Script, "the scenario may not use %s for transfers", path)
	if f.Repeated {
		return refused.WithHint("the result names it, and not you: perigee rerun --allow-io uses it")
	}
	return refused.
		WithHint("declare an option of type storage and let the user name the file or folder, or run with --allow-io")
}

// near reports whether a path is beside or below a file that the user has named.
func (f *Files) near(path string) bool {
	return slices.ContainsFunc(f.folders, func(folder string) bool { return file.Below(path, folder) })
}
