package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
)

// categories in the order in which their tests run.
var categories = []string{"perf", "perf-sanity", "accuracy", "stress"}

// templates is a folder with files to copy from, not to run.
const templates = "templates"

// Discover lists the files below a root, two levels down, sorted: perf before
// accuracy before stress, then by name. skipped says which files are no tests,
// and why.
func Discover(root string) (list []Source, skipped []string, err error) {
	found, err := placed(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fault.New(fault.Input, "%s: there is no such folder", root).
			WithHint("the tests stand in test_configs/<type>/<category>/*.yaml below WORK_DIR; --root names another place")
	}
	if err != nil {
		return nil, nil, err
	}
	for _, s := range found {
		original, isLeftover := strings.CutSuffix(s.Stem, "-temp")
		if isLeftover {
			_, err := os.Stat(filepath.Join(filepath.Dir(s.File), original+".yaml"))
			isLeftover = err == nil
		}
		switch {
		case isLeftover:
			skipped = append(skipped, fmt.Sprintf("%s: a leftover beside %s.yaml, not a test", s.File, original))
		case !s.Known():
			skipped = append(skipped, fmt.Sprintf("%s: failed to load: there are no metrics for %s/%s", s.File, s.Type,
				s.Category))
		default:
			list = append(list, s)
		}
	}
	sortSources(list)
	return list, skipped, nil
}

// Paths lists the files that the user named: single files, folders of files, or
// roots of a tree. A file outside of such a tree counts as a test of
// disagg/perf. Files of a tree whose type and category are not known are listed
// too.
func Paths(args []string) ([]Source, error) {
	var list []Source
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fault.New(fault.Input, "%s: %w", arg, errors.Unwrap(err)).
				WithHint("check the spelling; a relative path starts at the current folder")
		}
		if !info.IsDir() {
			list = append(list, lone(arg))
			continue
		}
		found, err := within(arg)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fault.New(fault.Input, "%s: there is no *.yaml in it, nor two folders further down", arg)
		}
		list = append(list, found...)
	}
	return list, nil
}

// within lists the files of a folder, of a type's folder, of a root, or of a work
// folder with a root in it.
func within(dir string) ([]Source, error) {
	types, err := subfolders(dir)
	if err != nil {
		return nil, err
	}
	if slices.Contains(types, "test_configs") {
		return within(filepath.Join(dir, "test_configs"))
	}
	list, err := placed(dir)
	if err != nil {
		return nil, err
	}
	if lone(filepath.Join(dir, "any")).Category == "perf-sanity" {
		types = nil // they hold tables of load balancers
	}
	for _, t := range append(types, ".") {
		files, err := yamlFiles(filepath.Join(dir, t))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			list = append(list, lone(file))
		}
	}
	sortSources(list)
	return list, nil
}

// placed lists the files two levels below a root: their folders say their type and category.
func placed(root string) (list []Source, err error) {
	types, err := subfolders(root)
	if err != nil {
		return nil, err
	}
	for _, t := range types {
		categories, err := subfolders(filepath.Join(root, t))
		if err != nil {
			return nil, err
		}
		for _, category := range categories {
			files, err := yamlFiles(filepath.Join(root, t, category))
			if err != nil {
				return nil, err
			}
			for _, file := range files {
				stem := strings.TrimSuffix(filepath.Base(file), ".yaml")
				list = append(list, Source{moved(Ident{t, category, stem}), file})
			}
		}
	}
	return list, nil
}

// lone places a single file by the folders it lies in.
func lone(file string) Source {
	stem := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".yaml"), ".yml")
	if abs, err := filepath.Abs(file); err == nil {
		category := filepath.Dir(abs)
		placed := moved(Ident{filepath.Base(filepath.Dir(category)), filepath.Base(category), stem})
		if placed.Known() {
			return Source{placed, file}
		}
	}
	return Source{Ident{"disagg", "perf", stem}, file}
}

// moved places the files of the folders perf/disaggregated and perf-sanity/disaggregated, where TensorRT-LLM has newer
// tests of the categories perf and perf-sanity.
func moved(id Ident) Ident {
	if id.Category == "disaggregated" && (id.Type == "perf" || id.Type == "perf-sanity") {
		id.Type, id.Category = "disagg", id.Type
	}
	return id
}

// sortSources puts files in the order in which they run.
func sortSources(list []Source) {
	slices.SortStableFunc(list, func(a, b Source) int {
		return cmp.Or(cmp.Compare(slices.Index(categories, a.Category), slices.Index(categories, b.Category)),
			cmp.Compare(a.Type, b.Type), cmp.Compare(a.Stem, b.Stem), cmp.Compare(a.File, b.File))
	})
}

func subfolders(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.New(fault.Input, "%s: %w", dir, err)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name())) // through links
		if err == nil && info.IsDir() && e.Name() != templates && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// yamlFiles lists *.yaml directly in a folder, sorted.
func yamlFiles(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.New(fault.Input, "%s: %w", dir, err)
	}
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".yaml") && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}
