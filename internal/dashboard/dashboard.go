package dashboard

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/result"
)

// Every is how often figures are handed on.
const Every = 10 * time.Second

// target is where figures go.
type target interface {
	name() string
	put(s *snapshot) error
}

// textFile is a file in Prometheus' text format, such as node_exporter reads. It is replaced as a whole.
type textFile struct{ path string }

func (f textFile) name() string { return f.path }

func (f textFile) put(s *snapshot) error {
	return file.Write(f.path, func(w io.Writer) error { return writeText(w, s.run, s.families) })
}

// snapshot is a run's figures at one time.
type snapshot struct {
	run          []label
	began, taken time.Time
	families     []family
}

// Board hands on the figures of one run. Its methods are for the goroutine that changes the document.
type Board struct {
	outlets []*outlet
	figures figures
	mu      sync.Mutex
	now     *snapshot // under mu, the last
	stop    chan struct{}
	stopped chan struct{}
}

// outlet is a target and what became of it.
type outlet struct {
	target
	puts, failed int
	last         error
}

// parse reads a value of --metrics.
func parse(text string) (target, error) {
	form, where, found := strings.Cut(text, "=")
	switch {
	case found && form == "prometheus-file" && where != "":
		return textFile{where}, nil
	case found && form == "otlp" && where != "":
		c, err := newCollector(where)
		if err != nil {
			return nil, fault.New(fault.Usage, "--metrics: %w", err)
		}
		return c, nil
	}
	return nil, fault.New(fault.Usage, "--metrics %q: want prometheus-file=PATH or otlp=URL", text)
}

// Files are the paths that values of --metrics name. A value that means nothing is an error.
func Files(values []string) (paths []string, err error) {
	for _, text := range values {
		t, err := parse(text)
		if err != nil {
			return nil, err
		}
		if f, ok := t.(textFile); ok {
			paths = append(paths, f.path)
		}
	}
	return paths, nil
}

// Start hands on the figures of a run to targets that [Files] has checked, the first ones at once and later ones every
// ten seconds.
func Start(values []string, d *result.Document) *Board {
	b := &Board{stop: make(chan struct{}), stopped: make(chan struct{})}
	for _, text := range values {
		if t, err := parse(text); err == nil {
			b.outlets = append(b.outlets, &outlet{target: t})
		}
	}
	b.now = b.take(d)
	go b.serve()
	return b
}

// take makes a snapshot.
func (b *Board) take(d *result.Document) *snapshot {
	return &snapshot{run: identity(d), began: d.Started, taken: time.Now(), families: b.figures.observe(d)}
}

// Observe takes the figures of a document that has grown, but not more often than a second apart.
func (b *Board) Observe(d *result.Document) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.now.taken) >= time.Second {
		b.now = b.take(d)
	}
}

// Count takes in a run of which the document keeps no measurement.
func (b *Board) Count(d *result.Document, m *result.Measurement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.figures.count(d, m)
}

// serve hands on the last snapshot from time to time.
func (b *Board) serve() {
	defer close(b.stopped)
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		b.mu.Lock()
		s := b.now
		b.mu.Unlock()
		b.handOn(s)
		select {
		case <-b.stop:
			return
		case <-tick.C:
		}
	}
}

// handOn gives all targets a snapshot, with the present time: a run that has stopped to do so shows.
func (b *Board) handOn(s *snapshot) {
	now := *s
	now.taken = time.Now()
	now.families = append(slices.Clip(s.families), family{"perigee_updated_time_seconds", "s",
		"When rank 0 wrote these figures, seconds since 1970.", gauge, []sample{{value: seconds(now.taken)}}})
	for _, o := range b.outlets {
		o.puts++
		if err := o.put(&now); err != nil {
			o.failed, o.last = o.failed+1, err
		}
	}
}

// Finish hands on the figures of a document that is finished, and returns what failed in words, one for each target.
func (b *Board) Finish(d *result.Document) (notes []string) {
	close(b.stop)
	<-b.stopped
	b.handOn(b.take(d))
	for _, o := range b.outlets {
		if o.failed > 0 {
			notes = append(notes, fmt.Sprintf("metrics: %d of %s to %s failed: %v", o.failed,
				cli.Count(o.puts, "update"), o.name(), o.last))
		}
	}
	return notes
}
