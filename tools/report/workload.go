package report

import (
	"slices"
	"strconv"

	"perigee/internal/figures"
	"perigee/internal/kit/size"
)

// ofRequests reports whether patterns are the traffic of requests whose tokens are known.
func ofRequests(list []figures.Pattern) bool {
	return slices.ContainsFunc(list, func(p figures.Pattern) bool { return p.Tokens > 0 })
}

// nameRequests puts requests, tokens and the bytes of their caches in place of the first column, the patterns' numbers.
func nameRequests(list []figures.Pattern, columns []string, rows [][]string) ([]string, [][]string) {
	if !ofRequests(list) {
		return columns, rows
	}
	for i, p := range list {
		rows[i] = slices.Replace(rows[i], 0, 1, p.Label(), numberText(p.Tokens), kvText(p.KVBytes))
	}
	return slices.Replace(columns, 0, 1, "Pattern", "Tokens", "KV bytes"), rows
}

// numberText is a number that is not known where it is 0.
func numberText(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func kvText(n int64) string {
	if n == 0 {
		return "-"
	}
	return size.Decimal(n)
}
