// Package rules keeps the rules of the repository: which package may import
// which, how long files get, and that what is exported is explained.
package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestMain opens all folders: the go command repeats a test whose result it
// knows only if something that the test itself has opened has changed, and not
// what git and go list have looked at.
func TestMain(m *testing.M) {
	err := filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && len(d.Name()) > 2 && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// goPackage is what go list says of a package.
type goPackage struct {
	ImportPath                         string
	Standard                           bool
	Module                             *struct{ Path, Dir string }
	Imports, TestImports, XTestImports []string
}

// goList asks the go command for packages.
func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Module,Imports,TestImports,XTestImports"}, args...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	var list []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return list
		case err != nil:
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// within reports whether a package is one of these or below one.
func within(path string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool {
		return path == "perigee/"+f || strings.HasPrefix(path, "perigee/"+f+"/")
	})
}

// layer is a part of the tree and what it may import of the others.
type layer struct{ folder, may []string }

// Imports go from the left to the right in
// tools -> lua -> internal/traffic -> spmd, nixl. The first layer that a package
// is in counts.
var layers = []layer{
	{[]string{"internal/fault", "internal/clock", "internal/version", "internal/memory", "internal/slurm"}, nil},
	{[]string{"internal/size", "internal/pack", "internal/plaintext"}, nil},
	{[]string{"internal/atomicfile", "internal/cli"}, []string{"internal/fault", "internal/plaintext"}},
	{[]string{"spmd"}, []string{"spmd", "internal/fault", "internal/clock", "internal/slurm", "internal/pack"}},
	{[]string{"nixl"}, []string{"nixl", "internal/fault", "internal/clock", "internal/version", "internal/memory"}},
	{[]string{"internal/traffic/matrix"}, []string{"internal/fault", "internal/size"}},
	{[]string{"internal/traffic/series"}, []string{"internal/pack", "internal/stats"}},
	{[]string{"internal/traffic"}, []string{"internal/traffic", "internal/fault", "internal/clock", "internal/memory", "internal/size", "internal/pack", "spmd", "nixl"}},
	{[]string{"internal/moe"}, []string{"internal/moe", "internal/fault", "internal/traffic/matrix"}},
	{[]string{"internal/experts"}, []string{
		"internal/moe", "internal/traffic", "internal/stats", "internal/fault", "internal/clock", "internal/memory", "internal/pack", "spmd", "nixl",
	}},
	{[]string{"internal/conf"}, []string{"internal/fault", "internal/size"}},
	{[]string{"internal/model"}, []string{"internal/embedded", "internal/fault", "internal/conf"}},
	{[]string{"internal/table"}, []string{"internal/fault", "internal/plaintext"}},
	{[]string{"internal/stats"}, nil},
	{[]string{"internal/result"}, []string{
		"internal/result", "internal/atomicfile", "internal/fault", "internal/size", "internal/stats", "internal/version", "internal/traffic/matrix", "internal/traffic/series",
	}},
	{[]string{"internal/experiment"}, []string{"internal", "spmd", "nixl"}},
	{[]string{"lua"}, []string{"internal", "spmd", "nixl"}},
	{[]string{"scenarios"}, []string{"internal/embedded"}},
}

// above is what nothing in layers may import, however it may name internal.
var above = []string{"tools", "internal/job", "internal/bench", "e2e"}

func TestImports(t *testing.T) {
	for _, p := range goList(t, "./...") {
		i := slices.IndexFunc(layers, func(l layer) bool { return within(p.ImportPath, l.folder...) })
		if i < 0 {
			continue
		}
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, "perigee/") {
				continue
			}
			if within(imported, above...) || !within(imported, layers[i].may...) {
				t.Errorf("%s imports %s, and may import only %v", p.ImportPath, imported, layers[i].may)
			}
		}
	}
}

// Only tests may use the packages that are made for tests.
func TestTestHelpersStayInTests(t *testing.T) {
	helper := regexp.MustCompile(`test$|^testing$|^perigee/e2e/internal/`)
	for _, p := range goList(t, "./...") {
		if helper.MatchString(p.ImportPath) || within(p.ImportPath, "internal/bench") {
			continue
		}
		for _, imported := range p.Imports {
			if helper.MatchString(imported) {
				t.Errorf("%s imports %s outside of its tests", p.ImportPath, imported)
			}
		}
	}
}

