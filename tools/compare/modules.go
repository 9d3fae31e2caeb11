package compare

import (
	"fmt"
	"slices"

	"perigee/internal/result"
)

// modulesDiffer compares the texts of the modules that both scenarios require; what else differs follows from theirs.
func modulesDiffer(a, b *result.Document) (list []string) {
	for _, m := range a.Scenario.Modules {
		i := slices.IndexFunc(b.Scenario.Modules, func(n result.Module) bool { return n.Name == m.Name })
		if i >= 0 && b.Scenario.Modules[i].SHA256 != m.SHA256 {
			list = append(list, fmt.Sprintf("the text of the module %s differs (%s and %s)", m.Name, m.File,
				b.Scenario.Modules[i].File))
		}
	}
	return list
}
