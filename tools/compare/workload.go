package compare

import (
	"cmp"
	"slices"

	"perigee/internal/result"
)

// whatOf are the titles and the workloads of both sides.
func whatOf(old, fresh *result.Document) (lines []string) {
	for _, said := range [][2]string{{old.Title, fresh.Title}, {old.Workload, fresh.Workload}} {
		if said[0] == said[1] {
			said[1] = ""
		} else {
			said = [2]string{"OLD: " + cmp.Or(said[0], "-"), "NEW: " + cmp.Or(said[1], "-")}
		}
		lines = append(lines, said[:]...)
	}
	return slices.DeleteFunc(lines, func(text string) bool { return text == "" })
}
