package report

import (
	"slices"

	"perigee/internal/figures"
)

// ofRequests reports whether patterns are the traffic of requests whose tokens are known.
func ofRequests(list []figures.PatternFigures) bool {
	return slices.ContainsFunc(list, func(p figures.PatternFigures) bool { return p.Tokens > 0 })
}