// sources lists the files of the repository, as git knows them, with an ending.
func sources(t *testing.T, endings ...string) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("this is no clone: git ls-files: %v", err)
	}
	var list []string
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		ending := filepath.Ext(name)
		if len(endings) > 0 && !slices.Contains(endings, ending) {
			continue
		}
		if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			list = append(list, name)
		}
	}
	if len(list) < 10 {
		t.Fatalf("only %d files %v", len(list), endings)
	}
	return list
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// How long files may be. Tables of cases make tests longer.
const (
	mostLines     = 600
	mostTestLines = 750
)

func TestFilesAreShort(t *testing.T) {
	for _, name := range sources(t, ".go", ".c", ".h", ".lua") {
		most := mostLines
		if strings.HasSuffix(name, "_test.go") {
			most = mostTestLines
		}
		if n := bytes.Count(read(t, name), []byte("\n")); n > most {
			t.Errorf("%s has %d lines, more than %d", name, n, most)
		}
	}
}

// Whatever another package can see has a comment; packages do too.
func TestExportedIsExplained(t *testing.T) {
	explained := map[string]bool{} // by folder
	for _, name := range sources(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Dir(name)
		explained[folder] = explained[folder] || file.Doc != nil
		if bytes.Contains(read(t, name), []byte("\n//go:build !cgo\n")) || bytes.HasPrefix(read(t, name), []byte("//go:build !cgo\n")) {
			continue // its twin with cgo has the comments
		}
		for _, decl := range file.Decls {
			for _, id := range unexplained(decl) {
				t.Errorf("%s:%d: %s has no comment", name, fset.Position(id.Pos()).Line, id.Name)
			}
		}
	}
	for folder, ok := range explained {
		if !ok {
			t.Errorf("the package in %s has no comment", folder)
		}
	}
}

// ofInterfaces are methods whose meaning an interface fixes.
var ofInterfaces = []string{
	"Error", "Unwrap", "String", "Read", "Write", "Close", "Len", "Less", "Swap", "MarshalBinary", "UnmarshalBinary", "UnmarshalText", "Run", "Help",
}

func unexplained(decl ast.Decl) (ids []*ast.Ident) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d) && !slices.Contains(ofInterfaces, d.Name.Name)) {
			ids = append(ids, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					ids = append(ids, s.Name)
				}
			case *ast.ValueSpec:
				for _, id := range s.Names {
					if id.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						ids = append(ids, id)
					}
				}
			}
		}
	}
	return ids
}

// exportedReceiver reports whether a method's type can be seen from outside.
func exportedReceiver(d *ast.FuncDecl) bool {
	e := d.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	switch g := e.(type) {
	case *ast.IndexExpr:
		e = g.X
	case *ast.IndexListExpr:
		e = g.X
	}
	id, ok := e.(*ast.Ident)
	return !ok || id.IsExported()
}

// licences are known by words that only they have.
var licences = map[string]*regexp.Regexp{
	"MIT":        regexp.MustCompile(`(?i)permission is hereby granted, free of charge, to any person`),
	"BSD":        regexp.MustCompile(`(?i)redistribution and use in source and binary forms`),
	"Apache 2.0": regexp.MustCompile(`(?i)apache license\s+version 2\.0`),
	"MPL 2.0":    regexp.MustCompile(`(?i)mozilla public license,? version 2\.0`),
	// These two ask for a line of thanks, which stands in docs/sweep.md.
	"FreeType":  regexp.MustCompile(`(?is)your choice of exactly one of.*the freetype license`),
	"CC BY 4.0": regexp.MustCompile(`(?i)creative commons attribution 4\.0 international public license`),
}

// Every module that ends up in the binary, or in the tests of this module, has a
// licence that lets the binary be passed on.
func TestLicencesOfModules(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range goList(t, "-deps", "-test", "./...") {
		if p.Standard || p.Module == nil || p.Module.Path == "perigee" || seen[p.Module.Path] {
			continue
		}
		seen[p.Module.Path] = true
		files, err := filepath.Glob(filepath.Join(p.Module.Dir, "[LlCc][IiOo][CcPp][EeYy]*"))
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			for name, words := range licences {
				if words.Match(text) {
					found = name
				}
			}
		}
		if found == "" {
			t.Errorf("module %s: none of the files %v is a licence known here", p.Module.Path, files)
		}
	}
	if len(seen) < 5 {
		t.Errorf("only %d modules found", len(seen))
	}
}
