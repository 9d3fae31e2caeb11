package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"strconv"

	"perigee/internal/figures"
)

//go:embed shares.html
var sharesHTML string

// columnsOfShares are the headers of the table of shares, of which rowsOfShares has a row for each class.
func columnsOfShares() []string {
	return []string{"Class", "Runs", "Weight", "Throughput", "Alone", "Leakage", "In SLO", "Goodput"}
}

func rowsOfShares(s *figures.Shares) (rows [][]string) {
	for _, x := range s.Classes {
		rows = append(rows, []string{cmp.Or(x.Class, "(none)"), strconv.Itoa(x.Runs), shareText(x.Weight),
			plainRate(x.Throughput), plainRate(x.Isolated), shareText(x.Leakage), shareText(x.Attainment),
			plainRate(x.Goodput)})
	}
	return rows
}

func sumOfShares(s *figures.Shares) string {
	return fmt.Sprintf("Jain's index of throughput / weight: %s. Sum of weight x goodput: %s.", shareText(s.Jain),
		plainRate(s.Goodput))
}

var shareText = orElse("-", func(n figures.Num) string { return strconv.FormatFloat(float64(n), 'g', 3, 64) })

func writeShares(p *printer, f *figures.Figures, l look) {
	if f.Shares == nil {
		return
	}
	p.grid(l, "shares by class", columnsOfShares(), rowsOfShares(f.Shares))
	p.line("# %s", sumOfShares(f.Shares))
}
