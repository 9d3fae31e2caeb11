package play

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// testSeed is that of all sessions.
const testSeed = 11

// onRanks calls body at n ranks, each with a session on an engine, and returns their errors.
// No session closes before all ranks are through.
func onRanks(t testing.TB, n int, engine nixl.Engine, cfg nixl.AgentConfig,
	body func(w *spmd.World, s *session.Session) error) []error {
	t.Helper()
	open := make([]*session.Session, n)
	errs := traffictest.Worlds(t, n, func(w *spmd.World) error {
		s, err := session.Open(w, engine, cfg, testSeed)
		if err != nil {
			return err
		}
		open[w.Rank()] = s
		return body(w, s)
	})
	for r, s := range open {
		if s == nil {
			continue
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("rank %d: close: %v", r, err)
			}
		}
	}
	return errs
}

// tryRanks is onRanks on the engine of this process.
func tryRanks(t testing.TB, n int, body func(w *spmd.World, s *session.Session) error) []error {
	t.Helper()
	return onRanks(t, n, new(traffictest.Engine), nixl.AgentConfig{}, body)
}

// mustRanks is tryRanks for what must not fail.
func mustRanks(t testing.TB, n int, body func(w *spmd.World, s *session.Session) error) {
	t.Helper()
	for r, err := range tryRanks(t, n, body) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// fromRows makes a matrix.
func fromRows(t testing.TB, rows ...[]int64) *matrix.Matrix {
	t.Helper()
	m, err := matrix.FromRows(rows)
	must.Do(t, err)
	return m
}

// drawMatrix draws a matrix of small cells, many of them 0.
func drawMatrix(t *rapid.T, n int, label string) *matrix.Matrix {
	m := matrix.New(n)
	for i := range n {
		for j := range n {
			bytes := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 20), rapid.Int64Range(0, 5000)).
				Draw(t, fmt.Sprintf("%s[%d][%d]", label, i, j))
			must.Do(t, m.Set(i, j, bytes))
		}
	}
	return m
}

// wantedByte computes a byte of a message anew from what the stream is documented to be:
// key holds the number of the plan and the message's key.
func wantedByte(off int64, key ...int) byte {
	mix := func(x uint64) uint64 {
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return x ^ x>>31
	}
	const golden = 0x9e3779b97f4a7c15
	k := mix(testSeed + golden)
	for _, v := range key {
		k = mix(k ^ mix(uint64(v)+golden))
	}
	w := mix(k + uint64(off/8)*golden)
	return byte(w >> (8 * (off % 8)))
}
