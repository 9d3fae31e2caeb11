package report

import (
	"path/filepath"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
)

// synthetic says what result to invent.
type synthetic struct {
	ranks, hosts, patterns int
	senders, peers         int // of a pattern
	isolated, iterations   int
}

func (s synthetic) whole() resulttest.Synthetic {
	return resulttest.Synthetic{
		Ranks: s.ranks, Hosts: s.hosts, Patterns: s.patterns, Senders: s.senders, Peers: s.peers,
		Isolated: s.isolated, Iterations: s.iterations,
	}
}

func (s synthetic) document() *result.Document { return s.whole().Document() }

func (s synthetic) each(d *result.Document, give func(*result.Measurement)) { s.whole().Each(d, give) }

// write stores the invented result, and returns the size of its JSON text.
func (s synthetic) write(t testing.TB, name string) (path string, bytes int64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	bytes, err := s.whole().Write(path)
	must.Do(t, err)
	return path, bytes
}
