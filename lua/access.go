package lua

import (
	"os"
	"path/filepath"
	"strings"

	"perigee/internal/conf"
	"perigee/internal/fault"
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
	// Repeated says that the options come out of a result: then the user has not named the files in them.
	Repeated bool
}

// Permit sets the scenario's access to files. Without it there is none.
func (r *Runtime) Permit(a Access) {
	r.access = a
	if a.Folder != "" {
		r.readable = append(r.readable, a.Folder)
	}
}

// grant notes the files that options name. A default is not the user's word: the script has set it.
func (r *Runtime) grant(options map[string]any) {
	if r.access.Repeated {
		return
	}
	for _, o := range r.Options {
		path, ok := options[o.key()].(string)
		switch {
		case !ok || path == "" || path == o.Default:
		case o.Type == "output":
			r.outputs[path] = true
		case o.Type == "storage":
			r.storage[path] = true
		case o.Type == "path":
			r.inputs[path] = true
			r.readable = append(r.readable, filepath.Dir(path))
		}
	}
}

// mayRead refuses files that the user has not named, and that are not beside or below one that is.
func (r *Runtime) mayRead(path string) error {
	if r.access.AllowIO || r.env.AllowIO || r.inputs[path] || r.below(path) {
		return nil
	}
	return fault.New(fault.Script, "the scenario may not read %s", path).
		WithHint("it reads files that the command line names, and files beside or below them; --allow-io lets it read any file")
}

// grantMatrices lets the scenario load, as matrices only, the files that a configuration
// names with absolute paths, if the user has named the configuration.
func (r *Runtime) grantMatrices(config string, schema conf.Schema, v *conf.Value) {
	if !r.inputs[config] {
		return
	}
	for _, path := range schema.Paths(v) {
		r.matrices[path] = true
	}
}

// mayLoad refuses matrices that neither the user nor the user's configuration names.
// quotable reports whether a message may quote the file's text: a configuration of
// someone else might name any file, to have a part of it in the result.
func (r *Runtime) mayLoad(path string) (quotable bool, err error) {
	err = r.mayRead(path)
	if err != nil && r.matrices[path] {
		return false, nil
	}
	return true, err
}

// below reports whether a file, or what it links to, is in a folder from which the scenario may read.
func (r *Runtime) below(path string) bool {
	file, err := resolved(path)
	if err != nil {
		return false
	}
	for _, folder := range r.readable {
		at, err := resolved(folder)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(at, file); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return true
		}
	}
	return false
}

// resolved is an absolute path without links, as far as its folders are there.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for rest, at := "", path; ; rest, at = filepath.Join(filepath.Base(at), rest), filepath.Dir(at) {
		full, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(full, rest), nil
		}
		if _, linked := os.Readlink(at); at == "/" || linked == nil {
			return "", err // a link to nowhere: a file might appear there
		}
	}
}

// mayWrite refuses files that the user has not named.
func (r *Runtime) mayWrite(path string) error {
	if r.access.AllowIO || r.env.AllowIO || r.outputs[path] {
		return nil
	}
	return fault.New(fault.Script, "the scenario may not write %s", path).
		WithHint("declare an option of type output and let the user name the file, or run with --allow-io")
}

// mayStore refuses files of transfers that the user has not named, and that are not beside or below a file that is.
func (r *Runtime) mayStore(ops map[int]load.StorageOp) error {
	for _, op := range ops {
		if !r.access.AllowIO && !r.env.AllowIO && !r.storage[op.Path] && !r.below(op.Path) {
			return fault.New(fault.Script, "the scenario may not use %s for transfers", op.Path).
				WithHint("let the user name it with an option of type storage, place it beside or below the configuration, or run with --allow-io")
		}
	}
	return nil
}
