package rules

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// support are files that only tests and benchmarks need.
var support = regexp.MustCompile(`^e2e/|test/|^internal/kit/must/|_test\.go$`)

// product lists the files of the program itself.
func product(t *testing.T) []string {
	return slices.DeleteFunc(sources(t, ".go"), support.MatchString)
}

// TestSize counts the lines of the program: those that have more than blanks and comments.
func TestSize(t *testing.T) {
	lines := 0
	for _, name := range product(t) {
		lines += linesOf(read(t, name))
	}
	t.Logf("%d lines of Go in %d files, without blanks, comments, tests and what supports them", lines, len(product(t)))
}

// linesOf counts the lines on which a token stands or goes on.
func linesOf(text []byte) (n int) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, nil, 0)
	last := 0
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return n
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // is none in the text
		}
		first, end := file.Line(pos), file.Line(pos)+strings.Count(literal, "\n")
		n += end - max(first-1, last)
		last = max(last, end)
	}
}

func TestLinesOf(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "package a\n": 1, "// a\n\npackage a // b\n\n/* c\nd */\nvar x = `\n\ny`\n": 4, "package a; var b = 1\n\nfunc c() {\n}\n": 3,
	} {
		if got := linesOf([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// nouns are names of types that say little alone: one noun is one thing, or two at most.
var nouns = []string{
	"Figures", "Row", "Plan", "Outcome", "Line", "Replay", "Level", "Request", "Run", "Job", "Pattern",
}

func TestNounsAreOneThing(t *testing.T) {
	packages := map[string]map[string]bool{} // by noun
	for _, name := range product(t) {
		file, err := parser.ParseFile(token.NewFileSet(), name, bytes.NewReader(read(t, name)), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			types, is := decl.(*ast.GenDecl)
			if !is || types.Tok != token.TYPE {
				continue
			}
			for _, spec := range types.Specs {
				if noun := spec.(*ast.TypeSpec).Name.Name; slices.Contains(nouns, noun) {
					if packages[noun] == nil {
						packages[noun] = map[string]bool{}
					}
					packages[noun][filepath.Dir(name)] = true
				}
			}
		}
	}
	for _, noun := range nouns {
		of := slices.Sorted(maps.Keys(packages[noun]))
		if len(of) > 2 {
			t.Errorf("%s is a type of %d packages: wanted at most 2, with names such as RunFigures or PatternRow: %s", noun,
				len(of), strings.Join(of, ", "))
		}
	}
}
