// Package catalog finds the test configurations below a root,
// <type>/<category>/*.yaml, and selects those that a run is about.
package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/fault"
	"perigee/tools/disagg/config"
)

// categories in the order in which their tests run.
var categories = []string{"perf", "accuracy", "stress"}

// templates is a folder with files to copy from, not to run.
const templates = "templates"

// Discover lists the files below a root, two levels down, sorted: perf before
// accuracy before stress, then by name. skipped says which files are no tests,
// and why.
func Discover(root string) (list []config.Source, skipped []string, err error) {
	types, err := subfolders(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fault.New(fault.Input, "%s: there is no such folder", root).
			WithHint("the tests stand in test_configs/<type>/<category>/*.yaml below WORK_DIR; --root names another place")
	}
	if err != nil {
		return nil, nil, fault.New(fault.Input, "%s: %w", root, err)
	}
	for _, t := range types {
		under, err := subfolders(filepath.Join(root, t))
		if err != nil {
			return nil, nil, fault.New(fault.Input, "%s: %w", filepath.Join(root, t), err)
		}
		for _, category := range under {
			found, left, err := inFolder(filepath.Join(root, t, category), t, category)
			if err != nil {
				return nil, nil, err
			}
			list, skipped = append(list, found...), append(skipped, left...)
		}
	}
	Sort(list)
	return list, skipped, nil
}

// Sort puts entries in the order in which they run.
func Sort(list []config.Source) {
	slices.SortStableFunc(list, func(a, b config.Source) int {
		return cmp.Or(cmp.Compare(slices.Index(categories, a.Category), slices.Index(categories, b.Category)),
			cmp.Compare(a.Type, b.Type), cmp.Compare(a.Stem, b.Stem), cmp.Compare(a.File, b.File))
	})
}

func subfolders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name())) // through links
		if err == nil && info.IsDir() && e.Name() != templates && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// inFolder lists the tests of one category.
func inFolder(dir, t, category string) (list []config.Source, skipped []string, err error) {
	files, err := yamlFiles(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		stem := stemOf(file)
		if original, ok := strings.CutSuffix(stem, "-temp"); ok && slices.Contains(files,
			filepath.Join(dir, original+".yaml")) {
			skipped = append(skipped, fmt.Sprintf("%s: a leftover beside %s.yaml, not a test", file, original))
			continue
		}
		e := config.Source{Ident: config.Ident{Type: t, Category: category, Stem: stem}, File: file}
		if !e.Known() {
			skipped = append(skipped, fmt.Sprintf("%s: failed to load: there are no metrics for %s/%s", file, t,
				category))
			continue
		}
		list = append(list, e)
	}
	return list, skipped, nil
}

func stemOf(file string) string { return strings.TrimSuffix(filepath.Base(file), ".yaml") }

// yamlFiles lists *.yaml directly in a folder, sorted.
func yamlFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.New(fault.Input, "%s: %w", dir, err)
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".yaml") && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// Paths lists the files that the user named: single files, folders of files, or
// roots of a tree. A file outside of such a tree counts as a test of
// disagg/perf. Files of a tree whose type and category are not known are listed
// too.
func Paths(args []string) ([]config.Source, error) {
	var list []config.Source
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

// lone places a single file by the folders it lies in.
func lone(file string) config.Source {
	e := config.Source{Ident: config.Ident{Type: "disagg", Category: "perf",
		Stem: strings.TrimSuffix(stemOf(file), ".yml")}, File: file}
	abs, err := filepath.Abs(file)
	if err != nil {
		return e
	}
	category := filepath.Dir(abs)
	placed := config.Ident{Type: filepath.Base(filepath.Dir(category)), Category: filepath.Base(category), Stem: e.Stem}
	if placed.Known() {
		e.Ident = placed
	}
	return e
}

// within lists the files of a folder, of a type's folder, of a root, or of a work
// folder with a root in it.
func within(dir string) ([]config.Source, error) {
	types, err := subfolders(dir)
	if err != nil {
		return nil, fault.New(fault.Input, "%s: %w", dir, err)
	}
	if slices.Contains(types, "test_configs") {
		return within(filepath.Join(dir, "test_configs"))
	}
	list, err := placed(dir, lone)
	for _, t := range types {
		if err != nil {
			return nil, err
		}
		under := filepath.Join(dir, t)
		var more []config.Source
		more, err = placed(under, lone)
		list = append(list, more...)
		list, err = addCategories(list, under, t, err)
	}
	Sort(list)
	return list, err
}

// addCategories adds the files of the categories of a type.
func addCategories(list []config.Source, dir, t string, err error) ([]config.Source, error) {
	if err != nil {
		return nil, err
	}
	names, err := subfolders(dir)
	if err != nil {
		return nil, fault.New(fault.Input, "%s: %w", dir, err)
	}
	for _, category := range names {
		more, err := placed(filepath.Join(dir, category), func(f string) config.Source {
			return config.Source{Ident: config.Ident{Type: t, Category: category, Stem: stemOf(f)}, File: f}
		})
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// placed lists the files directly in a folder.
func placed(dir string, place func(string) config.Source) ([]config.Source, error) {
	files, err := yamlFiles(dir)
	var list []config.Source
	for _, f := range files {
		list = append(list, place(f))
	}
	return list, err
}
