package runs

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/expr"
)

// LoadLevel is a load of a configuration, with the runs of it, which are repeats, of two sides that are compared.
type LoadLevel struct {
	Name              string  // of the configuration: its folder below what was asked for, or its engines
	Concurrency, Rate float64 // NaN where it is not known
	Runs              [2][]*Record

	work string // model and lengths, where another level has the same name and load
}

// Test names all of the level but its concurrency.
func (l *LoadLevel) Test() string {
	name := l.Name + l.work
	if math.IsNaN(l.Concurrency) && !math.IsNaN(l.Rate) {
		name += fmt.Sprintf(" at %g req/s", l.Rate)
	}
	return strings.TrimLeft(name, ", ")
}

// String names the level.
func (l *LoadLevel) String() string {
	text := l.Test()
	if !math.IsNaN(l.Concurrency) {
		text += fmt.Sprintf(" at concurrency %g", l.Concurrency)
	}
	return cmp.Or(strings.TrimPrefix(strings.TrimSpace(text), "at "), "any load")
}

// Place puts a run of a side, which was found below a path, into its level. Runs of different work are not in one.
func Place(levels []*LoadLevel, side int, path string, r *Record) []*LoadLevel {
	work := func(r *Record) string {
		return fmt.Sprintf(", %s, ISL %s, OSL %s", r.Model, expr.Num(r.ISL), expr.Num(r.OSL))
	}
	same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
	fresh := &LoadLevel{Name: r.below(path), Concurrency: r.Concurrency, Rate: r.Rate}
	for _, l := range levels {
		if l.Name != fresh.Name || !same(l.Concurrency, r.Concurrency) || !same(l.Rate, r.Rate) {
			continue
		}
		first := slices.Concat(l.Runs[:]...)[0]
		if first.SameWork(r) {
			l.Runs[side] = append(l.Runs[side], r)
			return levels
		}
		l.work, fresh.work = work(first), work(r)
	}
	fresh.Runs[side] = []*Record{r}
	return append(levels, fresh)
}

// below names the configuration of a run that was found below a path: the folder of a client's file, the engines of a
// report, with the folders above those below the path. So the same configuration has one name in every release.
func (r *Record) below(path string) string {
	folder, err := filepath.Rel(path, filepath.Dir(r.File))
	if err != nil || strings.HasPrefix(folder, "..") { // the path is the file
		folder = "."
	}
	if r.Label == "" {
		return filepath.Join(filepath.Dir(folder), r.Name())
	}
	return strings.TrimPrefix(folder, ".")
}

// SortLevels puts levels into the order of tables.
func SortLevels(levels []*LoadLevel) {
	slices.SortStableFunc(levels, func(a, b *LoadLevel) int {
		return cmp.Or(Natural(a.Name, b.Name), strings.Compare(a.work, b.work),
			cmp.Compare(a.Concurrency, b.Concurrency), cmp.Compare(a.Rate, b.Rate))
	})
}
