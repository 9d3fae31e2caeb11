package figures

import (
	"fmt"

	"perigee/internal/result"
)

// pathLine is the path in a line.
func pathLine(p *result.Paths) string {
	if p == nil || len(p.Uses) == 0 {
		return ""
	}
	u := p.Uses[0]
	var all int64
	for _, o := range p.Uses {
		all += o.Count
	}
	return fmt.Sprintf("path: %s %s-%s %s/%s %s %.0f %%", u.Op, u.Local, u.Remote, u.Transport, u.Device, u.How,
		100*float64(u.Count)/float64(max(all, 1)))
}
