package value

import (
	"fmt"
	"slices"
	"strings"
)

// meanings are words that are called otherwise here, though another one is nearer in letters.
var meanings = map[string]string{
	"gpu": "cuda", "avg": "mean", "average": "mean", "matrix": "matgen", "matrices": "matgen",
}

// Suggestion returns `; did you mean "iters"?` if a candidate looks like a misspelt word or is the only one to begin
// with it, otherwise "".
func Suggestion(word string, candidates []string) string {
	if other := meanings[strings.ToLower(word)]; slices.Contains(candidates, other) {
		return fmt.Sprintf("; did you mean %q?", other)
	}
	if len(word) > 100 {
		return "" // too long for a typing error, and the distance takes long
	}
	best, bestDistance := "", max(2, len(word)/3)+1
	for _, candidate := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < bestDistance && d < len(candidate) {
			best, bestDistance = candidate, d
		}
	}
	const letters = 3 // fewer begin too much
	other := func(candidate string) bool { return len(word) < letters || !strings.HasPrefix(candidate, word) }
	if begins := slices.DeleteFunc(slices.Clone(candidates), other); len(begins) == 1 && best == "" {
		best = begins[0] // latency_ms of latency
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance returns how many letters must be inserted, deleted, replaced or
// swapped with their neighbour to make b of a (optimal string alignment).
func distance(a, b string) int {
	before := make([]int, len(b)+1) // two rows up
	above := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := above[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
