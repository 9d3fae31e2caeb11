// Package lazyre has regular expressions that are compiled when they are first used: every rank is a process, and to
// compile those of all commands took a tenth of its start.
package lazyre

import (
	"regexp"
	"sync"
)

// Regexp is a [regexp.Regexp]. Its methods are those of that type.
type Regexp struct{ compiled func() *regexp.Regexp }

// New takes an expression, which must be right: a wrong one panics when it is first used.
func New(expr string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
}

// Get returns the compiled expression.
func (r *Regexp) Get() *regexp.Regexp { return r.compiled() }

// MatchString reports whether s has a match.
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

// FindString returns the first match, "" if there is none.
func (r *Regexp) FindString(s string) string { return r.compiled().FindString(s) }

// FindStringSubmatch returns the first match and its groups, nil if there is none.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

// FindSubmatch returns the first match and its groups, nil if there is none.
func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.compiled().FindSubmatch(b) }

// ReplaceAllString replaces each match; $1 stands for its first group.
func (r *Regexp) ReplaceAllString(s, by string) string { return r.compiled().ReplaceAllString(s, by) }
