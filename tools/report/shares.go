package report

import (
	_ "embed"
	"strconv"

	"perigee/internal/figures"
)

//go:embed shares.html
var sharesHTML string

var shareText = orElse("-", func(n figures.Num) string { return strconv.FormatFloat(float64(n), 'g', 3, 64) })

func writeShares(p *printer, f *figures.Figures, l look) {
	if f.Shares == nil {
		return
	}
	t := shareSheet(f.Shares)
	p.grid(l, t)
	p.line("# %s", t.Say[0])
}
