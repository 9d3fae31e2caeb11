package spmd

import (
	"context"
	"log/slog"
)

// Log returns this rank's logger. Each line has the rank's phase.
func (w *World) Log() *slog.Logger { return w.log }

// withPhase adds this rank's phase to every line of a logger, which may be nil.
func (w *World) withPhase(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(phased{l.Handler(), w})
}

// phased is a handler that adds the phase in which a line is written.
type phased struct {
	slog.Handler
	w *World
}

func (p phased) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	r.AddAttrs(slog.String("phase", p.w.CurrentPhase()))
	return p.Handler.Handle(ctx, r)
}

func (p phased) WithAttrs(attrs []slog.Attr) slog.Handler {
	return phased{p.Handler.WithAttrs(attrs), p.w}
}

func (p phased) WithGroup(name string) slog.Handler { return phased{p.Handler.WithGroup(name), p.w} }

// loggedHosts is how many hosts a line has.
const loggedHosts = 16

// logWorld logs the world that this rank has joined.
func (w *World) logWorld() {
	if !w.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	hosts := w.Hosts()
	var names []string
	for _, h := range hosts[:min(len(hosts), loggedHosts)] {
		names = append(names, h.Name)
	}
	w.log.Info("joined the world", "size", w.size, "hosts", len(hosts), "names", names)
}

// logClocks logs how far the clock of this rank's host is off rank 0's, and how well that is known.
func (w *World) logClocks() {
	c := w.lines()[w.roster.hostOf(w.rank)].Last()
	w.log.Info("measured the clocks", "offset_ns", c.OffsetNS, "uncertainty_ns", c.UncertaintyNS)
}
