package report

import (
	_ "embed"

	"perigee/internal/figures"
)

//go:embed replay.html
var replayHTML string

func writeReplay(p *printer, r *figures.Replay, l look) {
	p.grid(l, scaleSheet(r))
	p.grid(l, requestSheet(r))
}
