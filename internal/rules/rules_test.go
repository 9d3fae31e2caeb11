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
	"unicode/utf8"

	"perigee/internal/kit/must"
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

// separate lists the parts that know nothing of each other: a world moves no
// bytes of transfers, an engine knows no ranks, and batches on Slurm need neither.
var separate = [][2][]string{
	{{"spmd"}, {"nixl", "lua", "internal/traffic"}},
	{{"nixl"}, {"spmd", "lua", "internal/traffic"}},
	{{"internal/traffic"}, {"lua", "internal/result", "internal/experiment"}},
	{{"internal/ep/moe", "internal/model", "internal/result", "internal/kit/slurm"}, {"spmd", "nixl", "lua"}},
	{{"internal/serving", "tools/disagg", "tools/compare", "tools/sweep"}, {"spmd", "nixl", "lua"}},
}

// engineName matches a decision by the name of an engine.
var engineName = regexp.MustCompile(`(==|!=|case) *"(shm|nixl)"|"(shm|nixl)" *(==|!=)|engines\.(NIXL|SHM)\b`)

// What an engine can do is said by nixl.Can, and what a choice stands for by package engines: a new engine touches
// nothing else.
func TestNoEngineIsKnownByItsName(t *testing.T) {
	for _, name := range sources(t, ".go") {
		if strings.HasPrefix(name, "nixl/") || strings.HasPrefix(name, "e2e/") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		for i, line := range strings.Split(string(read(t, name)), "\n") {
			if engineName.MatchString(line) {
				t.Errorf("%s:%d decides by the name of an engine: %s", name, i+1, strings.TrimSpace(line))
			}
		}
	}
}

// commands are what other commands are made of.
var commands = []string{"tools/run", "tools/report", "tools/compare"}

// doors are commands that look at what they are given, and call the command for it.
var doors = []string{"tools/report", "tools/compare"}

// What is in kit knows nothing of perigee, and no command is a library for another, but for those that it is made of,
// and for doors.
func TestRooms(t *testing.T) {
	for _, p := range goList(t, "./...") {
		own := strings.Join(strings.Split(p.ImportPath+"//", "/")[:3], "/") // perigee/tools/disagg of what is below it
		for _, imported := range p.Imports {
			switch {
			case within(p.ImportPath, "internal/kit") && strings.HasPrefix(imported, "perigee/") && !within(imported, "internal/kit"):
				t.Errorf("%s imports %s: what is in kit knows nothing of perigee", p.ImportPath, imported)
			case within(p.ImportPath, "tools") && within(imported, "tools") && imported != own && !within(imported, own[len("perigee/"):]) &&
				!within(imported, commands...) && !within(own, doors...):
				t.Errorf("%s imports %s: what two commands need is no part of one", p.ImportPath, imported)
			}
		}
	}
}

// Every package stands on one floor, and imports only from the floors below.
func TestFloors(t *testing.T) {
	floor := map[string]int{}
	for i, f := range floors {
		for _, p := range strings.Fields(f) {
			path := "perigee/" + p
			if p == "." {
				path = "perigee"
			}
			if _, twice := floor[path]; twice {
				t.Errorf("%s stands on two floors", path)
			}
			floor[path] = i
		}
	}
	found := map[string]bool{}
	for _, p := range goList(t, "./...") {
		found[p.ImportPath] = true
		here, known := floor[p.ImportPath]
		if !known {
			t.Errorf("%s is on no floor: name it in floors.go", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if there, ours := floor[imported]; ours && there >= here {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports go down only", p.ImportPath, here, imported, there)
			}
		}
	}
	for p := range floor {
		if !found[p] {
			t.Errorf("floors.go names %s, which does not exist", p)
		}
	}
}

func TestSeparateParts(t *testing.T) {
	for _, p := range goList(t, "./...") {
		for _, s := range separate {
			if !within(p.ImportPath, s[0]...) {
				continue
			}
			for _, imported := range p.Imports {
				if within(imported, s[1]...) {
					t.Errorf("%s imports %s: %v knows nothing of %v", p.ImportPath, imported, s[0], s[1])
				}
			}
		}
	}
}

// What reads a result needs nothing of what has measured it: below internal/result are pure packages only. Of traffic
// these are its vocabulary, the bytes between ranks and the stamps of runs, which measure nothing and send nothing.
func TestResultIsPure(t *testing.T) {
	pure := []string{"internal/result", "internal/kit/crowd", "internal/kit/fault", "internal/kit/file", "internal/kit/pack",
		"internal/kit/lazyre", "internal/kit/plaintext", "internal/kit/secret", "internal/kit/size", "internal/kit/stats", "internal/traffic/matrix", "internal/traffic/series", "internal/kit/version"}
	for _, p := range goList(t, "-deps", "./internal/result") {
		if name, ours := strings.CutPrefix(p.ImportPath, "perigee/"); ours && !slices.Contains(pure, name) {
			t.Errorf("internal/result imports %s, itself or by another package: want pure packages only, %v", name, pure)
		}
	}
}

// Only tests may use the packages that are made for tests.
func TestTestHelpersStayInTests(t *testing.T) {
	helper := regexp.MustCompile(`test$|/conformance$|^testing$|^perigee/e2e/internal/`)
	for _, p := range goList(t, "./...") {
		if helper.MatchString(p.ImportPath) || within(p.ImportPath, "e2e/bench") {
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
	data := must.Read(t, filepath.Join(root, name))
	return data
}

// All command lines are read with the same habits.
func TestParsersAreOfOneKind(t *testing.T) {
	for _, name := range sources(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "internal/kit/cli/") && bytes.Contains(read(t, name), []byte("kong.New(")) {
			t.Errorf("%s makes a parser by itself, want cli.Parser", name)
		}
	}
}

// How long files may be. Tables of cases make tests longer.
const (
	mostLines     = 600
	mostTestLines = 750
)

func TestFilesAreShort(t *testing.T) {
	for _, name := range sources(t, ".go", ".c", ".h") {
		most := mostLines
		if strings.HasSuffix(name, "_test.go") {
			most = mostTestLines
		}
		if n := bytes.Count(read(t, name), []byte("\n")); n > most {
			t.Errorf("%s has %d lines, more than %d", name, n, most)
		}
	}
}

// mostColumns is how wide a line may be; a tab counts four. A line with a struct
// tag may be wider, and so may one with a long text: a message stays in one piece,
// so that a search finds it. Tests are exempt: their tables of cases are wide.
const (
	mostColumns     = 120
	mostTextColumns = 240
)

var longText = regexp.MustCompile("`[a-z]+:\"[^`]*`|\"[^\"]{40,}\"|\\S{60,}|^--- ")

func TestLinesAreNarrow(t *testing.T) {
	for _, name := range sources(t, ".go", ".c", ".h") {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") {
			continue
		}
		for i, line := range strings.Split(string(read(t, name)), "\n") {
			width, most := utf8.RuneCountInString(line)+3*strings.Count(line, "\t"), mostColumns
			if longText.MatchString(line) {
				most = mostTextColumns
			}
			if width > most {
				t.Errorf("%s:%d is %d columns wide, more than %d", name, i+1, width, most)
			}
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
		must.Do(t, err)
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
