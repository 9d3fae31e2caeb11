package play

import (
	"errors"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// late is an engine whose bytes are seen at their target only some time after they were complete.
type late struct {
	traffictest.Engine
	backend string
	delay   time.Duration
}

func (e *late) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	a, err := e.Engine.NewAgent(cfg)
	return lateAgent{a, e}, err
}

type lateAgent struct {
	nixl.Agent
	e *late
}

func (a lateAgent) Info() nixl.Info {
	i := a.Agent.Info()
	i.Backend = a.e.backend
	return i
}

func (a lateAgent) Alloc(mem nixl.Mem, size int64) (nixl.Buffer, error) {
	b, err := a.Agent.Alloc(mem, size)
	return &lateBuffer{Buffer: b, e: a.e}, err
}

type lateBuffer struct {
	nixl.Buffer
	e     *late
	since time.Time // the first read after the last write
}

func (b *lateBuffer) WriteAt(p []byte, off int64) (int, error) {
	b.since = time.Time{}
	return b.Buffer.WriteAt(p, off)
}

func (b *lateBuffer) ReadAt(p []byte, off int64) (int, error) {
	if b.since.IsZero() {
		b.since = time.Now()
	}
	n, err := b.Buffer.ReadAt(p, off)
	if b.ID() == recvBuffer && time.Since(b.since) < b.e.delay {
		p[0] ^= 1
	}
	return n, err
}

// Bytes that come late are right with a backend that calls a WRITE complete early, unless they never come. With others
// they are wrong.
func TestLateBytes(t *testing.T) {
	for _, c := range []struct {
		backend string
		delay   time.Duration
		right   bool
	}{{"LIBFABRIC", 100 * time.Millisecond, true}, {"UCX", 100 * time.Millisecond, false}, {"LIBFABRIC", time.Hour, false}} {
		errs := onRanks(t, 2, &late{backend: c.backend, delay: c.delay}, nixl.AgentConfig{}, func(w *spmd.World, s *session.Session) error {
			p, err := New(s, load.Pattern{Name: "p", Matrix: fromRows(t, []int64{0, 100}, []int64{0, 0}), Shards: 1})
			if err != nil {
				return err
			}
			return Verify(p)
		})
		if got := errors.Join(errs...); (got == nil) != c.right || got != nil && fault.KindOf(errs[1]) != fault.Corrupt {
			t.Errorf("%s, %v: %v", c.backend, c.delay, got)
		}
	}
}

// filesOnly is an engine for files alone.
type filesOnly struct{ traffictest.Engine }

func (*filesOnly) FilesOnly() nixl.Backend {
	return nixl.Backend{Name: "OBJ", Params: map[string]string{"bucket": "b"}}
}

func (*filesOnly) NotForRanks() error { return fault.New(fault.Usage, "not for ranks").WithHint("no") }

// An engine for files alone refuses traffic between ranks, and says which backend it has.
func TestFilesOnly(t *testing.T) {
	errs := onRanks(t, 2, &filesOnly{}, nixl.AgentConfig{}, func(w *spmd.World, s *session.Session) error {
		if i := s.Info(); i.Backend != "OBJ" || i.Params["bucket"] != "b" {
			t.Errorf("%+v", i)
		}
		_, err := New(s, load.Pattern{Name: "p", Matrix: fromRows(t, []int64{0, 100}, []int64{0, 0}), Shards: 1})
		return err
	})
	must.Fail(t, errs[0], fault.Usage, "not for ranks")
	folder := t.TempDir()
	errs = onRanks(t, 2, &filesOnly{}, nixl.AgentConfig{}, func(w *spmd.World, s *session.Session) error {
		p, err := New(s, load.Blocks{Peers: [][]int{{0}, {1}}, Remote: nixl.FILE, Store: load.Store{Path: folder, Count: 1}, Threads: 1, Block: 100, Batch: 2})
		if err != nil {
			return err
		}
		return Verify(p)
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
